//go:build native

package ops

import (
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// linear is f(x·Wᵀ + b).
type linear struct {
	weights    *encoder.Weights
	coded      bool // weights and inputs are of 8 bits
	bias       []float32
	activation encoder.Activation
	place      int // among the products of the graph
}

func newLinear(n *node) (operator, error) {
	inputs, err := n.inputs()
	if err != nil {
		return nil, err
	}
	if inputs%2 == 0 {
		return nil, fmt.Errorf("Linear has %d inputs; x and as many weights as biases expected", inputs)
	}
	l := &linear{}
	if err := l.take(n, 1, inputs/2); err != nil {
		return nil, err
	}
	a, err := n.int("activation")
	l.activation = encoder.Activation(a)
	return l, err
}

// take packs count weights from input first on, and the biases behind them.
func (l *linear) take(n *node, first, count int) error {
	var all cpu.Rows
	for i := range count {
		w, err := n.constant(first + i)
		if err != nil {
			return err
		}
		b, err := n.constant(first + count + i)
		if err != nil {
			return err
		}
		if b.N != 1 || b.Dim != w.N || i > 0 && w.Dim != all.Dim {
			return fmt.Errorf("weights of %d×%d beside others with %d inputs, and %d biases", w.N, w.Dim, all.Dim,
				b.Dim)
		}
		l.bias = append(l.bias, b.Data...)
		if count == 1 {
			all = w
			break
		}
		all = cpu.Rows{Data: append(all.Data, w.Data...), N: all.N + w.N, Dim: w.Dim, Stride: w.Dim}
	}
	coded, err := n.int("codes")
	if err != nil {
		return err
	}
	pack := encoder.PackWeights
	if l.coded = coded != 0; l.coded {
		pack = encoder.PackCodes
	}
	if l.weights, err = pack(n.kernels, &n.arena, all); err == nil {
		l.place = len(n.linears)
		n.linears = append(n.linears, l)
	}
	return err
}

// after returns the weights that a run multiplies with behind those of l, or the first ones again for the next run.
func (d *Domain) after(l *linear) *encoder.Weights {
	return d.linears[(l.place+1)%len(d.linears)].weights
}

// operand are the inputs of a product as they are multiplied.
type operand struct {
	rows  cpu.Rows
	codes *encoder.Codes // instead of rows; nil: rows
}

// operand is x for a product, in codes if it wants them.
func (l *linear) operand(c *call, x cpu.Rows, codes *encoder.Codes) (operand, error) {
	if !l.coded {
		return operand{rows: x}, nil
	}
	return operand{codes: codes}, encoder.Encode(c.domain.kernels, codes, x)
}

// multiply computes y = f(x·Wᵀ + b) + residual; with `to` not nil, the codes of that instead.
func (l *linear) multiply(c *call, x operand, residual, y []float32, to *encoder.Codes) error {
	p := encoder.Linear{X: x.rows, Codes: x.codes, Weights: l.weights, Bias: l.bias, Activation: l.activation,
		Residual: residual, Y: y, To: to, Stride: l.weights.Out, Last: l.weights.Panels(), After: c.domain.after(l),
		Helper: c.helper}
	if !l.coded {
		p.Scratch = room(&c.scratch, encoder.LinearScratch(c.domain.kernels, x.rows.N, x.rows.Dim))
	}
	return p.Compute(c.domain.kernels)
}

// product computes y = f(x·Wᵀ + b) + residual.
func (l *linear) product(c *call, x cpu.Rows, residual, y []float32) error {
	in, err := l.operand(c, x, &c.codes[0])
	if err != nil {
		return err
	}
	return l.multiply(c, in, residual, y, nil)
}

func (l *linear) compute(c *call) error {
	x, err := c.rows(0)
	if err != nil {
		return err
	}
	y, err := c.result(x.N, l.weights.Out)
	if err != nil {
		return err
	}
	return l.product(c, x, nil, y)
}

// norm is the layer normalisation of rows.
type norm struct {
	scale, shift []float32
	epsilon      float32
}

// take reads what scales and shifts dim values from the inputs first and first + 1.
func (l *norm) take(n *node, first, dim int) error {
	for i, to := range []*[]float32{&l.scale, &l.shift} {
		v, err := n.constant(first + i)
		if err != nil {
			return err
		}
		if v.N != 1 || v.Dim != dim {
			return fmt.Errorf("normalisation of %d outputs with %d values", dim, v.Dim)
		}
		*to = slices.Clone(v.Data)
	}
	var err error
	l.epsilon, err = n.float("epsilon")
	return err
}

func (l *norm) apply(c *call, y []float32) error {
	dim := len(l.scale)
	return encoder.LayerNorm(c.domain.kernels, y, len(y)/dim, dim, dim, l.scale, l.shift, l.epsilon)
}

// linearNorm is the layer normalisation of x·Wᵀ + b + residual.
type linearNorm struct {
	linear
	norm norm
}

func newLinearNorm(n *node) (operator, error) {
	l := &linearNorm{}
	if err := l.linear.take(n, 2, 1); err != nil {
		return nil, err
	}
	return l, l.norm.take(n, 4, l.weights.Out)
}

func (l *linearNorm) compute(c *call) error {
	x, err := c.rows(0)
	if err != nil {
		return err
	}
	residual, err := c.rows(1)
	if err != nil {
		return err
	}
	out := l.weights.Out
	if residual.N != x.N || residual.Dim != out {
		return fmt.Errorf("residual of %d×%d for %d×%d", residual.N, residual.Dim, x.N, out)
	}
	y, err := c.result(x.N, out)
	if err != nil {
		return err
	}
	if err := l.product(c, x, residual.Data, y); err != nil {
		return err
	}
	return l.norm.apply(c, y)
}
