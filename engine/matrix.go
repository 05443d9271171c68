package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/matrix"
	"github.com/sluice-rag/sluice/kernels"
)

// Matrix implements Interface.
func (e *Engine) Matrix(ctx context.Context, out []float32, a, b Vectors, metric kernels.Metric) error {
	if err := fill(ctx, &a, &b); err != nil {
		return err
	}
	left, right, err := device.Views("a", a, "b", b, metric)
	if err != nil {
		return err
	}
	if b.Rows > 0 && a.Rows > math.MaxInt/b.Rows || len(out) != a.Rows*b.Rows {
		return fmt.Errorf("engine: matrix: %w: %d×%d scores into %d values", kernels.ErrShape, a.Rows, b.Rows, len(out))
	}
	if err := e.r.PrepareBoth(ctx, &left, &right, metric); err != nil || len(out) == 0 {
		return err
	}
	t := task{op: device.OpScores, shape: device.Shape{A: a.Rows, B: b.Rows, Dim: a.Dim}, a: a, b: b}
	err = e.run(ctx, &t, func(r *device.Resources) error { return canonical(ctx, r, out, &left, &right, metric) })
	if err == nil {
		blank(out, right.N, a, b)
	}
	return err
}

// canonical writes canonical scores, rounded to float32.
func canonical(ctx context.Context, r *device.Resources, out []float32, left, right *device.Operand,
	metric kernels.Metric) error {
	p, err := r.Plan(left.N, right.N, left.Dim, 8*int64(left.N+right.N), 0)
	if err != nil {
		return err
	}
	release, err := r.HoldBoth(left, right)
	defer release()
	if err != nil {
		return err
	}
	work, progress := r.Scorers(p, metric), r.Meter(int64(len(out)))
	return r.Grid(ctx, p, left.N, right.N, func(worker, i0, i1, j0, j1 int) error {
		scores, err := work.Get(worker).Block(left, right, i0, i1, j0, j1)
		if err != nil {
			return err
		}
		for i := i0; i < i1; i++ {
			row := out[i*right.N+j0 : i*right.N+j1]
			for j, s := range scores[(i-i0)*(j1-j0):][:j1-j0] {
				row[j] = float32(s)
			}
		}
		progress.Add(int64(len(scores)))
		return nil
	})
}

// blank writes NaN for rows of a or b that are deleted.
func blank(out []float32, stride int, a, b Vectors) {
	nan := float32(math.NaN())
	if m := snapshotOf(a); m != nil && m.deleted > 0 {
		for _, i := range m.x.Deleted() {
			for j := range b.Rows {
				out[i*stride+j] = nan
			}
		}
	}
	if m := snapshotOf(b); m != nil && m.deleted > 0 {
		for _, j := range m.x.Deleted() {
			for i := range a.Rows {
				out[i*stride+j] = nan
			}
		}
	}
}

// BoundedMatrix writes out[i*stride+j] = score(A_i, B_j) for A.Rows × B.Rows pairs as fast as the machine multiplies
// numbers of the type. No value differs from the canonical score by more than bound (l2 distances that are short
// beside the error of products are computed from the differences of the rows). Products beyond the range of float32
// become ±Inf. A type for which the instruction set has no tiles is kernels.ErrISA (DTypes). After an error, the
// contents of out are undefined. Besides out, the operation needs memory for both operands as panels, or for parts of
// them if the memory limit is lower.
func (e *Engine) BoundedMatrix(ctx context.Context, out []float32, stride int, a, b Vectors, metric kernels.Metric,
	dtype kernels.DType) (bound float64, err error) {
	return e.bounded(ctx, matrix.Input{Out: out, Stride: stride, A: a, B: b, Metric: metric, DType: dtype})
}

// Product is BoundedMatrix for inner products with a bound relative to the lengths of each pair's own vectors instead
// of the longest of all. It returns kernels.ErrRange for values that are not finite and if the format would lose
// digits of short vectors (a row longer than 2⁴⁰, or with AMX shorter than 2⁻⁴⁵ and not 0).
func (e *Engine) Product(ctx context.Context, out []float32, stride int, a, b Vectors, dtype kernels.DType) error {
	_, err := e.bounded(ctx,
		matrix.Input{Out: out, Stride: stride, A: a, B: b, Metric: kernels.IP, DType: dtype, AsIs: true})
	return err
}

func (e *Engine) bounded(ctx context.Context, in matrix.Input) (bound float64, err error) {
	if err := fill(ctx, &in.A, &in.B); err != nil {
		return 0, err
	}
	t := task{op: device.OpMatrix, shape: device.Shape{A: in.A.Rows, B: in.B.Rows, Dim: in.A.Dim, DType: in.DType},
		fixed: true, a: in.A, b: in.B}
	err = e.run(ctx, &t, func(r *device.Resources) (err error) {
		bound, err = matrix.Bounded(ctx, r, in)
		return err
	})
	if err == nil {
		blank(in.Out, in.Stride, in.A, in.B)
	}
	return bound, err
}
