//go:build native

package embed

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

func openReader(t testing.TB, dir string, o Options) *Reader {
	t.Helper()
	needLibrary(t)
	r, err := OpenReader(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReadersAgainstNumPy: spans, scores and the null answer's of passages of one window and of several.
func TestReadersAgainstNumPy(t *testing.T) {
	race.Skip(t)
	needLibrary(t)
	const question = "when is the gate open?"
	for _, s := range architectures() {
		s.Kind, s.Positions = "reader", 200
		t.Run(name(s), func(t *testing.T) {
			dir := writeCheckpoint(t, s)
			r := openReader(t, dir, Options{MaxBatchTokens: 300})
			texts := smallTexts()
			in := task{Model: dir, Task: "read"}
			for _, text := range texts {
				in.Pairs = append(in.Pairs, textPair{A: question, B: text, Limit: r.Info().MaxTokens,
					Stride: readerStride})
			}
			var want [][4]float64
			readGolden(t, runReference(t, in)+".json", &want)
			got, err := r.Read(t.Context(), question, texts)
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range got {
				w := want[i]
				span := strings.TrimSpace(texts[i][int(w[0]):int(w[1])])
				if d := max(math.Abs(g.Score-w[2]), math.Abs(g.Null-w[3])); !(d <= 2*headTolerance) ||
					texts[i][g.Start:g.End] != span {
					t.Errorf("passage %d: %+v %q, expected %v %q", i, g, texts[i][g.Start:g.End], w, span)
				}
			}
			alone, err := r.Read(t.Context(), question, texts[5:6])
			if err != nil || !reflect.DeepEqual(alone[0], got[5]) {
				t.Errorf("alone %+v, together %+v, %v", alone, got[5], err)
			}
		})
	}
}

// TestWindowsAreThoseOfTokenizers: of 1,000 long passages, made of squad16's contexts, tokens, types and places are
// those that the tokenizers library gives with a stride.
func TestWindowsAreThoseOfTokenizers(t *testing.T) {
	race.Skip(t)
	questions, contexts := squad(t, "queries"), squad(t, "contexts")
	dir, r := minilm(t), rand.New(rand.NewPCG(45, 1))
	in := task{Model: dir, Task: "windows"}
	for range 1000 {
		passage := ""
		for range 1 + r.IntN(5) {
			passage += contexts[r.IntN(len(contexts))] + "\n"
		}
		in.Pairs = append(in.Pairs, textPair{A: questions[r.IntN(len(questions))], B: passage,
			Limit: []int{128, 256, 384, 512}[r.IntN(4)], Stride: []int{0, 16, 32}[r.IntN(3)]})
	}
	var want [][]struct {
		IDs   []uint32 `json:"ids"`
		Types []int64  `json:"types"`
		First int      `json:"first"`
		At    [][2]int `json:"at"`
	}
	readGolden(t, runReference(t, in)+".json", &want)
	tok, err := OpenTokenizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	several, bad := 0, 0
	for i, p := range in.Pairs {
		got, err := tok.Windows(p.A, p.B, p.Limit, p.Stride)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 1 {
			several++
		}
		if len(got) != len(want[i]) {
			t.Fatalf("pair %d: %d windows, expected %d", i, len(got), len(want[i]))
		}
		for j, g := range got {
			w := want[i][j]
			if !reflect.DeepEqual(g.IDs, w.IDs) || !reflect.DeepEqual(g.Types, w.Types) || g.First != w.First ||
				!reflect.DeepEqual(g.At, w.At) {
				if bad++; bad < 5 {
					t.Errorf("pair %d, window %d: %+v, expected %+v", i, j, g, w)
				}
			}
		}
	}
	t.Logf("%d of %d passages have several windows", several, len(want))
}

// TestReadersRefuse: heads that are no reader's, damaged weights, and a vocabulary that does not fit.
func TestReadersRefuse(t *testing.T) {
	needLibrary(t)
	labels := checkpoint.Spec{Family: "bert", Prefixed: true, Labels: []string{"a", "b", "c"}}
	bert := checkpoint.Spec{Family: "bert", Kind: "reader"}
	for name, c := range map[string]struct {
		spec   checkpoint.Spec
		spoil  func(dir string) error
		expect string
	}{
		"a classifier": {labels, func(dir string) error { return os.Remove(filepath.Join(dir, "model.yaml")) },
			`"qa_outputs.weight" is missing`},
		"its kind":    {labels, nil, `kind is "classifier", "reader" expected`},
		"NaN weights": {bert, checkpoint.SpoilWeights, "weights are damaged"},
		"no null_answer": {bert, func(dir string) error {
			return appendTo(filepath.Join(dir, "model.yaml"), "null_threshold: .nan\n")
		}, "null_threshold NaN"},
		"vocabulary": {bert, func(dir string) error {
			return replaceIn(filepath.Join(dir, "tokenizer.json"), `"gate":`, `"gate":9999990`)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeCheckpoint(t, c.spec)
			if c.spoil != nil {
				if err := c.spoil(dir); err != nil {
					t.Fatal(err)
				}
			}
			r, err := OpenReader(t.Context(), dir, Options{})
			if err == nil {
				defer r.Close()
				_, err = r.Read(t.Context(), "the gate?", []string{"the gate opens"})
			}
			if !errors.Is(err, ErrModel) || !strings.Contains(fmt.Sprint(err), c.expect) {
				t.Errorf("%v, expected %q", err, c.expect)
			}
		})
	}
}

func appendTo(path, text string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, text...), 0o600)
}

func replaceIn(path, old, with string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(raw), old, with, 1)), 0o600)
}

// TestReadersTakeAnyText: nothing, white space, NUL bytes, invalid UTF-8, and a question that is longer than a window.
func TestReadersTakeAnyText(t *testing.T) {
	needLibrary(t)
	dir := writeCheckpoint(t, checkpoint.Spec{Family: "roberta", Prefixed: true, Kind: "reader"})
	r := openReader(t, dir, Options{})
	texts := []string{"", "   \n", "the\x00gate", "a \xff\xfe gate opens", strings.Repeat("the gate opens. ", 7000)}
	for _, question := range []string{"", "the gate?", "\x00\xff", strings.Repeat("knowledge ", 400)} {
		got, err := r.Read(t.Context(), question, texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got {
			if g.Start < 0 || g.End < g.Start || g.End > len(texts[i]) || math.IsNaN(g.Score-g.Null) {
				t.Errorf("%.20q, passage %d: %+v", question, i, g)
			}
			if isNothing := strings.TrimSpace(texts[i]) == ""; isNothing != (g.End == 0) {
				t.Errorf("%.20q, passage %d: %+v", question, i, g)
			}
			if long := len(question) > 1000; long != g.Truncated {
				t.Errorf("%.20q, passage %d: truncated %v", question, i, g.Truncated)
			}
		}
	}
	if got, err := r.Read(t.Context(), "the gate?", nil); err != nil || len(got) != 0 {
		t.Errorf("no passage: %v, %v", got, err)
	}
	if r.Close() != nil {
		t.Error("closing")
	}
	if _, err := r.Read(t.Context(), "the gate?", texts); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
