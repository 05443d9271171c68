package statistics

import (
	"context"
	"math"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestMomentsOfManyPairs: the same counts 2⁴⁰ times over have the same mean and standard deviation. That is more pairs
// than anyone counts, and far more units of 2⁻³⁰ than an int64 holds.
func TestMomentsOfManyPairs(t *testing.T) {
	ctx := context.Background()
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		in := partInput(0)
		in.Metric = metric
		j, err := newJob(ctx, &newTestEngine(t, 0).r, DefaultTuning(), in)
		if err != nil {
			t.Fatal(err)
		}
		many := newCounts(&j.bounded.first)
		if err := j.count(ctx, &j.bounded.first, firstPass, j.bounded.allTasks(), many); err != nil {
			t.Fatal(err)
		}
		many.tasks, many.kept = nil, nil
		s := &j.out.NegativeSummary
		var mean, std float64
		for doubled := range 41 {
			s.N, j.negatives.total = many.counted, many.counted
			if err := j.moments(ctx, many); err != nil {
				t.Fatal(err)
			}
			if doubled == 0 {
				mean, std = s.Mean, s.Std
			}
			if math.Abs(s.Std-std) > 1e-9*std || metric.Ascending() && math.Abs(s.Mean-mean) > 1e-9*mean {
				t.Fatalf("%s: 2^%d times the counts: mean %v, standard deviation %v; once: %v, %v", metric, doubled,
					s.Mean, s.Std, mean, std)
			}
			if err := many.merge(many, metric); err != nil {
				t.Fatal(err)
			}
		}
	}
}
