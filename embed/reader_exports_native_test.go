//go:build native

package embed

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// field writes a length-delimited field of a protocol buffer.
func field(number byte, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	if len(body) > 127 {
		return slices.Concat([]byte{number<<3 | 2, byte(len(body)&127 | 128), byte(len(body) >> 7)}, body)
	}
	return slices.Concat([]byte{number<<3 | 2, byte(len(body))}, body)
}

// column is what a GraphProto has for an output that is a column of the logits, [batch, sequence]: an initialiser, a
// Gather on the last axis, and the output.
func column(name string, index byte) []byte {
	text := func(number byte, s string) []byte { return field(number, []byte(s)) }
	tensor := field(5, []byte{2 << 3, 7}, field(7, []byte{index}), text(8, name+"_index")) // INT64
	axis := field(5, text(1, "axis"), []byte{3 << 3, 2, 20<<3&127 | 128, 1, 2})            // i = 2, type = INT
	node := field(1, text(1, onnx.Logits), text(1, name+"_index"), text(2, name), text(4, "Gather"), axis)
	shape := field(2, field(1, text(2, "batch")), field(1, text(2, "sequence")))
	return slices.Concat(node, tensor, field(12, text(1, name), field(2, field(1, []byte{1 << 3, 1}, shape))))
}

// exportReader is exportHead with outputs as exports of readers have them. Fields that are repeated in a serialised
// message are merged, so what is appended is part of the graph.
func exportReader(t *testing.T, from string, outputs ...string) string {
	t.Helper()
	to := exportHead(t, from, onnx.Spans, foreign+`,"id2label":{"0":"a","1":"b","2":"c"}}`)
	path := filepath.Join(to, "model.onnx")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range outputs {
		raw = append(raw, field(7, column(name, byte(i)))...)
	}
	put(t, to, "model.onnx", string(raw))
	return to
}

func TestExportedReaders(t *testing.T) {
	needLibrary(t)
	dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Prefixed: true, Kind: "reader"})
	texts := append(smallTexts(), strings.Repeat("the gate opens at noon. ", 60))
	const question = "when is the gate open?"
	own, ready := openReader(t, dir, Options{}),
		openReader(t, exportReader(t, dir, onnx.StartLogits, onnx.EndLogits), Options{})
	want, err := own.Read(t.Context(), question, texts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ready.Read(t.Context(), question, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range got {
		w := want[i]
		if d := max(g.Score-w.Score, w.Score-g.Score, g.Null-w.Null, w.Null-g.Null); g.Start != w.Start ||
			g.End != w.End || !(d <= 4e-6) {
			t.Errorf("passage %d: %+v, expected %+v", i, g, w)
		}
	}
	for missing, outputs := range map[string][]string{
		onnx.StartLogits: nil, onnx.EndLogits: {onnx.StartLogits},
	} {
		_, err := OpenReader(t.Context(), exportReader(t, dir, outputs...), Options{})
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "no output "+missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

// TestWindowsOfLongQuestions: what is read of a passage does not grow with the question.
func TestWindowsOfLongQuestions(t *testing.T) {
	pair := template{{ids: []uint32{1}}, {text: 1}, {ids: []uint32{2}}, {text: 2, kind: 1}, {ids: []uint32{2}, kind: 1}}
	context := make([]uint32, 10_000)
	for _, asked := range []int{0, 5, 60, 5000} {
		read := 0
		for _, w := range pair.windowsOf(make([]uint32, asked), context, make([][2]int, len(context)), 120, 128) {
			if read += len(w.At); len(w.IDs) > 123 {
				t.Fatalf("a window of %d tokens", len(w.IDs))
			}
		}
		if read < len(context) || read > 4*len(context) {
			t.Errorf("a question of %d tokens: %d tokens of %d are read", asked, read, len(context))
		}
	}
}
