package gorgonia

import (
	"context"
	"math"
	"math/bits"
	"sync"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/engine"
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

// inside tells whether all elements lie in data.
func (v view) inside() bool {
	return v.down >= 0 && v.right >= 0 && (v.rows-1)*v.down+(v.cols-1)*v.right < len(v.data)
}

// inRows tells whether the elements of a row lie together and rows do not overlap.
func (v view) inRows() bool {
	return (v.right == 1 || v.cols == 1) && (v.down >= v.cols || v.rows == 1)
}

// matrixOf is the view of a tensor of two dimensions; of others, whose cols are −1, no shape fits.
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

// vectorOf is the view of a vector as a column.
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

// values is the memory of a float32 tensor, from the first element of the view on.
func values(t tensor.Tensor) []float32 {
	d, ok := t.(*tensor.Dense)
	if !ok || d.Dtype() != tensor.Float32 || d.Shape().TotalSize() == 0 || !d.IsNativelyAccessible() {
		return nil
	}
	return d.Float32s()
}

// widest is the spread of two operands' exponents and of the length of their rows, as powers of two, up to which no
// product falls below the normal float32 when each matrix is scaled to rows of length 1; bfloat16 halves included.
const widest = 96

// prepare returns the rows of v, copied unless they lie together already, and, if asked to measure, the spread of its
// elements. free gives the copy back.
func (e *Engine) prepare(ctx context.Context, v view, measure bool) (rows engine.Vectors, spread int, free func(), err error) {
	rows = engine.Vectors{Data: v.data, Rows: v.rows, Dim: v.cols, Stride: max(v.down, v.cols)}
	if v.inRows() && !measure {
		return rows, 0, func() {}, nil
	}
	to, free := v, func() {}
	if !v.inRows() {
		to = e.room(v.rows, v.cols)
		free = func() { e.free(to) }
		rows.Data, rows.Stride = to.data, v.cols
	}
	var mu sync.Mutex
	var all extent
	step := max(1, 1<<18/v.cols/edge) * edge // rows per task
	run := func(task int) error {
		x := move(to, v, task*step, min(v.rows, (task+1)*step))
		mu.Lock()
		defer mu.Unlock()
		all.join(x)
		return nil
	}
	if tasks := (v.rows + step - 1) / step; tasks == 1 {
		err = run(0)
	} else {
		err = e.engine.Parallel(ctx, tasks, run)
	}
	return rows, all.spread(), free, err
}

// move copies the rows [i0, end), unless both views are the same, and measures them.
func move(to, from view, i0, end int) (x extent) {
	copied := &to.data[0] != &from.data[0]
	for ; i0 < end; i0 += edge {
		i1 := min(end, i0+edge)
		for j0 := 0; copied && j0 < from.cols; j0 += edge {
			copyTile(to, from, i0, i1, j0, min(from.cols, j0+edge))
		}
		for i := i0; i < i1; i++ {
			x.add(to.data[i*to.down:][:to.cols])
		}
	}
	return x
}

// edge is the edge of the squares in which views are copied: a cache line.
const edge = 16

// copyTile copies a square by way of the stack, so that lines which are a power of two apart do not drive each other
// out of the cache.
func copyTile(to, from view, i0, i1, j0, j1 int) {
	var t [edge * edge]float32
	for j := j0; j < j1; j++ {
		column := from.data[i0*from.down+j*from.right:]
		if from.down == 1 {
			for i, x := range column[:i1-i0] {
				t[(i*edge+j-j0)&(edge*edge-1)] = x
			}
			continue
		}
		for i := range i1 - i0 {
			t[(i*edge+j-j0)&(edge*edge-1)] = column[i*from.down]
		}
	}
	for i := i0; i < i1; i++ {
		copy(to.data[i*to.down+j0:i*to.down+j1], t[(i-i0)*edge:])
	}
}

// extent is the largest magnitude and the smallest that is not 0, as the bits of a float32 without its sign. smallest
// is kept negated, so that 0 changes neither, and both only grow.
type extent struct{ largest, minusSmallest uint32 }

func (x *extent) add(row []float32) {
	largest, minusSmallest := x.largest, x.minusSmallest
	for _, v := range row {
		magnitude := math.Float32bits(v) &^ (1 << 31)
		largest, minusSmallest = max(largest, magnitude), max(minusSmallest, -magnitude)
	}
	x.largest, x.minusSmallest = largest, minusSmallest
}

func (x *extent) join(o extent) {
	x.largest, x.minusSmallest = max(x.largest, o.largest), max(x.minusSmallest, o.minusSmallest)
}

// spread is the difference of the two magnitudes' exponents, rounded up.
func (x extent) spread() int {
	if x.largest == 0 {
		return 0
	}
	return exponent(x.largest) - exponent(-x.minusSmallest) + 1
}

// exponent continues the biased exponent below 1 for subnormal numbers.
func exponent(magnitude uint32) int {
	if e := int(magnitude >> 23); e > 0 {
		return e
	}
	return bits.Len32(magnitude) - 23
}

// room is scratch for a matrix; what is in it is left from before.
func (e *Engine) room(rows, cols int) view {
	n := rows * cols
	p, _ := e.scratch.Get().(*[]float32)
	if p == nil || cap(*p) < n {
		s := make([]float32, n)
		p = &s
	}
	return view{data: (*p)[:n], rows: rows, cols: cols, down: cols, right: 1}
}

// free takes scratch back.
func (e *Engine) free(v view) { e.scratch.Put(&v.data) }
