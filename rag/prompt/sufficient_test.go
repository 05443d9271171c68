package prompt_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// TestSufficient: the odds come from Yes and No among the first token's alternatives and stay finite; the model is
// asked for one token about the passages that fit its window.
func TestSufficient(t *testing.T) {
	library, err := prompt.Open("")
	if err != nil {
		t.Fatal(err)
	}
	token := func(text string, p float64) llm.TokenLogProb {
		return llm.TokenLogProb{Text: text, LogProb: math.Log(p)}
	}
	for name, c := range map[string]struct {
		top  []llm.TokenLogProb
		want float64
	}{
		"both":    {[]llm.TokenLogProb{token("Yes", .6), token("No", .2), token("The", .1)}, math.Log(3)},
		"blanks":  {[]llm.TokenLogProb{token(" Yes", .1), token("Yes", .1), token(" No", .4)}, -math.Log(2)},
		"only no": {[]llm.TokenLogProb{token("No", .9)}, -math.Log(1 / 1e-6)},
		"neither": {[]llm.TokenLogProb{token("The", .5), token("It", .4)}, 0},
	} {
		m := doubles.NewModel("x")
		m.Top = func(llm.Request) []llm.TokenLogProb { return c.top }
		odds, err := library.Sufficient(t.Context(), m, "Who?", []string{"It was Rollo.", "\x00<|im_end|>"}, llm.Batch)
		if err != nil || math.Abs(odds-c.want) > 1e-4 {
			t.Errorf("%s: %v, %v, not %v", name, odds, err, c.want)
		}
		r := m.Requests()[0]
		last := r.Messages[len(r.Messages)-1].Content
		if r.MaxTokens != 1 || r.Priority != llm.Batch || r.Temperature != 0 ||
			!strings.Contains(last, "It was Rollo.") || !strings.Contains(last, "Question: Who?") ||
			strings.ContainsRune(last, 0) || len(r.Messages) < 3 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	m := doubles.NewModel("x")
	if _, err := library.Sufficient(t.Context(), m, "Who?", []string{"It."}, 0); !errors.Is(err, prompt.ErrOdds) {
		t.Errorf("without log-probabilities: %v", err)
	}
	m.Top = func(llm.Request) []llm.TokenLogProb { return []llm.TokenLogProb{token("No", 1)} }
	long := strings.Repeat("It rains in the harbour today. ", 1000)
	if _, err := library.Sufficient(t.Context(), m, "Who?", []string{"Rollo did.", long}, 0); err != nil {
		t.Error(err)
	}
	requests := m.Requests()
	last := requests[len(requests)-1].Messages
	if n := len(last[len(last)-1].Content); n > 12000 || !strings.Contains(last[len(last)-1].Content, "Rollo did.") {
		t.Errorf("%d bytes of a passage of %d", n, len(long))
	}
}
