package llm_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/llm"
)

// TestRequantise: the written file generates text, and says what it is.
func TestRequantise(t *testing.T) {
	race.Skip(t)
	from, err := models.LocateGGUF("SmolLM2-135M-Instruct")
	if err != nil || !llm.Available {
		t.Skipf("SKIP: the default language model is not there: %v", err)
	}
	to := filepath.Join(t.TempDir(), "model.Q8_0.gguf")
	if err := llm.Requantise(from, to, "Q9_9"); !errors.Is(err, llm.ErrOptions) {
		t.Errorf("an unknown type: %v", err)
	}
	if err := llm.Requantise(filepath.Join(t.TempDir(), "none"), to, "Q8_0"); !errors.Is(err, llm.ErrModel) {
		t.Errorf("no file: %v", err)
	}
	if err := llm.Requantise(from, to, "Q8_0"); err != nil {
		t.Fatal(err)
	}
	m, err := llm.Open(t.Context(), to, llm.Options{ContextSize: 128, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := m.Generate(t.Context(), llm.Request{Prompt: "The capital of France is", MaxTokens: 4}, nil)
	if err != nil || r.CompletionTokens == 0 {
		t.Errorf("%q, %v", r.Text, err)
	}
}
