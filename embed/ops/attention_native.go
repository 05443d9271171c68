//go:build native

package ops

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// attention is the attention of each text to itself.
type attention struct {
	heads   int
	coded   bool      // with 8 bits where that is faster
	bias    []float32 // nil: none
	far     int
	scratch sync.Pool // of *[]float32
}

func newAttention(n *node) (operator, error) {
	a := &attention{}
	var err error
	if a.heads, err = n.int("heads"); err != nil {
		return nil, err
	}
	if a.heads < 1 {
		return nil, fmt.Errorf("Attention with %d heads", a.heads)
	}
	codes, err := n.int("codes")
	if err != nil {
		return nil, err
	}
	a.coded = codes != 0
	inputs, err := n.inputs()
	if err != nil || inputs < 3 {
		return a, err
	}
	b, err := n.constant(2)
	if err != nil {
		return nil, err
	}
	if b.N != a.heads || b.Dim%2 == 0 {
		return nil, fmt.Errorf("Attention with a bias of %d×%d for %d heads", b.N, b.Dim, a.heads)
	}
	a.bias, a.far = slices.Clone(b.Data), b.Dim/2
	return a, nil
}

func (a *attention) compute(c *call) error {
	qkv, err := c.rows(0)
	if err != nil {
		return err
	}
	starts, err := c.starts(1, qkv.N)
	if err != nil {
		return err
	}
	size := qkv.Dim / 3 / a.heads
	if 3*a.heads*size != qkv.Dim {
		return fmt.Errorf("queries, keys and values of %d values for %d heads", qkv.Dim, a.heads)
	}
	y, err := c.result(qkv.N, a.heads*size)
	if err != nil {
		return err
	}
	longest := int64(0)
	for i := range starts[1:] {
		longest = max(longest, starts[i+1]-starts[i])
	}
	scratch, _ := a.scratch.Get().(*[]float32)
	if need := c.domain.kernels.AttentionScratch(int(longest), size, a.coded); scratch == nil || len(*scratch) < need {
		grown := make([]float32, need)
		scratch = &grown
	}
	defer a.scratch.Put(scratch)
	return c.domain.kernels.Attention(&cpu.Attention{QKV: qkv.Data, Heads: a.heads, Size: size, Starts: starts,
		Scale: float32(1 / math.Sqrt(float64(size))), Bias: a.bias, Far: a.far, Y: y, Scratch: *scratch,
		Coded: a.coded, Helper: c.helper, Last: len(starts) - 1, LastHead: a.heads})
}
