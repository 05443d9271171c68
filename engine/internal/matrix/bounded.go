// Package matrix computes stored matrices of bounded scores: tiles of panels, in parts where the memory
// limit has no room for all.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// Input is a product of all rows of A with all rows of B.
type Input struct {
	Out    []float32
	Stride int
	A, B   kernels.Vectors
	Metric kernels.Metric
	DType  kernels.DType
	// AsIs leaves the vectors' lengths as they are, so that errors are relative to each pair; what the format
	// does not hold well is then kernels.ErrRange.
	AsIs bool
}

// Bounded writes Out[i*Stride+j] = score(A_i, B_j), none further than bound from the canonical score.
func Bounded(ctx context.Context, r *device.Resources, in Input) (bound float64, err error) {
	left, right, err := device.Views("a", in.A, "b", in.B, in.Metric)
	if err != nil {
		return 0, err
	}
	if !r.Has(in.DType) {
		return 0, fmt.Errorf("engine: %w: %s has no %s tiles", kernels.ErrISA, r.Describe().ISA, in.DType)
	}
	if left.N == 0 || right.N == 0 {
		return 0, r.PrepareBoth(ctx, &left, &right, kernels.Cosine)
	}
	if in.Stride < right.N || left.N-1 > (len(in.Out)-right.N)/in.Stride || len(in.Out) < right.N {
		return 0, fmt.Errorf("engine: matrix: %w: %d×%d scores into %d values with stride %d",
			kernels.ErrShape, left.N, right.N, len(in.Out), in.Stride)
	}
	m := product{Input: in, r: r, a: &left, b: &right, scaleA: 1, scaleB: 1}
	if err := m.plan(); err != nil {
		return 0, err
	}
	if in.Metric != kernels.Cosine { // most vectors need no scale, and packing finds those that do
		bound, err = m.run(ctx)
		if err == nil {
			return m.directly(ctx, bound)
		}
		if !errors.Is(err, errScale) {
			return 0, err
		}
		if in.AsIs {
			return 0, fmt.Errorf("engine: product: %w", kernels.ErrRange)
		}
	}
	if err := r.PrepareBoth(ctx, &left, &right, kernels.Cosine); err != nil { // the norms scale every metric
		return 0, err
	}
	m.scale()
	if bound, err = m.run(ctx); err != nil {
		return 0, err
	}
	return m.directly(ctx, bound)
}

// product is one call of Bounded.
type product struct {
	Input
	r              *device.Resources
	a, b           *device.Operand
	scaleA, scaleB float64
	normA, normB   float64 // largest, of what was packed
	scaled         bool
	rowsA, rowsB   int // of a part of the operands that is packed at a time
	progress       *workers.Meter
}

// plan chooses the parts and the scales.
func (m *product) plan() error {
	bytes := func(n int) int64 { return m.r.Bytes(m.DType, n, m.a.Dim) + 8*int64(n) }
	m.rowsA, m.rowsB = m.a.N, m.b.N
	for bytes(m.rowsA)+bytes(m.rowsB) > m.r.SetMemory() {
		switch {
		case m.rowsA >= m.rowsB && m.rowsA > device.Panel:
			m.rowsA = halfPanels(m.rowsA)
		case m.rowsB > device.Panel:
			m.rowsB = halfPanels(m.rowsB)
		default:
			return fmt.Errorf("engine: matrix: %w: %d bytes; panels of dimension %d need at least %d",
				kernels.ErrMemoryLimit, m.r.SetMemory(), m.a.Dim, bytes(m.rowsA)+bytes(m.rowsB))
		}
	}
	m.progress = m.r.Meter(int64(m.a.N) * int64(m.b.N))
	return nil
}

func halfPanels(n int) int { return workers.Ceil(workers.Ceil(n, 2), device.Panel) * device.Panel }

// errScale reports a norm, or a product of norms, outside of the safe range of float32, or a value that is NaN.
var errScale = errors.New("engine: needs scales")

// scale chooses the scales from the norms.
func (m *product) scale() {
	m.scaled = true
	if m.Metric != kernels.Cosine {
		m.scaleA, m.scaleB = device.PowerOfTwo(m.a.Norms), device.PowerOfTwo(m.b.Norms)
	}
	if m.Metric == kernels.L2 {
		m.scaleA = min(m.scaleA, m.scaleB)
		m.scaleB = m.scaleA
	}
}

func (m *product) run(ctx context.Context) (bound float64, err error) {
	for j := 0; j < m.b.N; j += m.rowsB {
		lanes, end, err := m.pack(ctx, device.Right, m.b, j, min(m.b.N, j+m.rowsB), m.scaleB)
		if err != nil {
			return 0, err
		}
		e, err := m.column(ctx, lanes, j)
		end()
		if err != nil {
			return 0, err
		}
		bound = max(bound, e)
	}
	return m.inUnit(bound), nil
}

// column multiplies all of a with the packed lanes, which begin at row j of b.
func (m *product) column(ctx context.Context, lanes device.Set, j int) (bound float64, err error) {
	for i := 0; i < m.a.N; i += m.rowsA {
		rows, end, err := m.pack(ctx, device.Left, m.a, i, min(m.a.N, i+m.rowsA), m.scaleA)
		if err != nil {
			return 0, err
		}
		bound = max(bound, m.r.Bound(rows, lanes))
		err = m.part(ctx, rows, i, lanes, j)
		end()
		if err != nil {
			return 0, err
		}
	}
	return bound, nil
}

// inUnit turns a bound of tile values into one of scores, with the rounding of the score itself.
func (m *product) inUnit(bound float64) float64 {
	a, b := m.normA/m.scaleA, m.normB/m.scaleB
	switch m.Metric {
	case kernels.IP:
		return bound/m.scaleA/m.scaleB + 0x1p-23*a*b + 0x1p-148
	case kernels.L2:
		return math.Sqrt(2*bound)/m.scaleA + 0x1p-22*(a+b) + 0x1p-148
	}
	return bound + 0x1p-23
}

// pack makes panels of the rows [from, to) of o; end ends their use.
func (m *product) pack(ctx context.Context, side device.Side, o *device.Operand, from, to int,
	scale float64) (p device.Set, end func(), err error) {
	of := *o
	if from > 0 || to < o.N {
		of.Rows, of.Kept = o.Slice(from, to), nil
	}
	if p, end, err = m.r.Packed(ctx, &of, side, m.DType, m.Metric, scale, nil); err != nil {
		return nil, nil, err
	}
	long := !(p.Norm() < 0x1p40)
	short := p.Norm() != 0 && !(p.Norm() > 0x1p-40)
	if m.AsIs {
		short = p.Short()
	}
	if !m.scaled && m.Metric != kernels.Cosine && (long || short) {
		end()
		return nil, nil, errScale
	}
	if side == device.Left {
		m.normA = max(m.normA, p.Norm())
	} else {
		m.normB = max(m.normB, p.Norm())
	}
	return p, end, nil
}

// part multiplies the packed rows, which begin at row i, with the packed lanes from j on.
func (m *product) part(ctx context.Context, rows device.Set, i int, lanes device.Set, j int) error {
	work := m.r.Describe().MatrixWork / (device.Panel * device.Panel * rows.Dimension())
	tiles := workers.Clamp(rows.Count()*lanes.Count()/(8*m.r.Pool.Threads), 1, max(1, work))
	rowStep := min(rows.Count(), max(1, int(math.Sqrt(float64(tiles)))))
	laneStep := min(lanes.Count(), max(1, tiles/rowStep))
	columns := workers.Ceil(lanes.Count(), laneStep)
	return m.r.Pool.Each(ctx, workers.Ceil(rows.Count(), rowStep)*columns, 0, func(_, task int) error {
		r0, l0 := task/columns*rowStep, task%columns*laneStep
		r1, l1 := min(rows.Count(), r0+rowStep), min(lanes.Count(), l0+laneStep)
		out := m.Out[(i+r0*device.Panel)*m.Stride+j+l0*device.Panel:]
		if err := m.r.Matrix(out, m.Stride, rows, r0, r1, lanes, l0, l1); err != nil {
			return err
		}
		m.progress.Add(int64(min(rows.Len(), r1*device.Panel)-r0*device.Panel) * int64(min(lanes.Len(),
			l1*device.Panel)-l0*device.Panel))
		return nil
	})
}

// sure returns how many times the bound a distance of tiles must be to be kept. Where little accuracy is asked for, it
// is kept where its error is not larger than itself.
func (m *product) sure() float64 {
	if m.DType == kernels.F32 || m.DType == kernels.BF16x3 {
		return 32
	}
	return 1
}

// directly computes short distances again from the differences of the rows: tiles subtract products that are nearly
// equal, which cancels most digits where rows are long and close to each other. bound is the error bound of a distance
// of 0, and its square the bound of any distance's square; directly returns the bound that remains.
func (m *product) directly(ctx context.Context, bound float64) (float64, error) {
	if m.Metric != kernels.L2 || math.IsInf(bound, 0) || math.IsNaN(bound) {
		return bound, nil
	}
	release, err := m.r.HoldBoth(m.a, m.b)
	defer release()
	if err != nil {
		return 0, err
	}
	const rows = 16
	near := bound * m.sure()
	var turn sync.Mutex
	shortest, longest, direct := math.Inf(1), 0., 0. // of those that are kept, and of the others
	err = m.r.Pool.Each(ctx, workers.Ceil(m.a.N, rows), 0, func(_, task int) error {
		least, most, most0 := math.Inf(1), 0., 0.
		for i := task * rows; i < min(m.a.N, (task+1)*rows); i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			row, out := m.a.Row(i), m.Out[i*m.Stride:][:m.b.N]
			for j, s := range out {
				if d := float64(s); d <= near {
					d = distance(row, m.b.Row(j))
					out[j], most0 = float32(d), max(most0, d)
				} else if d <= math.MaxFloat32 {
					least, most = min(least, d), max(most, d)
				}
			}
		}
		turn.Lock()
		defer turn.Unlock()
		shortest, longest, direct = min(shortest, least), max(longest, most), max(direct, most0)
		return nil
	})
	return max(bound*(bound/shortest)+0x1p-22*longest, 0x1p-24*direct) + 0x1p-148, err
}

// distance returns the Euclidean distance of two rows.
func distance(a, b []float32) float64 {
	sum := 0.
	for i, x := range a {
		d := float64(x) - float64(b[i])
		sum += d * d
	}
	return math.Sqrt(sum)
}
