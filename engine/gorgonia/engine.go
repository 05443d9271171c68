// Package gorgonia is a tensor.Engine for gorgonia.org/tensor whose products of float32 tensors run on Sluice's
// kernels:
//
//	eng, err := engine.New(engine.Options{})
//	e, err := gorgonia.New(eng)
//	a := tensor.New(tensor.WithShape(m, k), tensor.WithBacking(data), tensor.WithEngine(e))
//	c, err := tensor.MatMul(a, b) // also MatVecMul, Inner, Dot, Contract; WithReuse, WithIncr
//
// Everything else, and every other type, is tensor.StdEng, which is embedded.
//
// What is the same as with the default engine: results up to float32 rounding, options, shapes, errors for shapes that
// do not fit. What is better: views with any strides (slices with steps, columns, transposes of slices) give the
// product of what the view shows, where the default engine takes their memory as it lies; an operand may be the
// reuse tensor.
//
// Rounding: a product's error is at most that of a float32 sum in any order; with AMX, which multiplies in six products
// of bfloat16 parts, that of one in 18 and 6 ⌈k/32⌉ steps. Products with a vector, and small ones, are canonical scores
// (float64 sums), rounded once. Matrices with a row longer than 2⁴⁰ (AMX: or shorter than 2⁻⁴⁵) take that slower way,
// too, so that what is small in them does not vanish. Operands with NaN or infinity are
// given to the default engine as contiguous copies, so that they propagate as they do there.
package gorgonia

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
	"github.com/sluice-rag/sluice/kernels/cpu/transpose"
)

// Engine implements tensor.Engine and the interfaces of its products. It may be used by many goroutines at once, on
// tensors that nobody writes meanwhile.
type Engine struct {
	tensor.StdEng
	// DType is how matrices are multiplied: kernels.F32, or kernels.BF16x3, which is nearly as accurate and on
	// machines with AMX several times faster. Set it before the first use.
	DType kernels.DType

	engine  *engine.Engine
	kernels cpu.Kernels
	scratch [2]atomic.Pointer[[]float32] // for copies of both operands into rows, each up to 64 MiB; nil while in use
}

// New returns an engine that computes with e: its threads, instruction set and memory limit.
func New(e *engine.Engine) (*Engine, error) {
	k, err := cpu.Open(e.Describe().ISA)
	if err != nil {
		return nil, fmt.Errorf("gorgonia: %w", err)
	}
	return &Engine{engine: e, kernels: k}, nil
}

// MatMul writes a·b to prealloc; tensor.MatMul calls it.
func (e *Engine) MatMul(a, b, prealloc tensor.Tensor) error {
	return e.product("MatMul", matrixOf(a), matrixOf(b), matrixOf(prealloc), e.StdEng.MatMul, a, b, prealloc)
}

// MatVecMul writes the product of the matrix a and the vector b to prealloc; tensor.MatVecMul calls it.
func (e *Engine) MatVecMul(a, b, prealloc tensor.Tensor) error {
	return e.product("MatVecMul", matrixOf(a), vectorOf(b), vectorOf(prealloc), e.StdEng.MatVecMul, a, b, prealloc)
}

// product multiplies the views of tensors, or lets the default engine do it.
func (e *Engine) product(op string, left, right, out view, standard func(a, b, prealloc tensor.Tensor) error,
	a, b, prealloc tensor.Tensor) error {
	if !fit(left, right, out) {
		return shapeError(op, a, b, prealloc)
	}
	if !ours(a, b, prealloc) {
		return standard(a, b, prealloc)
	}
	return e.multiply(left, right.transposed(), out)
}

// Inner returns the inner product of two vectors, a float32 for such; tensor.Inner calls it.
func (e *Engine) Inner(a, b tensor.Tensor) (any, error) {
	left, right := vectorOf(a), vectorOf(b)
	if left.rows != right.rows {
		return nil, shapeError("Inner", a, b)
	}
	if !ours(a, b) {
		return e.StdEng.Inner(a, b)
	}
	var out [1]float32
	err := e.multiply(left.transposed(), right.transposed(), view{data: out[:], rows: 1, cols: 1, down: 1, right: 1})
	return out[0], err
}

// Dot is tensor.Dot: the product that fits the two shapes. Like the default engine's, that of two vectors is a new
// scalar whatever the options.
func (e *Engine) Dot(x, y tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	if !x.Shape().IsVector() || !y.Shape().IsVector() || !ours(x, y) {
		return e.StdEng.Dot(x, y, opts...) // which comes back to the methods above
	}
	v, err := e.Inner(x, y)
	if err != nil {
		return nil, err
	}
	return tensor.New(tensor.FromScalar(v), tensor.WithEngine(e)), nil
}

func shapeError(op string, tensors ...tensor.Tensor) error {
	var shapes []tensor.Shape
	for _, t := range tensors {
		shapes = append(shapes, t.Shape())
	}
	return fmt.Errorf("gorgonia: %s: %w: %v", op, kernels.ErrShape, shapes)
}

// direct are the multiply-adds up to which a product is one call of the exact kernel: there tiles cost more in
// preparation than they save.
const direct = 1 << 17

// multiply writes the inner products of the rows of a and the rows of b to out.
func (e *Engine) multiply(a, b, out view) error {
	if out.rows == 0 || out.cols == 0 {
		return nil
	}
	if a.cols == 0 {
		out.fill(func(int, int) float32 { return 0 })
		return nil
	}
	for _, v := range []view{a, b, out} {
		if !v.inside() {
			return fmt.Errorf("gorgonia: %w: %d×%d with strides %d, %d in %d values", kernels.ErrShape, v.rows, v.cols,
				v.down, v.right, len(v.data))
		}
	}
	if out.right != 1 && out.down == 1 { // columns lie together: the transposed product has them as rows
		a, b, out = b, a, out.transposed()
	}
	if !out.inRows() || out.overlaps(a) || out.overlaps(b) {
		whole := e.room(out.rows, out.cols)
		defer e.free(whole)
		if err := e.multiply(a, b, whole); err != nil {
			return err
		}
		out.fill(whole.at)
		return nil
	}
	err := e.rows(a, b, out)
	if errors.Is(err, kernels.ErrNonFinite) {
		return e.standard(a, b, out)
	}
	return err
}

// rows multiplies into out, whose rows lie together.
func (e *Engine) rows(a, b, out view) error {
	if a.rows == 1 { // rows of the left operand are what is shared out
		a, b, out = b, a, out.transposed()
	}
	ctx := context.Background()
	exact := b.rows == 1 || a.rows*b.rows*a.cols <= direct
	left, freeA, err := e.prepare(ctx, a)
	if err != nil {
		return err
	}
	defer freeA()
	right, freeB, err := e.prepare(ctx, b)
	if err != nil {
		return err
	}
	defer freeB()
	if !exact {
		err = e.engine.Product(ctx, out.data, out.down, left, right, e.DType)
		if !errors.Is(err, kernels.ErrRange) {
			return err
		}
	}
	return e.exact(ctx, left, right, out)
}

// exact multiplies by canonical scores.
func (e *Engine) exact(ctx context.Context, a, b engine.Vectors, out view) error {
	const work = 4 << 20 // multiply-adds per task
	step := max(1, work/(a.Dim*b.Rows))
	if step >= a.Rows {
		return e.exactRows(a, b, out, 0, a.Rows)
	}
	return e.engine.Parallel(ctx, (a.Rows+step-1)/step, func(task int) error {
		return e.exactRows(a, b, out, task*step, min(a.Rows, (task+1)*step))
	})
}

// exactRows does the rows [i0, i1) of a in blocks of scores on the stack.
func (e *Engine) exactRows(a, b engine.Vectors, out view, i0, i1 int) error {
	var block [256]float64
	columns := min(b.Rows, len(block))
	rows := len(block) / columns
	for ; i0 < i1; i0 += rows {
		left := rowsOf(a).Slice(i0, min(i1, i0+rows))
		for j0 := 0; j0 < b.Rows; j0 += columns {
			right := rowsOf(b).Slice(j0, min(b.Rows, j0+columns))
			if err := scores.Block(e.kernels, kernels.IP, block[:], right.N, left, right); err != nil {
				return err
			}
			for i := range left.N {
				row := out.data[(i0+i)*out.down+j0:][:right.N]
				for j, s := range block[i*right.N:][:right.N] {
					if s-s != 0 { // finite operands have finite scores
						return fmt.Errorf("gorgonia: %w", kernels.ErrNonFinite)
					}
					row[j] = float32(s)
				}
			}
		}
	}
	return nil
}

func rowsOf(v engine.Vectors) cpu.Rows {
	return cpu.Rows{Data: v.Data, N: v.Rows, Dim: v.Dim, Stride: v.Stride}
}

// standard multiplies contiguous copies with the default engine.
func (e *Engine) standard(a, b, out view) error {
	whole := func(v view) *tensor.Dense {
		data := make([]float32, v.rows*v.cols)
		copied := view{data: data, rows: v.rows, cols: v.cols, down: v.cols, right: 1}
		copied.fill(v.at)
		return tensor.New(tensor.WithShape(v.rows, v.cols), tensor.WithBacking(data))
	}
	c := tensor.New(tensor.WithShape(out.rows, out.cols), tensor.Of(tensor.Float32))
	if err := e.StdEng.MatMul(whole(a), whole(b.transposed()), c); err != nil {
		return err
	}
	out.fill(matrixOf(c).at)
	return nil
}

// ours reports whether the kernels can take the tensors: dense float32 in the process's memory, not scalars, not
// masked.
func ours(tensors ...tensor.Tensor) bool {
	for _, t := range tensors {
		d, ok := t.(*tensor.Dense)
		if !ok || d.Dtype() != tensor.Float32 || !d.IsNativelyAccessible() || d.IsScalar() || len(d.Mask()) > 0 &&
			d.IsMasked() {
			return false
		}
	}
	return true
}

// overlaps reports whether two views share memory.
func (v view) overlaps(o view) bool {
	if len(v.data) == 0 || len(o.data) == 0 {
		return false
	}
	start := func(s []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }
	return start(v.data) < start(o.data)+uintptr(4*len(o.data)) && start(o.data) < start(v.data)+uintptr(4*len(v.data))
}

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
