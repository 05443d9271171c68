package gate

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDraws: the numbers are those of rand.Rand, so that intervals stay the same.
func TestDraws(t *testing.T) {
	for _, n := range []int{1, 2, 3, 64, 100, 4097, 100_000} {
		rng, d := rand.New(rand.NewPCG(7, streamBootstrap)), newDraws(7, streamBootstrap, n)
		for range 3 {
			want, got := make([]int32, n), make([]int32, n)
			for range n {
				want[rng.IntN(n)]++
			}
			if d.into(got); !slices.Equal(want, got) {
				t.Fatalf("draws from %d are not those of math/rand", n)
			}
		}
	}
}
