//go:build native

package ops

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// layer is a layer of a transformer that normalises behind each of its two halves:
//
//	h = norm(x + Wo·attention(Wqkv·x))
//	y = norm(h + Wdown·f(Wup·h))
//
// What lies between is memory of the call, so ONNX Runtime is called once a layer, and with 8 bits an output is written
// as the next product reads it.
type layer struct {
	qkv, out, up, down        linear
	attention                 attention
	attentionNorm, outputNorm norm
}

// layerInputs is the inputs of a Layer without a bias: x, starts, 3 weights and 3 biases of queries, keys and values,
// and weights, biases, scales and shifts of what follows.
const layerInputs = 18

func newLayer(n *node) (operator, error) {
	l := &layer{}
	if err := l.attention.take(n, layerInputs); err != nil {
		return nil, err
	}
	if err := l.qkv.take(n, 2, 3); err != nil {
		return nil, err
	}
	if err := l.out.take(n, 8, 1); err != nil {
		return nil, err
	}
	width, hidden := l.qkv.weights.Out/3, l.qkv.weights.In
	if width%l.attention.heads != 0 || 3*width != l.qkv.weights.Out || l.out.weights.In != width ||
		l.out.weights.Out != hidden {
		return nil, fmt.Errorf("queries, keys and values of %d values for %d heads, and %d×%d weights behind them",
			l.qkv.weights.Out, l.attention.heads, l.out.weights.Out, l.out.weights.In)
	}
	if err := l.attentionNorm.take(n, 10, hidden); err != nil {
		return nil, err
	}
	if err := l.up.take(n, 12, 1); err != nil {
		return nil, err
	}
	if err := l.down.take(n, 14, 1); err != nil {
		return nil, err
	}
	if l.up.weights.In != hidden || l.down.weights.In != l.up.weights.Out || l.down.weights.Out != hidden {
		return nil, fmt.Errorf("%d values to %d×%d and %d×%d weights", hidden, l.up.weights.Out, l.up.weights.In,
			l.down.weights.Out, l.down.weights.In)
	}
	a, err := n.int("activation")
	if err != nil {
		return nil, err
	}
	l.up.activation = encoder.Activation(a)
	return l, l.outputNorm.take(n, 16, hidden)
}

func (l *layer) compute(c *call) error {
	x, starts, err := c.texts()
	if err != nil {
		return err
	}
	if x.Dim != l.qkv.weights.In {
		return fmt.Errorf("%d values a token where a layer has %d", x.Dim, l.qkv.weights.In)
	}
	y, err := c.result(x.N, x.Dim)
	if err != nil {
		return err
	}
	// The outputs of `up` lie where queries, keys, values and their mixtures lay.
	tokens, first, mixed, wide := x.N, l.qkv.weights.Out, l.out.weights.In, l.up.weights.Out
	memory := room(&c.memory, tokens*(x.Dim+max(first+mixed, wide)))
	h, rest := rowsOf(memory, tokens, x.Dim), memory[tokens*x.Dim:]
	qkv, between := rest[:tokens*first], rowsOf(rest[tokens*first:], tokens, mixed)
	if err := l.qkv.product(c, x, nil, qkv); err != nil {
		return err
	}
	if err := l.attention.attend(c, qkv, between.Data, starts); err != nil {
		return err
	}
	if err := l.out.product(c, between, x.Data, h.Data); err != nil {
		return err
	}
	if err := l.attentionNorm.apply(c, h.Data); err != nil {
		return err
	}
	for from := 0; from < tokens; {
		n := l.together(tokens - from)
		some, to := rowsOf(h.Data[from*x.Dim:], n, x.Dim), y[from*x.Dim:(from+n)*x.Dim]
		if err := l.feedForward(c, some, rowsOf(rest, n, wide), to); err != nil {
			return err
		}
		from += n
	}
	return l.outputNorm.apply(c, y)
}

// together returns how many of n rows go through the second half together. The outputs of `up` take the most memory of
// a layer; of so many rows they fit a second-level cache of 2 MiB as float32, which saves 3 % of the encoder's time on
// AMX.
func (l *layer) together(n int) int {
	if l.down.coded {
		return n
	}
	return min(n, max(16, 256*1536/l.up.weights.Out/16*16))
}

// feedForward computes y = h + Wdown·f(Wup·h), with memory for the values between.
func (l *layer) feedForward(c *call, h, between cpu.Rows, y []float32) error {
	in, err := l.up.operand(c, h, &c.codes[0])
	if err != nil {
		return err
	}
	middle := operand{rows: between}
	if l.down.coded {
		middle = operand{codes: &c.codes[1]}
	}
	if err := l.up.multiply(c, in, nil, between.Data, middle.codes); err != nil {
		return err
	}
	return l.down.multiply(c, middle, h.Data, y, nil)
}

// rowsOf are n rows of dim values at the beginning of some memory.
func rowsOf(memory []float32, n, dim int) cpu.Rows {
	return cpu.Rows{Data: memory[:n*dim], N: n, Dim: dim, Stride: dim}
}
