package answer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// cards returns the scorecard of one model: how many of ten answers and quotes are right, and whether its verdicts
// count.
func cards(write, quote int, verdicts bool) answer.Cards {
	v := exam.Verdict{Balanced: .5, Low: .4}
	if verdicts {
		v = exam.Verdict{Balanced: .9, Low: .8}
	}
	r := exam.Result{Write: exam.Share{N: write, Of: 10}, Quote: exam.Share{N: quote, Of: 10},
		Verdicts: map[prompt.Grader]exam.Verdict{}}
	for _, g := range prompt.Graders() {
		r.Verdicts[g] = v
	}
	return func(context.Context, string) (*exam.Card, error) {
		return &exam.Card{Model: "script", Sets: map[string]exam.Result{"en": r}}, nil
	}
}

// TestAutoFollowsTheScorecard: the model writes where it is right as often as quotes, and the trace says why.
func TestAutoFollowsTheScorecard(t *testing.T) {
	w := newWorld(t)
	broken := errors.New("no disk")
	for name, c := range map[string]struct {
		cards answer.Cards
		style answer.Style
		why   string
	}{
		"better":  {cards(9, 8, true), answer.Write, "9 of 10"},
		"as good": {cards(8, 8, true), answer.Write, "8 of 10"},
		"worse":   {cards(7, 8, true), answer.Quote, "7 of 10"},
		"not examined": {func(context.Context, string) (*exam.Card, error) { return nil, nil }, answer.Quote,
			"not been examined"},
		"nobody asks": {nil, answer.Write, ""},
	} {
		w.Model.Reset("Lighthouses warn of rocks [1].")
		a, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: "What do lighthouses warn of?",
			Cards: c.cards, Model: w.Generator, Options: overlay.On(answer.DefaultOptions(),
				answer.Options{Gate: answer.GateOpen})})
		if err != nil || a.Trace.Style != c.style || !strings.Contains(a.Trace.StyleReason, c.why) ||
			(a.Trace.LLMCalls > 0) != (c.style == answer.Write) {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
	}
	_, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: "Why?", Model: w.Generator,
		Options: answer.DefaultOptions(),
		Cards:   func(context.Context, string) (*exam.Card, error) { return nil, broken }})
	if !errors.Is(err, broken) {
		t.Errorf("a card that cannot be read: %v", err)
	}
}

// TestVerdictsThatDoNotCountAreNotAskedFor: what a model cannot grade is decided without it, and a user who names the
// model gets it.
func TestVerdictsThatDoNotCountAreNotAskedFor(t *testing.T) {
	w := newWorld(t)
	const said = "A deferred function runs in the order of last in, first out [1]."
	for _, flow := range []string{answer.FlowGraph, answer.FlowPaper} {
		for name, c := range map[string]struct {
			cards answer.Cards
			named answer.Decider
			nodes string // that call the model
		}{
			"all counts":     {cards(9, 8, true), answer.ByPreset, "documents generate hallucination answer"},
			"writes only":    {cards(9, 8, false), answer.ByPreset, "generate"},
			"grades only":    {cards(7, 8, true), answer.ByPreset, "documents answer"},
			"nothing":        {cards(7, 8, false), answer.ByPreset, ""},
			"nothing, named": {cards(7, 8, false), answer.ByLLM, "documents hallucination answer"},
		} {
			o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: flow})
			o.Grader = c.named
			if o.Router = answer.ByGate; flow == answer.FlowPaper && c.named == answer.ByPreset {
				o.Router = answer.ByPreset // without a web there is one choice, and nobody is asked
			}
			m := newActor(lists("generate", said))
			a, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: inScope, Cards: c.cards, Options: o,
				Model: func(context.Context) (llm.Generator, error) { return m, nil }})
			if err != nil {
				t.Fatal(err)
			}
			var asked []string
			for _, s := range a.Trace.Steps {
				if s.Calls > 0 {
					asked = append(asked, s.Node)
				}
			}
			want := c.nodes
			if flow == answer.FlowGraph && c.named == answer.ByPreset { // embeddings grade its passages
				want = strings.TrimPrefix(strings.TrimPrefix(want, "documents"), " ")
			}
			if strings.Join(asked, " ") != want {
				t.Errorf("%s, %s: %v asked the model, not %s: %s", flow, name, asked, want, path(a.Trace))
			}
		}
	}
}
