//go:build native

package ops

import "math"

// pool makes one row of each text: the mean of its rows, or its first one.
type pool struct{ first, normalise bool }

func newPool(n *node) (operator, error) {
	first, err := n.int("first")
	if err != nil {
		return nil, err
	}
	normalise, err := n.int("normalise")
	return &pool{first != 0, normalise != 0}, err
}

func (p *pool) compute(c *call) error {
	x, starts, err := c.texts()
	if err != nil {
		return err
	}
	texts := len(starts) - 1
	y, err := c.result(texts, x.Dim)
	if err != nil {
		return err
	}
	sums := make([]float64, x.Dim)
	for i := range texts {
		rows := x.Slice(int(starts[i]), int(starts[i+1]))
		p.row(y[i*x.Dim:(i+1)*x.Dim], rows.Data, rows.N, sums)
	}
	return nil
}

// row pools n rows of the size of y. The sums are of float64, as the mean of thousands of tokens needs.
func (p *pool) row(y, rows []float32, n int, sums []float64) {
	clear(sums)
	if p.first {
		n = min(n, 1)
	}
	for t := range n {
		for j, x := range rows[t*len(y) : (t+1)*len(y)] {
			sums[j] += float64(x)
		}
	}
	scale, norm := 1/float64(max(n, 1)), 0.0
	for _, s := range sums {
		norm += s * scale * s * scale
	}
	if p.normalise {
		scale /= max(math.Sqrt(norm), 1e-12)
	}
	for j, s := range sums {
		y[j] = float32(s * scale)
	}
}
