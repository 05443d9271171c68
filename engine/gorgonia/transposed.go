package gorgonia

import (
	"fmt"

	"gorgonia.org/tensor"
)

// The three products of a linear layer whose weights lie as [out × in], the layout of checkpoints, as neural networks
// need them: none of the operands has to be transposed in memory by the caller. Tensors are dense float32 matrices;
// y, dw and dx are overwritten and must have the shape of the result.

// Linear writes x·wᵀ to y: x [rows × in], w [out × in], y [rows × out].
func (e *Engine) Linear(y, x, w *tensor.Dense) error {
	return e.into("Linear", y, matrixOf(x), matrixOf(w).transposed(), x, w)
}

// LinearWeights writes dyᵀ·x to dw, the gradient of Linear's weights: dy [rows × out], x [rows × in], dw [out × in].
func (e *Engine) LinearWeights(dw, dy, x *tensor.Dense) error {
	return e.into("LinearWeights", dw, matrixOf(dy).transposed(), matrixOf(x), dy, x)
}

// LinearInput writes dy·w to dx, the gradient of Linear's input: dy [rows × out], w [out × in], dx [rows × in].
func (e *Engine) LinearInput(dx, dy, w *tensor.Dense) error {
	return e.into("LinearInput", dx, matrixOf(dy), matrixOf(w), dy, w)
}

// into writes the product of the views a and b, which are of the operands, to out.
func (e *Engine) into(op string, out *tensor.Dense, a, b view, operands ...tensor.Tensor) error {
	to := matrixOf(out)
	if !fit(a, b, to) {
		return shapeError(op, append(operands, out)...)
	}
	if !ours(append(operands, out)...) && to.rows*to.cols*a.cols != 0 {
		return fmt.Errorf("gorgonia: %s: dense float32 tensors in the process's memory are expected, without masks", op)
	}
	return e.multiply(a, b.transposed(), to)
}
