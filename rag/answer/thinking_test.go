package answer_test

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// TestThinking: the answer's request may think, beside its tokens; transformations and graders may not.
func TestThinking(t *testing.T) {
	for name, c := range map[string]struct {
		set    answer.Options
		tokens int // of thinking that the request leaves room for
	}{
		"default":   {answer.Options{}, 512},
		"medium":    {answer.Options{ReasoningEffort: llm.MediumEffort}, 1024}, // a half of the window
		"off":       {answer.Options{ReasoningEffort: llm.NoEffort}, 0},
		"budget":    {answer.Options{ThinkingBudget: 70}, 70},
		"rewritten": {answer.Options{Transform: prompt.Rewrite}, 512},
		"graph":     {answer.Options{Flow: answer.FlowGraphLLM}, 512},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Model.Answers, w.Model.Thought = []string{"What do lighthouses warn of?", "Rocks [1]."}, "Hm, rocks."
			c.set.Gate = answer.GateOpen
			o := overlay.On(answer.DefaultOptions(), c.set)
			var thought strings.Builder
			o.Think = func(piece string) error { thought.WriteString(piece); return nil }
			a, err := w.ask(t, "What do lighthouses warn of?", o)
			if err != nil {
				t.Fatal(err)
			}
			thinking := 0
			for _, r := range w.Model.Requests() {
				if r.Thinking.On() {
					thinking++
					if r.MaxTokens != answer.DefaultMaxTokens+c.tokens {
						t.Errorf("%d tokens", r.MaxTokens)
					}
				} else if len(r.Messages) > 0 && r.MaxTokens > answer.DefaultMaxTokens {
					t.Errorf("%d tokens without thinking", r.MaxTokens)
				}
			}
			want := "Hm, rocks."
			if c.tokens == 0 {
				want = ""
			}
			if name == "graph" { // its graders do not understand the answers, so that nothing is written
				if thinking > 0 {
					t.Errorf("%d of %d requests of graders think", thinking, len(w.Model.Requests()))
				}
				return
			}
			if (thinking == 1) != (want != "") || len(w.Model.Requests()) == thinking && name == "rewritten" {
				t.Errorf("%d of %d requests think", thinking, len(w.Model.Requests()))
			}
			if a.Thought != want || thought.String() != want || a.Trace.ThoughtTokens != len(strings.Fields(want)) ||
				strings.Contains(a.Answer, "Hm") {
				t.Errorf("%q, streamed %q: %+v", a.Thought, thought.String(), a)
			}
		})
	}
}
