package gpu

import (
	"fmt"

	"github.com/sluice-rag/sluice/cuda"
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
