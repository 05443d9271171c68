package kept

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
)

// TestAnswersOutliveTheProcess: what was answered is not asked again, a torn line is, and an answer without the
// probabilities that were asked for, or with one that JSON does not have.
func TestAnswersOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers.jsonl")
	model := doubles.NewModel("yes")
	ask := func(r llm.Request) {
		t.Helper()
		a, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		got, err := Generator{model, a}.Generate(t.Context(), r, nil)
		if err != nil || got.Text != "yes" {
			t.Errorf("%+v, %v", got, err)
		}
		if err := a.Trim(); err != nil {
			t.Error(err)
		}
	}
	asked := func(want int) {
		t.Helper()
		if got := len(model.Requests()); got != want {
			t.Errorf("the model was asked %d times, %d expected", got, want)
		}
	}
	first := llm.Request{Prompt: "is this a question?", MaxTokens: 1}
	ask(first)
	ask(first)
	asked(1)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw[:len(raw)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	ask(first)
	ask(first)
	asked(2)
	other := first
	other.LogProbs = true
	ask(other) // and trims what was not asked for
	ask(other)
	asked(4)
	model.Top = func(llm.Request) []llm.TokenLogProb {
		return []llm.TokenLogProb{{Text: "no", LogProb: math.Inf(-1)}}
	}
	ask(other)
	asked(5)
	model.Top = func(llm.Request) []llm.TokenLogProb { return []llm.TokenLogProb{{Text: "no", LogProb: -1}} }
	ask(other)
	ask(other)
	asked(6)
	ask(first)
	asked(7)
}
