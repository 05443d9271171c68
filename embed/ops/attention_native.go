//go:build native

package ops

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// attention is the self-attention of each text.
type attention struct {
	heads   int
	coded   bool      // use 8-bit codes if that is faster
	bias    []float32 // nil: no bias
	far     int
	scratch sync.Pool // of *[]float32
}

// take reads the attributes heads and codes, and a bias by distance from the input after the others, if present.
func (a *attention) take(n *node, others int) error {
	codes, err := n.int("codes")
	if err != nil {
		return err
	}
	if a.heads, err = n.int("heads"); err != nil {
		return err
	}
	if a.coded = codes != 0; a.heads < 1 {
		return fmt.Errorf("attention with %d heads", a.heads)
	}
	inputs, err := n.inputs()
	if err != nil || inputs <= others {
		return err
	}
	b, err := n.constant(others)
	if err != nil {
		return err
	}
	if b.N != a.heads || b.Dim%2 == 0 {
		return fmt.Errorf("attention with a bias of %d×%d for %d heads", b.N, b.Dim, a.heads)
	}
	a.bias, a.far = slices.Clone(b.Data), b.Dim/2
	return nil
}

// attend computes y, which has rows of the size of a query, from rows of queries, keys and values.
func (a *attention) attend(c *call, qkv, y []float32, starts []int64) error {
	longest, rows := int64(0), starts[len(starts)-1]
	for i := range starts[1:] {
		longest = max(longest, starts[i+1]-starts[i])
	}
	if rows == 0 {
		return nil
	}
	size := len(y) / int(rows) / a.heads
	scratch, _ := a.scratch.Get().(*[]float32)
	k := c.domain.kernels
	if need := encoder.AttentionScratch(k, int(longest), size, a.coded); scratch == nil || len(*scratch) < need {
		grown := make([]float32, need)
		scratch = &grown
	}
	defer a.scratch.Put(scratch)
	arguments := encoder.Attention{QKV: qkv, Heads: a.heads, Size: size, Starts: starts,
		Scale: float32(1 / math.Sqrt(float64(size))), Bias: a.bias, Far: a.far, Y: y, Scratch: *scratch,
		Coded: a.coded, Helper: c.helper, Last: len(starts) - 1, LastHead: a.heads}
	return arguments.Compute(k)
}
