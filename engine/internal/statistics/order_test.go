package statistics

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestKeyOrder: integer keys order like the float64 they stand for.
func TestKeyOrder(t *testing.T) {
	values := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, .5, 1, math.MaxFloat64, math.Inf(1)}
	for i, x := range values {
		if unkey(key(x)) != x {
			t.Errorf("unkey(key(%v)) = %v", x, unkey(key(x)))
		}
		if i > 0 && key(values[i-1]) >= key(x) {
			t.Errorf("key(%v) ≥ key(%v)", values[i-1], x)
		}
	}
}

// TestSelectRanks compares with sorting.
func TestSelectRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, .5, -.5})), 1,
			300).Draw(t, "values")
		ranks := rapid.SliceOfNDistinct(rapid.IntRange(0, len(values)-1), 1, 5, rapid.ID).Draw(t, "ranks")
		slices.Sort(ranks)
		sorted := slices.Sorted(slices.Values(values))
		if err := selectRanks(t.Context(), values, ranks); err != nil {
			t.Fatal(err)
		}
		for _, r := range ranks {
			if values[r] != sorted[r] {
				t.Fatalf("rank %d is %v, want %v", r, values[r], sorted[r])
			}
		}
	})
}
