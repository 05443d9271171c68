package gate

import (
	"math/bits"
	"math/rand/v2"
)

// draws are the numbers 0 … n−1 that a rand.Rand over a rand.PCG draws one after the other with IntN(n), at two thirds of
// the time: a bootstrap of a large base draws a hundred million of them.
type draws struct {
	source *rand.PCG
	n      uint64
}

func newDraws(seed1, seed2 uint64, n int) *draws { return &draws{rand.NewPCG(seed1, seed2), uint64(n)} }

// into counts len(weight) = n draws: weight[i] grows by how often i was drawn.
func (d *draws) into(weight []int32) {
	n := d.n
	weight = weight[:n]
	if n&(n-1) == 0 {
		for range n {
			weight[d.source.Uint64()&(n-1)]++
		}
		return
	}
	for range n {
		high, low := bits.Mul64(d.source.Uint64(), n)
		for low < n && low < -n%n { // of 2⁶⁴ numbers, so many are left over (Lemire 2019)
			high, low = bits.Mul64(d.source.Uint64(), n)
		}
		weight[high]++
	}
}
