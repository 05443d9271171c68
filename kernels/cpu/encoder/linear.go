package encoder

import (
	"fmt"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Activation is the function applied to the output of a product with weights.
type Activation uint8

// The activations, numbered as in linear.h.
const (
	NoActivation Activation = iota
	GELU                    // x·Φ(x), with the error function
	GELUTanh                // approximation of GELU by a hyperbolic tangent
	ReLU
	Tanh
)

// Weights holds the weights of a layer, in the order in which the products of one instruction set read them.
type Weights struct {
	Out, In int
	panel   int       // outputs per panel
	data    []float32 // nil for 8-bit weights
	codes   []byte
}

// Panels returns the number of panels, which can be computed independently.
func (w *Weights) Panels() int { return (w.Out + w.panel - 1) / w.panel }

// PackWeights copies a matrix of a.N outputs × a.Dim inputs, ignoring its norms, to memory of the arena.
func PackWeights(k cpu.Kernels, m *Arena, a cpu.Rows) (*Weights, error) {
	w, err := newWeights(a, panel(k))
	if err != nil {
		return nil, err
	}
	w.data = m.take(weightSize(k, w))
	return w, packWeights(k, w.data, a)
}

// PackCodes is PackWeights with 8-bit weights: each output has a step for every codeGroup inputs, and a weight is its
// code times the step, with an error of up to half a step. With AMX they are bfloat16, with 8 significant bits per
// value.
func PackCodes(k cpu.Kernels, m *Arena, a cpu.Rows) (*Weights, error) {
	w, err := newWeights(a, codePanel(k))
	if err != nil {
		return nil, err
	}
	size := codeBytes(k, w)
	w.codes = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m.take((size+3)/4)))), size)
	return w, packCodes(k, w.codes, a)
}

func newWeights(a cpu.Rows, panel int) (*Weights, error) {
	if err := a.Check(false); err != nil {
		return nil, err
	}
	if a.N == 0 || a.Dim == 0 {
		return nil, fmt.Errorf("%w: %d×%d weights", kernels.ErrShape, a.N, a.Dim)
	}
	return &Weights{Out: a.N, In: a.Dim, panel: panel}, nil
}

// codeGroup is the number of values of a row that share a step, as in linear.h.
const codeGroup = 32

// Codes holds rows of 8-bit values for the products of one instruction set; its memory is reused.
type Codes struct {
	n, dim, groups int
	of             cpu.Kernels // kernels whose products read the codes
	codes          []byte
	steps          []float32
}

// codesAreBFloat16 reports whether codes are bfloat16 for tile registers: then attention has kernels for them, too, and
// a product can write its outputs as codes.
func codesAreBFloat16(k cpu.Kernels) bool { return k.ISA() == cpu.AMX || k.EmulatesAMX() }

// Encode replaces the codes by those of x: each value is its code times its group's step, with an error of up to half a
// step (with AMX, the nearest bfloat16). The codes of a row do not depend on other rows.
func Encode(k cpu.Kernels, c *Codes, x cpu.Rows) error {
	if err := x.Check(false); err != nil {
		return err
	}
	c.begin(k, x.N, x.Dim)
	if c.n == 0 {
		return nil
	}
	return encode(k, c, x)
}

// begin allocates memory for n rows of dim values.
func (c *Codes) begin(k cpu.Kernels, n, dim int) {
	c.of, c.n, c.dim, c.groups = k, n, dim, (dim+codeGroup-1)/codeGroup
	whole := (c.n + 15) / 16 * 16 // AMX pads the rows with zeros
	steps, bytes := c.n*c.groups, whole*c.groups*codeGroup*codeSize(k)
	if len(c.steps) < steps || len(c.codes) < bytes {
		c.steps, c.codes = make([]float32, steps), make([]byte, bytes)
	}
}

// Linear holds the arguments of a product y = f(x·Wᵀ + bias) + residual.
type Linear struct {
	X           cpu.Rows // norms are ignored
	Codes       *Codes   // instead of X, with weights from PackCodes
	Weights     *Weights
	Bias        []float32 // nil: none
	Activation  Activation
	Residual    []float32 // rows with the stride of Y; nil: none
	Y           []float32
	To          *Codes    // Encode of Y, whose values are then undefined; requires Codes and all panels; nil: write Y
	Stride      int       // of Y and Residual
	Scratch     []float32 // LinearScratch(rows, inputs) values; not with Codes
	First, Last int       // the panels to compute
	After       *Weights  // weights of the next product, to prefetch at the end; nil: unknown
	Helper      *Helper   // computes half of the panels if it is free; nil: none
}

// LinearScratch returns the size of Scratch for the given number of rows and float32 inputs; it is 0 for instruction
// sets that need none.
func LinearScratch(k cpu.Kernels, rows, inputs int) int { return linearScratch(k, rows, inputs) }

// Compute computes the panels [First, Last) of a product. A row of Y depends on the same row of X alone, and its bits
// do not depend on other rows, First or Last. Y must not overlap other arguments.
func (l *Linear) Compute(k cpu.Kernels) error {
	if err := l.X.Check(false); err != nil {
		return err
	}
	w, n, dim, outputs := l.Weights, l.X.N, l.X.Dim, panel(k)
	if w.codes != nil {
		if l.Codes == nil {
			return fmt.Errorf("%w: weights of 8 bits want codes", kernels.ErrShape)
		}
		if l.Codes.of != k {
			return fmt.Errorf("%w: codes of %v, where %v multiplies", kernels.ErrShape, l.Codes.of, k)
		}
		n, dim, outputs = l.Codes.n, l.Codes.dim, codePanel(k)
	} else if need := linearScratch(k, n, dim); len(l.Scratch) < need {
		return fmt.Errorf("%w: scratch of %d values where a product of %d×%d values needs %d", kernels.ErrShape,
			len(l.Scratch), n, dim, need)
	}
	if n == 0 {
		return nil
	}
	size := (n-1)*l.Stride + w.Out
	if w.panel != outputs || dim != w.In || l.Stride < w.Out || len(l.Y) < size ||
		l.Residual != nil && len(l.Residual) < size || l.Bias != nil && len(l.Bias) < w.Out ||
		l.First < 0 || l.First > l.Last || l.Last > w.Panels() || l.Activation > Tanh {
		return fmt.Errorf("%w: %d×%d values times %d×%d weights, panels %d to %d of %d, into %d values with stride %d",
			kernels.ErrShape, n, dim, w.Out, w.In, l.First, l.Last, w.Panels(), len(l.Y), l.Stride)
	}
	if l.To == nil {
		return linear(k, l)
	}
	if w.codes == nil || l.To == l.Codes || l.First > 0 || l.Last < w.Panels() {
		return fmt.Errorf("%w: outputs as codes, of panels %d to %d of %d, need codes as inputs and all panels",
			kernels.ErrShape, l.First, l.Last, w.Panels())
	}
	if l.To.begin(k, n, w.Out); codesAreBFloat16(k) {
		return linear(k, l)
	}
	if err := linear(k, l); err != nil {
		return err
	}
	return Encode(k, l.To, cpu.Rows{Data: l.Y, N: n, Dim: w.Out, Stride: l.Stride})
}

// LayerNorm replaces each row x of the n rows of dim values, stride apart, by (x − mean)/√(variance + epsilon)·scale +
// shift.
func LayerNorm(k cpu.Kernels, rows []float32, n, dim, stride int, scale, shift []float32, epsilon float32) error {
	if n == 0 {
		return nil
	}
	if n < 0 || dim < 1 || stride < dim || len(rows) < (n-1)*stride+dim || len(scale) < dim || len(shift) < dim {
		return fmt.Errorf("%w: layer norm of %d rows of %d values with stride %d in %d values", kernels.ErrShape, n,
			dim,
			stride, len(rows))
	}
	return layerNorm(k, rows, n, dim, stride, scale, shift, epsilon)
}

// Attention holds the arguments of the self-attention of texts; attention.h describes them.
type Attention struct {
	QKV         []float32 // Starts[last] rows of 3·Heads·Size values: queries, keys, values
	Heads, Size int
	Starts      []int64 // where each text begins, and the end of the last one
	Scale       float32
	Bias        []float32 // Heads rows of 2·Far + 1 values, by the distance key − query from −Far on; nil: none
	Far         int
	Y           []float32 // rows of Heads·Size values
	Scratch     []float32 // AttentionScratch(longest text, Size, Coded) values
	Coded       bool      // allow 8-bit queries, keys, values and weights if that is faster
	Helper      *Helper   // computes half of the heads if it is free; nil: none
	// The texts and the heads to compute.
	First, Last, FirstHead, LastHead int
}

// AttentionScratch returns the size of Scratch for texts of up to longest tokens.
func AttentionScratch(k cpu.Kernels, longest, size int, coded bool) int {
	return attentionScratch(k, longest, size, coded)
}

// Compute computes softmax(q·kᵀ·scale + bias)·v for the texts [First, Last) and heads [FirstHead, LastHead). The result
// of a text does not depend on the others.
func (a *Attention) Compute(k cpu.Kernels) error {
	bad := a.Heads < 1 || a.Size < 1 || a.First < 0 || a.First > a.Last || a.Last >= len(a.Starts) ||
		a.FirstHead < 0 || a.FirstHead > a.LastHead || a.LastHead > a.Heads ||
		a.Bias != nil && len(a.Bias) < a.Heads*(2*a.Far+1)
	longest := int64(0)
	for i := a.First; !bad && i < a.Last; i++ {
		n := a.Starts[i+1] - a.Starts[i]
		longest = max(longest, n)
		bad = n < 0 || a.Starts[i] < 0 || a.Bias != nil && n > int64(a.Far)+1
	}
	width := a.Heads * a.Size
	if !bad && a.Last > a.First {
		rows := int(a.Starts[a.Last])
		bad = len(a.QKV) < rows*3*width || len(a.Y) < rows*width ||
			len(a.Scratch) < attentionScratch(k, int(longest), a.Size, a.Coded)
	}
	if bad {
		return fmt.Errorf("%w: attention of %d heads of %d values, texts %d to %d of %d, %d values into %d with %d "+
			"between",
			kernels.ErrShape, a.Heads, a.Size, a.First, a.Last, len(a.Starts)-1, len(a.QKV), len(a.Y), len(a.Scratch))
	}
	return attention(k, a)
}
