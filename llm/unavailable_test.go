//go:build !native

package llm

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// Without llama.cpp everything fails closed.
func TestUnavailable(t *testing.T) {
	preset, _ := generator.Preset("qwen2")
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := generator.Write(path, preset); err != nil {
		t.Fatal(err)
	}
	m, err := Open(context.Background(), path, Options{})
	if m != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Open: %v, %v", m, err)
	}
	m = &Model{}
	if _, err := m.Generate(context.Background(), Request{Prompt: "x"}, nil); !errors.Is(err, ErrUnavailable) {
		t.Error("Generate:", err)
	}
	if _, err := m.CountTokens("x"); !errors.Is(err, ErrUnavailable) {
		t.Error("CountTokens:", err)
	}
	if _, err := m.Tokenize("x"); !errors.Is(err, ErrUnavailable) {
		t.Error("Tokenize:", err)
	}
	if _, err := m.ApplyTemplate(nil); !errors.Is(err, ErrUnavailable) {
		t.Error("ApplyTemplate:", err)
	}
	if Available || m.ContextSize() != 0 || m.Info() != (Info{}) || m.Stats().Finished != nil || m.Close() != nil {
		t.Error("an unavailable model pretends")
	}
}
