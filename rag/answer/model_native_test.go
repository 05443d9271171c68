//go:build native

package answer_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// TestRealModelsGoThroughAGraph: the default language model gives verdicts by grammar and by prompt, with
// probabilities, within a budget; by tool call it says that its template has no tools.
func TestRealModelsGoThroughAGraph(t *testing.T) {
	dir := t.TempDir()
	s, err := sluice.Open(t.Context(),
		sluice.Config{Store: filepath.Join(dir, "store"), Embedder: doubles.NewEncoder(),
			Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	model, err := s.Models().Language(t.Context())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, llm.ErrUnavailable) {
		t.Skipf("SKIP: the default language model is not there: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	// a model that is brought along is trusted, whatever its scorecard says
	if s, err = sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"), Generator: model,
		Embedder: doubles.NewEncoder(), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := newWorld(t)
	file := w.File(t, "library.jsonl", doubles.Contexts)
	if _, err := s.Ingest(t.Context(), []string{file}, ingest.Options{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	for _, method := range flow.Methods() {
		o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph", Gate: answer.GateOpen, MaxTokens: 24})
		o.Budget.Calls, o.Verdicts, o.Score = 3, method, true
		a, err := s.Ask(t.Context(), "Why do lighthouses warn ships of rocks?", o)
		if err != nil {
			t.Fatal(err)
		}
		scored, read := 0, 0
		for _, step := range a.Trace.Steps {
			if step.Node == "hallucination" && step.Score != nil {
				scored++
			}
			if step.Calls > 0 && !strings.Contains(step.Detail, "no verdict could be read") {
				read++
			}
			if step.Calls > 1 || step.Calls == 1 && step.Tokens == 0 {
				t.Errorf("%s: %+v", method, step)
			}
		}
		t.Logf("%s: %s (%s): %s", method, a.Trace.Outcome, a.Trace.Why, path(a.Trace))
		if a.Trace.LLMCalls > 3 || a.Trace.LLMCalls < 2 || method == flow.Grammar && read != a.Trace.LLMCalls {
			t.Errorf("%s: %d calls, %d read", method, a.Trace.LLMCalls, read)
		}
		if method == flow.Grammar && scored == 0 {
			t.Errorf("%s: no verdict has a probability: %+v", method, a.Trace.Steps)
		}
	}
}
