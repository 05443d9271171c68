//go:build native

package embed

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Entailment is a cross-encoder for natural language inference, which classifies whether one text follows from another.
// Its labels are "entailment", "neutral" and "contradiction", or the first and any others. It is safe for concurrent
// use.
type Entailment struct{ *model }

// OpenEntailment loads a sequence-classification checkpoint that was trained on pairs of a premise and a hypothesis, as
// MultiNLI has them, or a ready export with the output "logits". id2label of config.json must name one label
// "entailment", in any case, and tokenizer.json must say how it reads two texts. Errors as of Open.
func OpenEntailment(ctx context.Context, dir string, o Options) (*Entailment, error) {
	return openAs[Entailment](ctx, dir, KindEntailment, o)
}

// entailment returns the index of the label "entailment", or -1.
func entailment(labels []string) int {
	return slices.IndexFunc(labels, func(l string) bool { return strings.EqualFold(l, "entailment") })
}

// Entails returns the probability that each hypothesis follows from the premise of the same number: the softmax over
// the labels. The longer text of a pair is cut where both are longer than the model reads.
func (e *Entailment) Entails(ctx context.Context, premises, hypotheses []string) ([]float64, error) {
	if len(premises) != len(hypotheses) {
		return nil, fmt.Errorf("%w: %d premises, %d hypotheses", ErrPairs, len(premises), len(hypotheses))
	}
	r, err := e.infer(ctx, len(premises), func(i int) (input, error) {
		premise, err := e.pair.read("", premises[i])
		if err != nil {
			return input{}, fmt.Errorf("pair %d: %w", i, err)
		}
		hypothesis, err := e.pair.read("", hypotheses[i])
		if err != nil {
			return input{}, fmt.Errorf("pair %d: %w", i, err)
		}
		in, _, err := e.pair.join(premise, hypothesis)
		return in, err
	})
	if err != nil {
		return nil, err
	}
	n, label := len(e.src.labels), entailment(e.src.labels)
	out, probabilities := make([]float64, len(premises)), make([]float32, n)
	for i := range out {
		softmax(r.data[i*n:(i+1)*n], probabilities, 1)
		out[i] = float64(probabilities[label])
	}
	return out, nil
}
