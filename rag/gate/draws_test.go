package gate

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestDraws: draws yields the same numbers as rand.Rand from any starting position, so that the intervals in artifacts
// are reproducible.
func TestDraws(t *testing.T) {
	for _, n := range []int{1, 2, 3, 64, 100, 4097, 100_000} {
		rng, d := rand.New(rand.NewPCG(7, streamBootstrap)), newDraws(7, streamBootstrap, n)
		first := d
		for r := range 3 {
			want, got, again := make([]int32, n), make([]int32, n), make([]int32, n)
			for range n {
				want[rng.IntN(n)]++
			}
			later := first.after(uint64(r * n))
			if d.into(got)+later.into(again) > 0 || !slices.Equal(want, got) || !slices.Equal(want, again) {
				t.Fatalf("draws from %d are not those of math/rand", n)
			}
			x, y := first.after(uint64(r*n)), first.after(uint64(2*n))
			one, two := make([]int32, n), make([]int32, n)
			if x.beside(&y, one, two) > 0 || !slices.Equal(want, one) || r == 2 && !slices.Equal(want, two) ||
				x != later {
				t.Fatalf("draws from %d beside others are not those of math/rand", n)
			}
		}
	}
}

// TestBootstrapSideBySide: on several goroutines the interval is the same.
func TestBootstrapSideBySide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values, owner := make([]float64, 900), make([]int32, 900)
	for i := range values {
		values[i], owner[i] = rng.NormFloat64(), rng.Int32N(300)
	}
	for _, policy := range []string{"p5", "mean", "median"} {
		p, err := ParsePolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		b := Interval{Level: .9, Resamples: 101, Seed: 5}
		want, err := bootstrap(t.Context(), nil, p, kernels.Cosine, values, owner, b)
		if err != nil {
			t.Fatal(err)
		}
		var engine each = newEngine(t).Parallel
		got, err := bootstrap(t.Context(), engine, p, kernels.Cosine, values, owner, b)
		if err != nil || got != want || got.Low >= got.High {
			t.Errorf("%s: %+v, %v, one after the other %+v", policy, got, err, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := bootstrap(ctx, engine, p, kernels.Cosine, values, owner, b); err == nil {
			t.Errorf("%s: cancelled, no error", policy)
		}
	}
}
