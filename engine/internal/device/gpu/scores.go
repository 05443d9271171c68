package gpu

import (
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// Scores implements device.Device: on the GPU where both sides have copies there, else on the CPU, with the same bits.
func (d *Device) Scores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	x, y, onGPU, err := d.both(m, a, b)
	if err != nil {
		return err
	}
	if !onGPU || a.N == 0 || b.N == 0 {
		return scores.Block(d.host, m, out, stride, a, b)
	}
	if a.Dim != b.Dim || stride < b.N || len(out) < (a.N-1)*stride+b.N {
		return fmt.Errorf("%w: scores of %d×%d and %d×%d rows into %d values with stride %d", kernels.ErrShape, a.N,
			a.Dim,
			b.N, b.Dim, len(out), stride)
	}
	const side = 16
	k, err := d.kernel("slc_scores")
	if err != nil {
		return err
	}
	var temporary pieces
	defer temporary.free(d)
	to, err := temporary.take(d, 8*int64(a.N)*int64(b.N))
	if err != nil {
		return fmt.Errorf("gpu: %d×%d scores: %w", a.N, b.N, err)
	}
	rows := out
	if stride != b.N {
		rows = make([]float64, a.N*b.N)
	}
	err = d.gpu.Do(func(s *cuda.Stream) error {
		grid := [3]int{(b.N + side - 1) / side, (a.N + side - 1) / side, 1}
		if err := s.Launch(k, grid, [3]int{side, side, 1}, 0, x.rows, uint64(x.stride), x.norms, uint64(x.n), y.rows,
			uint64(y.stride), y.norms, uint64(y.n), uint64(a.Dim), uint64(m), uint64(to), uint64(b.N)); err != nil {
			return err
		}
		return s.Read(bytesOf(rows[:a.N*b.N]), to)
	})
	if err != nil {
		return fmt.Errorf("gpu: %d×%d scores: %w", a.N, b.N, err)
	}
	spread(out, stride, rows, b.N, a.N)
	return nil
}

// spread moves n rows of that width to places stride apart, unless they are there already.
func spread[T any](out []T, stride int, rows []T, width, n int) {
	if stride == width {
		return
	}
	for i := range n {
		copy(out[i*stride:i*stride+width], rows[i*width:])
	}
}

// both tells where two operands lie on the GPU, if both do.
func (d *Device) both(m kernels.Metric, a, b cpu.Rows) (x, y view, onGPU bool, err error) {
	x, okA, err := d.resident(a, m == kernels.Cosine)
	if err != nil {
		return x, y, false, err
	}
	y, okB, err := d.resident(b, m == kernels.Cosine)
	return x, y, okA && okB && m <= kernels.L2, err
}

// fewPairs is below what the CPU scores pairs faster than they and their scores travel.
const fewPairs = 64

// Pairs implements device.Device, as Scores does.
func (d *Device) Pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	x, y, onGPU, err := d.both(m, a, b)
	if err != nil {
		return err
	}
	single := rowsA == nil && a.N == 1
	if !onGPU || len(rowsB) < fewPairs || a.Dim != b.Dim || !single && len(rowsA) != len(rowsB) ||
		len(out) < len(rowsB) {
		return scores.Pairs(d.host, m, out, a, rowsA, b, rowsB)
	}
	for _, l := range []struct {
		list []int32
		n    int
	}{{rowsA, a.N}, {rowsB, b.N}} {
		for i, row := range l.list {
			if row < 0 || int(row) >= l.n {
				return fmt.Errorf("%w: entry %d names row %d of %d", kernels.ErrShape, i, row, l.n)
			}
		}
	}
	k, err := d.kernel("slc_pairs")
	if err != nil {
		return err
	}
	n := len(rowsB)
	var temporary pieces
	defer temporary.free(d)
	lists, err := temporary.take(d, 8*int64(n))
	if err != nil {
		return fmt.Errorf("gpu: %d pairs: %w", n, err)
	}
	to, err := temporary.take(d, 8*int64(n))
	if err != nil {
		return fmt.Errorf("gpu: %d pairs: %w", n, err)
	}
	err = d.gpu.Do(func(s *cuda.Stream) error {
		if err := s.Write(lists, bytesOf(rowsB)); err != nil {
			return err
		}
		left := uint64(0)
		if rowsA != nil {
			left = uint64(lists) + uint64(4*n)
			if err := s.Write(cuda.Ptr(left), bytesOf(rowsA)); err != nil {
				return err
			}
		}
		const threads = 256
		grid := [3]int{(8*n + threads - 1) / threads, 1, 1}
		if err := s.Launch(k, grid, [3]int{threads, 1, 1}, 0, x.rows, uint64(x.stride), x.norms, left, y.rows,
			uint64(y.stride), y.norms, uint64(lists), uint64(n), uint64(a.Dim), uint64(m), uint64(to)); err != nil {
			return err
		}
		return s.Read(bytesOf(out[:n]), to)
	})
	if err != nil {
		return fmt.Errorf("gpu: %d pairs: %w", n, err)
	}
	return nil
}

// Dense is a matrix of float32 in the GPU's memory: element (i, j) is number i·Down + j·Right from At on.
type Dense struct {
	At                      cuda.Ptr
	Rows, Cols, Down, Right int
}

// T returns the transposed matrix.
func (m Dense) T() Dense { return Dense{m.At, m.Cols, m.Rows, m.Right, m.Down} }

// inRows reports whether the elements of a row lie together and rows do not overlap.
func (m Dense) inRows() bool {
	return (m.Right == 1 || m.Cols == 1) && (m.Down >= m.Cols || m.Rows == 1)
}

// Product writes a·b to out, which shares no memory with them, by tiles of that format: in float32, or in bfloat16
// parts, which neither infinite values nor ones beyond 2⁴⁰ survive. Nothing of it goes through the process's memory.
func (d *Device) Product(out, a, b Dense, t kernels.DType) error {
	if a.Cols != b.Rows || out.Rows != a.Rows || out.Cols != b.Cols || !d.Has(t) {
		return fmt.Errorf("%w: the product of %d×%d and %d×%d as %d×%d in %s", kernels.ErrShape, a.Rows, a.Cols, b.Rows,
			b.Cols, out.Rows, out.Cols, t)
	}
	if out.Rows == 0 || out.Cols == 0 {
		return nil
	}
	var temporary pieces
	defer temporary.free(d)
	if err := d.product(&temporary, out, a, b, t); err != nil {
		return fmt.Errorf("gpu: the product of %d×%d and %d×%d: %w", a.Rows, a.Cols, b.Rows, b.Cols, err)
	}
	return nil
}

func (d *Device) product(temporary *pieces, out, a, b Dense, t kernels.DType) error {
	to := out
	if !out.inRows() {
		at, err := temporary.take(d, 4*int64(out.Rows)*int64(out.Cols))
		if err != nil {
			return err
		}
		to = Dense{at, out.Rows, out.Cols, out.Cols, 1}
	}
	if a.Cols == 0 {
		return d.gpu.Do(func(s *cuda.Stream) error {
			for i := range to.Rows {
				if err := s.Fill(to.At+cuda.Ptr(4*i*to.Down), 0, 4*int64(to.Cols)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	left, err := d.operand(temporary, device.Left, t, a)
	if err != nil {
		return err
	}
	defer d.free(left)
	right, err := d.operand(temporary, device.Right, t, b.T())
	if err != nil {
		return err
	}
	defer d.free(right)
	w := d.way(left, right, 0, left.Count(), 0, right.Count())
	k, err := d.kernel("slc_matrix_" + w.kernel)
	if err != nil {
		return err
	}
	err = d.gpu.Do(func(s *cuda.Stream) error {
		return s.Launch(k, w.grid, w.block, w.shared,
			append(w.arguments, uint64(kernels.IP), math.Float64bits(1), uint64(to.At), uint64(to.Down))...)
	})
	if err != nil || to.At == out.At {
		return err
	}
	if turned := out.T(); turned.inRows() {
		return d.transpose(turned, to)
	}
	return fmt.Errorf("%w: a result with strides %d and %d", kernels.ErrShape, out.Down, out.Right)
}

// operand packs the rows of m, transposed first where its columns lie together.
func (d *Device) operand(temporary *pieces, side device.Side, t kernels.DType, m Dense) (*set, error) {
	if !m.inRows() {
		if !m.T().inRows() {
			return nil, fmt.Errorf("%w: an operand with strides %d and %d", kernels.ErrShape, m.Down, m.Right)
		}
		at, err := temporary.take(d, 4*int64(m.Rows)*int64(m.Cols))
		if err != nil {
			return nil, err
		}
		copied := Dense{at, m.Rows, m.Cols, m.Cols, 1}
		if err := d.transpose(copied, m.T()); err != nil {
			return nil, err
		}
		m = copied
	}
	made, err := d.New(side, t, kernels.IP, m.Rows, m.Cols, 1)
	if err != nil {
		return nil, err
	}
	s := made.(*set)
	err = d.packView(s, view{rows: uint64(m.At), n: m.Rows, stride: m.Down}, nil, 0, 0, m.Rows, s.Count()*device.Panel)
	if err != nil {
		d.free(s)
		return nil, err
	}
	return s, nil
}

// transpose writes the transposed matrix of in, whose rows lie together, to out, whose rows lie together without gaps.
func (d *Device) transpose(out, in Dense) error {
	if out.Down != out.Cols && out.Rows > 1 {
		return fmt.Errorf("%w: a transposed result with stride %d for %d columns", kernels.ErrShape, out.Down, out.Cols)
	}
	k, err := d.kernel("slc_transpose")
	if err != nil {
		return err
	}
	const side, rows = 32, 8
	blocks := [3]int{(in.Cols + side - 1) / side, (in.Rows + side - 1) / side, 1}
	return d.gpu.Do(func(s *cuda.Stream) error {
		return s.Launch(k, blocks, [3]int{side, rows, 1}, 0, uint64(in.At), uint64(in.Down), uint64(in.Rows),
			uint64(in.Cols), uint64(out.At))
	})
}
