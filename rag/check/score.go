package check

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// similar is the cosine from which on a sentence is backed, chosen on one half of squad16's topics.
const similar = .78

// likely is the probability from which on a sentence is backed: that it is more likely to follow than not.
const likely = .5

// Entailment scores by the probability that the hypothesis follows from the premise (natural language inference).
func Entailment(entails func(ctx context.Context, premises, hypotheses []string) ([]float64, error)) Scorer {
	return Scorer{entails, likely}
}

// Cosine scores by the cosine of the texts' vectors. All are embedded by one call, equal ones once.
func Cosine(e engine.Interface, embed func(ctx context.Context, texts []string) (engine.Vectors, error)) Scorer {
	return Scorer{func(ctx context.Context, premises, hypotheses []string) ([]float64, error) {
		row, texts := map[string]int{}, []string(nil)
		for _, list := range [][]string{premises, hypotheses} {
			for _, text := range list {
				if _, known := row[text]; !known {
					row[text] = len(texts)
					texts = append(texts, text)
				}
			}
		}
		v, err := embed(ctx, texts)
		if err != nil {
			return nil, err
		}
		if v.Rows != len(texts) {
			return nil, fmt.Errorf("%w: %d vectors of %d texts", kernels.ErrShape, v.Rows, len(texts))
		}
		at := func(text string) engine.Vectors {
			return v.Slice(row[text], row[text]+1)
		}
		scores := make([]float64, len(premises))
		for i := range premises {
			hits, err := e.TopK(ctx, at(hypotheses[i]), at(premises[i]), kernels.Cosine, 1, nil)
			if err != nil {
				return nil, err
			}
			scores[i] = hits[0][0].Score
		}
		return scores, nil
	}, similar}
}
