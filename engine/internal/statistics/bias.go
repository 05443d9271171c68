package statistics

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
)

// addBias adds the input's bias to a block of canonical scores, queries × contexts. A bias that is negative or no
// number is an error that names the pair.
func (j *job) addBias(ctx context.Context, scores []float64, queries, contexts []int32) error {
	if j.in.Bias == nil {
		return nil
	}
	out := make([]float32, len(scores))
	if err := j.in.Bias(ctx, queries, contexts, out); err != nil {
		return fmt.Errorf("engine: bias: %w", err)
	}
	for i, b := range out {
		switch q, c := queries[i/len(contexts)], contexts[i%len(contexts)]; {
		case math.IsNaN(float64(b)) || math.IsInf(float64(b), 0):
			return fmt.Errorf("engine: bias of query %d and context %d: %w: %v", q, c, kernels.ErrNonFinite, b)
		case b < 0:
			return fmt.Errorf("engine: bias of query %d and context %d: %w: %v is negative", q, c, kernels.ErrArgument,
				b)
		}
		scores[i] = j.in.Metric.Biased(scores[i], float64(b))
	}
	return nil
}

// biasedPairs is pairs with the bias of each.
func (j *job) biasedPairs(ctx context.Context, out []float64, queries, contexts []int32) error {
	if err := j.pairs(out, queries, contexts); err != nil || j.in.Bias == nil {
		return err
	}
	for from := 0; from < len(queries); {
		to := from + 1
		for to < len(queries) && queries[to] == queries[from] {
			to++
		}
		if err := j.addBias(ctx, out[from:to], queries[from:from+1], contexts[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}
