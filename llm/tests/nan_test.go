//go:build native

package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// tensorInfo reads what stands behind a tensor's name in a GGUF header: its offset in the data, and where the next
// tensor's entry begins.
func tensorInfo(file []byte, name int) (offset uint64, next int) {
	at := name + bytes.Index(file[name:], []byte(".weight")) + len(".weight")
	dims := int(binary.LittleEndian.Uint32(file[at:]))
	at += 4 + 8*dims + 4
	return binary.LittleEndian.Uint64(file[at:]), at + 8
}

// A logit that is not a number is an error, also where others are larger than all that can be compared with it.
func TestNaN(t *testing.T) {
	p := preset(t, "llama-spm")
	p.Type = "F32"
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := generator.Write(path, p); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	offset, _ := tensorInfo(file, bytes.Index(file, []byte("\x0d\x00\x00\x00\x00\x00\x00\x00output.weight")))
	last := bytes.LastIndex(file, []byte(".weight"))
	_, data := tensorInfo(file, last)
	data = (data + 31) &^ 31
	const token = 300 // one row of the output matrix
	at := data + int(offset) + 4*token*p.Embedding
	binary.LittleEndian.PutUint32(file[at:], math.Float32bits(float32(math.NaN())))
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := llm.Open(t.Context(), path, llm.Options{ContextSize: 64, Slots: 1, Threads: testThreads,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, temperature := range []float64{0, 1} {
		res, err := m.Generate(t.Context(), llm.Request{Prompt: "hello", MaxTokens: 4, Temperature: temperature}, nil)
		if !errors.Is(err, llm.ErrGenerate) || !strings.Contains(err.Error(), "not a number") {
			t.Errorf("temperature %v: %q, %v", temperature, res.Text, err)
		}
	}
}
