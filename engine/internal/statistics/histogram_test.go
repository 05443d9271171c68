package statistics

import (
	"math"
	"testing"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
)

// TestSeparationOfManyPairs: 2.2 million positives, half of them above all negatives, of which there are 5·10¹²: more
// pairs of pairs than an int64 counts.
func TestSeparationOfManyPairs(t *testing.T) {
	const m, n = 2_200_000, 5_000_000_000_000
	in := distribution.Input{}
	in.Queries.Rows = m
	j := &job{in: in, out: &distribution.Result{Positive: make([]float64, m)}}
	j.q = &device.Operand{}
	j.q.N = m
	for i := range j.out.Positive {
		j.out.Positive[i] = float64(i % 2)
	}
	s := &j.out.NegativeSummary
	s.N, s.Min, s.Max = n, .25, .75
	if err := j.separation(t.Context(), []step{{.25, 0}, {.75, n}}, func(float64) float64 { return 0 }); err != nil {
		t.Fatal(err)
	}
	if math.Abs(j.out.Separation-.5) > 1e-12 || j.out.SeparationError > 1e-12 {
		t.Errorf("separation %v within %v, want .5", j.out.Separation, j.out.SeparationError)
	}
	var w wide
	for range 3 {
		w.add(math.MaxInt64)
	}
	if w.float() != 3*float64(math.MaxInt64) {
		t.Errorf("3 × MaxInt64 = %v", w.float())
	}
}
