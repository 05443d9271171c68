package gorgonia

import (
	"context"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/transpose"
)

// view is a matrix in memory: element (i, j) is data[i*down + j*right].
type view struct {
	data                    []float32
	rows, cols, down, right int
}

func (v view) transposed() view { return view{v.data, v.cols, v.rows, v.right, v.down} }

func (v view) at(i, j int) float32 { return v.data[i*v.down+j*v.right] }

func (v view) fill(value func(i, j int) float32) {
	for i := range v.rows {
		for j := range v.cols {
			v.data[i*v.down+j*v.right] = value(i, j)
		}
	}
}

// fit reports whether out has the shape of a·b.
func fit(a, b, out view) bool {
	return a.cols == b.rows && out.rows == a.rows && out.cols == b.cols && a.rows >= 0 && b.cols >= 0
}

// inside reports whether all elements lie in data.
func (v view) inside() bool {
	return v.down >= 0 && v.right >= 0 && (v.rows-1)*v.down+(v.cols-1)*v.right < len(v.data)
}

// inRows reports whether the elements of a row lie together and rows do not overlap.
func (v view) inRows() bool {
	return (v.right == 1 || v.cols == 1) && (v.down >= v.cols || v.rows == 1)
}

// matrixOf returns the view of a tensor of two dimensions; of others, whose cols are −1, no shape fits.
func matrixOf(t tensor.Tensor) view {
	shape, strides := t.Shape(), t.Strides()
	if len(shape) != 2 {
		return view{rows: -1, cols: -1}
	}
	v := view{data: values(t), rows: shape[0], cols: shape[1], down: 1, right: 1}
	switch {
	case len(strides) == 2:
		v.down, v.right = strides[0], strides[1]
	case len(strides) == 1 && v.cols == 1: // column-major tensors have one stride for row and column vectors
		v.down = strides[0]
	case len(strides) == 1:
		v.right = strides[0]
	}
	return v
}

// vectorOf returns the view of a vector as a column.
func vectorOf(t tensor.Tensor) view {
	shape := t.Shape()
	switch {
	case len(shape) == 1 && len(t.Strides()) == 1:
		return view{data: values(t), rows: shape[0], cols: 1, down: t.Strides()[0], right: 1}
	case len(shape) == 2 && shape[1] == 1:
		return matrixOf(t)
	case len(shape) == 2 && shape[0] == 1:
		return matrixOf(t).transposed()
	}
	return view{rows: -1, cols: -1}
}

// values returns the memory of a float32 tensor, from the first element of the view on.
func values(t tensor.Tensor) []float32 {
	d, ok := t.(*tensor.Dense)
	if !ok || d.Dtype() != tensor.Float32 || d.Shape().TotalSize() == 0 || !d.IsNativelyAccessible() {
		return nil
	}
	return d.Float32s()
}

// prepare returns the rows of v, copied unless they lie together already; free gives the copy back.
func (e *Engine) prepare(ctx context.Context, v view) (rows engine.Vectors, free func(), err error) {
	rows = engine.Vectors{Data: v.data, Rows: v.rows, Dim: v.cols, Stride: max(v.down, v.cols)}
	if v.inRows() {
		return rows, func() {}, nil
	}
	to := e.room(v.rows, v.cols)
	rows.Data, rows.Stride = to.data, v.cols
	step := max(1, 1<<17/v.cols/32) * 32 // rows per task: squares of the transposition
	run := func(task int) error {
		return e.copyRows(rows.Data, v, task*step, min(v.rows, (task+1)*step))
	}
	if tasks := (v.rows + step - 1) / step; tasks == 1 {
		err = run(0)
	} else {
		err = e.engine.Parallel(ctx, tasks, run)
	}
	return rows, func() { e.free(to) }, err
}

// copyRows copies the rows [i0, i1) of v to a matrix whose rows lie together.
func (e *Engine) copyRows(to []float32, v view, i0, i1 int) error {
	if v.down == 1 && v.right >= v.rows { // the columns lie together
		columns := cpu.Rows{Data: v.data[i0:], N: v.cols, Dim: i1 - i0, Stride: v.right}
		return transpose.Transpose(e.kernels, to[i0*v.cols:], v.cols, columns)
	}
	for i := i0; i < i1; i++ {
		for j := range v.cols {
			to[i*v.cols+j] = v.at(i, j)
		}
	}
	return nil
}

// room is scratch for a matrix; what is in it is left from before.
func (e *Engine) room(rows, cols int) view {
	n := rows * cols
	for i := range e.scratch {
		p := e.scratch[i].Swap(nil)
		if p != nil && cap(*p) >= n {
			return view{data: (*p)[:n], rows: rows, cols: cols, down: cols, right: 1}
		}
	}
	return view{data: make([]float32, n), rows: rows, cols: cols, down: cols, right: 1}
}

// kept is the largest scratch, in values, that an engine keeps for the next product: 64 MiB.
const kept = 16 << 20

// free takes scratch back.
func (e *Engine) free(v view) {
	for i := range e.scratch {
		if cap(v.data) <= kept && e.scratch[i].CompareAndSwap(nil, &v.data) {
			return
		}
	}
}
