package bitsets

import (
	"fmt"
	"math/bits"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Set is a set of 2,048 rows, one bit per row, starting with the lowest bit of the first word.
type Set [32]uint64

// Step computes (Set ∩ Both) ∪ Either from three sets given by their numbers.
type Step struct{ Set, Both, Either int32 }

// Run writes the last len(steps) sets in order, one per step, and counts the rows of the last one (0 without steps). A
// step may read only sets before the one that it writes; otherwise Run returns kernels.ErrShape.
func Run(k cpu.Kernels, sets []Set, steps []Step) (count int, err error) {
	return run(k, sets, steps)
}

func goBits(sets []Set, steps []Step) (count int, err error) {
	first := len(sets) - len(steps)
	if first < 0 {
		return 0, fmt.Errorf("%w: bits: %d steps write %d sets", kernels.ErrShape, len(steps), len(sets))
	}
	for i, s := range steps {
		if n := int32(first + i); min(s.Set, s.Both, s.Either) < 0 || max(s.Set, s.Both, s.Either) >= n {
			return 0, fmt.Errorf("%w: bits: step %d reads sets %d, %d and %d, and writes set %d", kernels.ErrShape, i,
				s.Set, s.Both, s.Either, n)
		}
	}
	for i, s := range steps {
		set, both, either, to := &sets[s.Set], &sets[s.Both], &sets[s.Either], &sets[first+i]
		for w := range to {
			to[w] = set[w]&both[w] | either[w]
		}
	}
	if len(steps) > 0 {
		for _, w := range sets[len(sets)-1] {
			count += bits.OnesCount64(w)
		}
	}
	return count, nil
}
