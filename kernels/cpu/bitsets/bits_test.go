package bitsets_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	. "github.com/sluice-rag/sluice/kernels/cpu/bitsets"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
)

// TestBits compares programs of random steps with the same steps computed row by row.
func TestBits(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(41, 1))
		for range 200 {
			given, steps := 1+rng.IntN(5), make([]Step, rng.IntN(40))
			sets := make([]Set, given+len(steps)+1) // one set behind them must stay unchanged
			for i := range sets {
				for w := range sets[i] {
					sets[i][w] = rng.Uint64() & rng.Uint64()
				}
			}
			want := append([]Set(nil), sets...)
			count := 0
			for i := range steps {
				before := given + i
				steps[i] = Step{int32(rng.IntN(before)), int32(rng.IntN(before)), int32(rng.IntN(before))}
				count = 0
				for row := range 64 * len(Set{}) {
					has := func(set int32) bool { return want[set][row/64]>>(row%64)&1 == 1 }
					want[before][row/64] &^= 1 << (row % 64)
					if has(steps[i].Set) && has(steps[i].Both) || has(steps[i].Either) {
						want[before][row/64] |= 1 << (row % 64)
						count++
					}
				}
			}
			got, err := Run(k, sets[:given+len(steps)], steps)
			if err != nil || got != count {
				t.Fatalf("%d steps: %d rows, %v; want %d", len(steps), got, err, count)
			}
			for i := range sets {
				if sets[i] != want[i] {
					t.Fatalf("%d steps over %d sets: set %d differs", len(steps), given, i)
				}
			}
		}
		for name, steps := range map[string][]Step{
			"itself": {{0, 1, 2}}, "later": {{0, 2, 1}, {0, 1, 1}}, "negative": {{-1, 0, 0}},
			"without a set": {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, "more than sets": make([]Step, 9),
		} {
			if _, err := Run(k, make([]Set, min(2+len(steps), 4)), steps); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
