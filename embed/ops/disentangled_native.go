//go:build native

package ops

import (
	"fmt"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// disentangled is DeBERTa's attention of each text to itself. A score is the sum of up to three: of two tokens'
// contents, of the query's content and the key's relative position, and of the key's content and the query's.
//
// Source: He et al. 2021 (DeBERTa), with the buckets of onnx.Disentangled.
type disentangled struct {
	heads, span   int
	positions     onnx.Disentangled  // rows of distances
	keys, queries []*encoder.Weights // of positions, by head; nil: no such part
	scratch       sync.Pool          // of *disentangledScratch
}

// disentangledScratch is what one head of one text needs.
type disentangledScratch struct {
	scores, content, position, values []float32
	at                                []int32 // row of the positions, by the distance query − key from −(n−1) on
}

func newDisentangled(n *node) (operator, error) {
	a := &disentangled{}
	var toKeys, toQueries, buckets, farthest int
	for _, v := range []struct {
		name string
		to   *int
	}{{"heads", &a.heads}, {"span", &a.span}, {"buckets", &buckets}, {"farthest", &farthest},
		{"keys", &toKeys}, {"queries", &toQueries}} {
		var err error
		if *v.to, err = n.int(v.name); err != nil {
			return nil, err
		}
	}
	a.positions = onnx.Disentangled{Buckets: int64(buckets), Farthest: int64(farthest)}
	if a.heads < 1 || a.span < 1 || int64(a.span) != a.positions.Span() || toKeys|toQueries|1 != 1 {
		return nil, fmt.Errorf("DisentangledAttention with %d heads, a span of %d (buckets %d, farthest %d), keys %d "+
			"and queries %d", a.heads, a.span, buckets, farthest, toKeys, toQueries)
	}
	input := 2
	for _, part := range []struct {
		wanted int
		to     *[]*encoder.Weights
	}{{toKeys, &a.keys}, {toQueries, &a.queries}} {
		if part.wanted == 0 {
			continue
		}
		var err error
		if *part.to, err = a.split(n, input); err != nil {
			return nil, err
		}
		input++
	}
	return a, nil
}

// split packs an input's [2·span, heads·size] values, which must be constant, for each head.
func (a *disentangled) split(n *node, input int) ([]*encoder.Weights, error) {
	all, err := n.constant(input)
	if err != nil {
		return nil, err
	}
	if all.N != 2*a.span || all.Dim%a.heads != 0 {
		return nil, fmt.Errorf("positions of %d×%d for a span of %d and %d heads", all.N, all.Dim, a.span, a.heads)
	}
	size := all.Dim / a.heads
	out := make([]*encoder.Weights, a.heads)
	for h := range out {
		part := cpu.Rows{Data: all.Data[h*size:], N: all.N, Dim: size, Stride: all.Dim}
		if out[h], err = encoder.PackWeights(n.kernels, nil, part); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (a *disentangled) compute(c *call) error {
	qkv, starts, err := c.texts()
	if err != nil {
		return err
	}
	width := qkv.Dim / 3
	if 3*width != qkv.Dim || width%a.heads != 0 {
		return fmt.Errorf("queries, keys and values of %d values for %d heads", qkv.Dim, a.heads)
	}
	y, err := c.result(qkv.N, width)
	if err != nil {
		return err
	}
	s, _ := a.scratch.Get().(*disentangledScratch)
	if s == nil {
		s = &disentangledScratch{}
	}
	defer a.scratch.Put(s)
	for i := range starts[1:] {
		from, to := int(starts[i]), int(starts[i+1])
		s.prepare(a, to-from, width/a.heads)
		for h := range a.heads {
			if err := a.head(c, qkv.Slice(from, to), h, y[from*width:to*width], s); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare makes room for a text of n tokens, and finds the row of each distance.
func (s *disentangledScratch) prepare(a *disentangled, n, size int) {
	room(&s.scores, n*n)
	room(&s.values, n*size)
	room(&s.content, n*2*a.span)
	room(&s.position, n*2*a.span)
	s.at = s.at[:0]
	for d := 1 - n; d < n; d++ {
		s.at = append(s.at, int32(a.positions.Row(d)))
	}
}

// head computes one head of one text, whose queries, keys and values are the rows of qkv, into its columns of y.
func (a *disentangled) head(c *call, qkv cpu.Rows, h int, y []float32, s *disentangledScratch) error {
	k := c.domain.kernels
	n, width := qkv.N, qkv.Dim/3
	if n == 0 {
		return nil
	}
	size := width / a.heads
	part := func(which int) cpu.Rows {
		return cpu.Rows{Data: qkv.Data[which*width+h*size:], N: n, Dim: size, Stride: qkv.Stride}
	}
	q, keys, values := part(0), part(1), part(2)
	packed, err := encoder.PackWeights(k, nil, keys)
	if err != nil {
		return err
	}
	if err := product(c, q, packed, s.scores, n); err != nil {
		return err
	}
	parts := 1
	if a.keys != nil {
		parts++
		if err := product(c, q, a.keys[h], s.content, 2*a.span); err != nil {
			return err
		}
	}
	if a.queries != nil {
		parts++
		if err := product(c, keys, a.queries[h], s.position, 2*a.span); err != nil {
			return err
		}
	}
	a.softmax(n, 1/math.Sqrt(float64(size*parts)), s)
	for i := range n {
		for j, v := range values.Row(i) {
			s.values[j*n+i] = v
		}
	}
	if packed, err = encoder.PackWeights(k, nil, cpu.Rows{Data: s.values, N: size, Dim: n, Stride: n}); err != nil {
		return err
	}
	return product(c, cpu.Rows{Data: s.scores, N: n, Dim: n, Stride: n}, packed, y[h*size:], width)
}

// product is y = x·Wᵀ.
func product(c *call, x cpu.Rows, w *encoder.Weights, y []float32, stride int) error {
	k := c.domain.kernels
	l := encoder.Linear{X: x, Weights: w, Y: y, Stride: stride, Last: w.Panels(),
		Scratch: room(&c.scratch, encoder.LinearScratch(k, x.N, x.Dim))}
	return l.Compute(k)
}

// softmax adds the parts of the scores that depend on positions, and makes shares of them, row by row.
func (a *disentangled) softmax(n int, scale float64, s *disentangledScratch) {
	rows := 2 * a.span
	for i := range n {
		row := s.scores[i*n : (i+1)*n]
		top := math.Inf(-1)
		for j := range row {
			at := int(s.at[i-j+n-1])
			v := float64(row[j])
			if a.keys != nil {
				v += float64(s.content[i*rows+at])
			}
			if a.queries != nil {
				v += float64(s.position[j*rows+at])
			}
			v *= scale
			row[j] = float32(v)
			top = max(top, float64(row[j]))
		}
		sum := 0.0
		for j, v := range row {
			e := math.Exp(float64(v) - top)
			row[j] = float32(e)
			sum += e
		}
		for j, v := range row {
			row[j] = float32(float64(v) / sum)
		}
	}
}
