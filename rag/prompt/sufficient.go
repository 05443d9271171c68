package prompt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// ErrOdds is wrapped by the error of a model that gives no log-probabilities.
var ErrOdds = errors.New("prompt: the model gives no log-probabilities")

// leastOdds is added to the shares of Yes and No, so that the odds are finite where one of them is not among the most
// probable tokens.
const leastOdds = 1e-6

// Sufficient asks a model whether passages answer a question and returns the natural logarithm of the odds that they
// do, between −14 and 14, by the model's own probabilities of Yes and No as the first token; 0 where neither is among
// the most probable ones. Passages that do not fit are shortened or dropped, as for Context.
func (l *Library) Sufficient(
	ctx context.Context, gen llm.Generator, question string, passages []string, priority int,
) (float64, error) {
	all := make([]shown, len(passages))
	for i, text := range passages {
		all[i] = shown{Number: i + 1, Text: strings.TrimSpace(readable(text))}
	}
	o := Options{ContextTokens: gen.ContextSize(), AnswerTokens: 1}
	o.Count, o.Literal = llm.ContentCounter(gen)
	f := fitter{l: l, name: "flow/sufficient", o: o, v: values{Question: readable(question)}}
	p, err := f.fit(all)
	if err != nil {
		return 0, err
	}
	r, err := gen.Generate(ctx, llm.Request{Messages: p.Messages, MaxTokens: 1, LogProbs: true, Alternatives: 20,
		Priority: priority}, nil)
	if err != nil {
		return 0, fmt.Errorf("prompt: whether passages answer: %w", err)
	}
	if len(r.LogProbs) == 0 || len(r.LogProbs[0].Top) == 0 {
		return 0, fmt.Errorf("%w: %s", ErrOdds, gen.Info().Name)
	}
	share, _ := llm.Choice(r, r.Text, []string{"Yes", "No"})
	return math.Log((share["Yes"] + leastOdds) / (share["No"] + leastOdds)), nil
}
