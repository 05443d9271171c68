package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// matrixWork is the multiply-adds of a task: .6 ms with AMX, 2 ms with AVX-512.
const matrixWork = 200 << 20

// BoundedMatrix writes out[i*stride+j] = score(A_i, B_j) for A.Rows × B.Rows pairs as fast as the
// machine multiplies numbers of the type. No value is further than bound from the canonical score
// (l2: the bound is that of distances near 0, √(2ε); larger ones are closer). Products beyond float32
// become ±Inf. A type that the instruction set has no tiles for is kernels.ErrISA (DTypes). After
// an error, out holds nothing of use. Besides out it takes room for both operands as panels, or for
// parts of them where the memory limit is less.
func (e *Engine) BoundedMatrix(ctx context.Context, out []float32, stride int, a, b Vectors, metric kernels.Metric, dtype kernels.DType) (bound float64, err error) {
	return e.boundedMatrix(ctx, out, stride, a, b, metric, dtype, false)
}

// Product is BoundedMatrix of inner products whose bound is relative to each pair's own vectors: their lengths are
// as they are, not taken together with the longest of all. Where the format would lose digits of short ones (a row longer
// than 2⁴⁰, or with AMX shorter than 2⁻⁴⁵ and not 0), or with a value that is not finite, it is kernels.ErrRange.
func (e *Engine) Product(ctx context.Context, out []float32, stride int, a, b Vectors, dtype kernels.DType) error {
	_, err := e.boundedMatrix(ctx, out, stride, a, b, kernels.IP, dtype, true)
	return err
}

func (e *Engine) boundedMatrix(ctx context.Context, out []float32, stride int, a, b Vectors, metric kernels.Metric, dtype kernels.DType, asIs bool) (bound float64, err error) {
	left, right, err := views("a", a, "b", b, metric)
	if err != nil {
		return 0, err
	}
	if !e.kernels.Has(dtype) {
		return 0, fmt.Errorf("engine: %w: %s has no %s tiles", kernels.ErrISA, e.kernels.ISA(), dtype)
	}
	if left.N == 0 || right.N == 0 {
		return 0, e.prepareBoth(ctx, &left, &right, kernels.Cosine)
	}
	if stride < right.N || left.N-1 > (len(out)-right.N)/stride || len(out) < right.N {
		return 0, fmt.Errorf("engine: matrix: %w: %d×%d scores into %d values with stride %d", kernels.ErrShape, left.N, right.N, len(out), stride)
	}
	m := product{e: e, out: out, stride: stride, a: &left, b: &right, metric: metric, dtype: dtype, asIs: asIs, scaleA: 1, scaleB: 1}
	if err := m.plan(); err != nil {
		return 0, err
	}
	if metric != kernels.Cosine { // most vectors need no scale, and packing finds those that do
		bound, err = m.run(ctx)
		if !errors.Is(err, errScale) {
			return bound, err
		}
		if asIs {
			return 0, fmt.Errorf("engine: product: %w", kernels.ErrRange)
		}
	}
	if err := e.prepareBoth(ctx, &left, &right, kernels.Cosine); err != nil { // the norms scale every metric
		return 0, err
	}
	m.scale()
	return m.run(ctx)
}

// DTypes lists what BoundedMatrix can multiply in with this engine's instruction set.
func (e *Engine) DTypes() []kernels.DType {
	var has []kernels.DType
	for t := kernels.F32; t <= kernels.I8; t++ {
		if e.kernels.Has(t) {
			has = append(has, t)
		}
	}
	return has
}

// product is one call of BoundedMatrix.
type product struct {
	e              *Engine
	out            []float32
	stride         int
	a, b           *operand
	metric         kernels.Metric
	dtype          kernels.DType
	scaleA, scaleB float64
	normA, normB   float64 // largest, of what was packed
	asIs, scaled   bool
	rowsA, rowsB   int // of a part of the operands that is packed at a time
	progress       *meter
}

// plan chooses the parts and the scales.
func (m *product) plan() error {
	bytes := func(n int) int64 { return m.e.kernels.Bytes(m.dtype, n, m.a.Dim) + 8*int64(n) }
	m.rowsA, m.rowsB = m.a.N, m.b.N
	for bytes(m.rowsA)+bytes(m.rowsB) > m.e.memLimit {
		switch {
		case m.rowsA >= m.rowsB && m.rowsA > cpu.Panel:
			m.rowsA = halfPanels(m.rowsA)
		case m.rowsB > cpu.Panel:
			m.rowsB = halfPanels(m.rowsB)
		default:
			return fmt.Errorf("engine: matrix: %w: %d bytes; panels of dimension %d need at least %d",
				kernels.ErrMemoryLimit, m.e.memLimit, m.a.Dim, bytes(m.rowsA)+bytes(m.rowsB))
		}
	}
	m.progress = m.e.meter(int64(m.a.N) * int64(m.b.N))
	return nil
}

func halfPanels(n int) int { return ceil(ceil(n, 2), cpu.Panel) * cpu.Panel }

// errScale is a norm, or a product of norms, that float32 does not hold well, or a value that is no number.
var errScale = errors.New("engine: needs scales")

// scale chooses the scales from the norms.
func (m *product) scale() {
	m.scaled = true
	if m.metric != kernels.Cosine {
		m.scaleA, m.scaleB = power(m.a.Norms), power(m.b.Norms)
	}
	if m.metric == kernels.L2 {
		m.scaleA = min(m.scaleA, m.scaleB)
		m.scaleB = m.scaleA
	}
}

func (m *product) run(ctx context.Context) (bound float64, err error) {
	for j := 0; j < m.b.N; j += m.rowsB {
		lanes, err := m.pack(ctx, cpu.Right, m.b, j, min(m.b.N, j+m.rowsB), m.scaleB)
		if err != nil {
			return 0, err
		}
		for i := 0; i < m.a.N; i += m.rowsA {
			rows, err := m.pack(ctx, cpu.Left, m.a, i, min(m.a.N, i+m.rowsA), m.scaleA)
			if err != nil {
				return 0, err
			}
			bound = max(bound, cpu.Bound(rows, lanes))
			err = m.part(ctx, rows, i, lanes, j)
			m.e.panels.Put(rows)
			if err != nil {
				return 0, err
			}
		}
		m.e.panels.Put(lanes)
	}
	return m.inUnit(bound), nil
}

// inUnit turns a bound of tile values into one of scores, with the rounding of the score itself.
func (m *product) inUnit(bound float64) float64 {
	a, b := m.normA/m.scaleA, m.normB/m.scaleB
	switch m.metric {
	case kernels.IP:
		return bound/m.scaleA/m.scaleB + 0x1p-23*a*b + 0x1p-148
	case kernels.L2:
		return math.Sqrt(2*bound)/m.scaleA + 0x1p-22*(a+b) + 0x1p-148
	}
	return bound + 0x1p-23
}

// pack makes panels of the rows [from, to) of o.
func (m *product) pack(ctx context.Context, side cpu.Side, o *operand, from, to int, scale float64) (*cpu.Panels, error) {
	p, err := m.e.newPanels(side, m.dtype, m.metric, to-from, o.Dim, scale)
	if err != nil {
		return nil, err
	}
	rows := o.Slice(from, to)
	step := max(1, tileWork/8/(cpu.Panel*o.Dim))
	var mu sync.Mutex
	err = m.e.each(ctx, ceil(p.Count(), step), m.e.threads, func(_, task int) error {
		stats, err := m.e.kernels.Pack(p, rows, nil, task*step, min(p.Count(), (task+1)*step))
		mu.Lock()
		defer mu.Unlock()
		p.Merge(stats)
		return err
	})
	long := !(p.Norm() < 0x1p40)
	short := p.Norm() != 0 && !(p.Norm() > 0x1p-40)
	if m.asIs {
		short = p.Short()
	}
	if err == nil && !m.scaled && m.metric != kernels.Cosine && (long || short) {
		err = errScale
	}
	if side == cpu.Left {
		m.normA = max(m.normA, p.Norm())
	} else {
		m.normB = max(m.normB, p.Norm())
	}
	return p, err
}

// newPanels is cpu.NewPanels in used memory where there is some; e.panels.Put gives it back.
func (e *Engine) newPanels(side cpu.Side, dtype kernels.DType, metric kernels.Metric, n, dim int, scale float64) (*cpu.Panels, error) {
	old, _ := e.panels.Get().(*cpu.Panels)
	return e.kernels.Renew(old, side, dtype, metric, n, dim, scale)
}

// part multiplies the packed rows, which begin at row i, with the packed lanes from j on.
func (m *product) part(ctx context.Context, rows *cpu.Panels, i int, lanes *cpu.Panels, j int) error {
	work := matrixWork
	if m.e.kernels.ISA() == cpu.Go {
		work /= 128
	}
	tiles := bound(rows.Count()*lanes.Count()/(8*m.e.threads), 1, max(1, work/(cpu.Panel*cpu.Panel*rows.Dim)))
	rowStep := min(rows.Count(), max(1, int(math.Sqrt(float64(tiles)))))
	laneStep := min(lanes.Count(), max(1, tiles/rowStep))
	columns := ceil(lanes.Count(), laneStep)
	return m.e.each(ctx, ceil(rows.Count(), rowStep)*columns, m.e.threads, func(_, task int) error {
		r0, l0 := task/columns*rowStep, task%columns*laneStep
		r1, l1 := min(rows.Count(), r0+rowStep), min(lanes.Count(), l0+laneStep)
		out := m.out[(i+r0*cpu.Panel)*m.stride+j+l0*cpu.Panel:]
		if err := m.e.kernels.Matrix(out, m.stride, rows, r0, r1, lanes, l0, l1); err != nil {
			return err
		}
		m.progress.add((min(rows.N, r1*cpu.Panel) - r0*cpu.Panel) * (min(lanes.N, l1*cpu.Panel) - l0*cpu.Panel))
		return nil
	})
}
