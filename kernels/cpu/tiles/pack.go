package tiles

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Panel is the number of vectors in a panel: tiles are Panel × Panel pairs.
const Panel = 32

const maxDimI8 = 1 << 16 // so many products of 255·127 fit an int32

// Side is the operand of a tile that a set of vectors is for; it determines the layout.
type Side uint8

const (
	// Left vectors are the rows of a tile.
	Left Side = iota
	// Right vectors are its columns, one per lane of a vector register.
	Right
)

// Panels holds vectors in the layout of the tile kernels, in panels of Panel vectors, the last one padded with zeros.
// It packs x̂ ≈ Scale·x (IP, L2) or x/‖x‖ (cosine), so that ‖x̂‖ ≲ 1; Scale is a power of two. A tile's value is
//
//	cosine  x̂·ŷ            ≈ cosine
//	ip      x̂·ŷ            ≈ Scale_x·Scale_y·ip
//	l2      x̂·ŷ − ½‖x̂‖² − ½‖ŷ‖² ≈ −½ Scale²·l2² (both sides have the same Scale)
//
// so that larger is always closer. Bound limits the error.
type Panels struct {
	Side   Side
	DType  kernels.DType
	Metric kernels.Metric
	N, Dim int
	Scale  float64 // power of two; 1 for cosine

	isa   cpu.ISA   // instruction set of the layout
	data  []byte    // 64-byte aligned; layouts in pack.h
	terms []float32 // l2: −½‖x̂‖² per vector
	steps []float32 // I8, I16: each vector's step
	sums  []int32   // I8, right: 128 × sum of the vector's codes

	// Maxima over the vectors packed so far, rounded up: ‖x̂‖, ‖x̂ − exact‖, and the norm of the second parts of what
	// is split into bfloat16.
	norm, residual, low float64
	short               bool
}

// NewPanels allocates panels for n vectors of dimension dim.
func NewPanels(k cpu.Kernels, side Side, dtype kernels.DType, metric kernels.Metric, n, dim int,
	scale float64) (*Panels, error) {
	return Renew(k, new(Panels), side, dtype, metric, n, dim, scale)
}

// Renew is NewPanels in the memory of old panels, which must not be used any more; old may be nil.
func Renew(k cpu.Kernels, old *Panels, side Side, dtype kernels.DType, metric kernels.Metric, n, dim int,
	scale float64) (*Panels, error) {
	if !Has(k, dtype) {
		return nil, fmt.Errorf("%w: %s has no %s tiles", kernels.ErrISA, k.ISA(), dtype)
	}
	if n < 0 || dim < 1 || metric > kernels.L2 || !(scale > 0) {
		return nil, fmt.Errorf("%w: panels of %d×%d, metric %s, scale %v", kernels.ErrShape, n, dim, metric, scale)
	}
	p := &Panels{Side: side, DType: dtype, Metric: metric, N: n, Dim: dim, Scale: scale, isa: k.ISA()}
	if size := p.Count() * panelBytes(k, dtype, dim); old != nil && cap(old.data) >= size {
		p.data = old.data[:size] // packing writes all of a panel
	} else {
		p.data = cpu.Aligned(size)
	}
	if metric == kernels.L2 {
		p.terms = make([]float32, p.Count()*Panel)
	}
	if dtype == kernels.I8 || dtype == kernels.I16 {
		p.steps = make([]float32, p.Count()*Panel)
	}
	if dtype == kernels.I8 {
		if dim > maxDimI8 {
			return nil, fmt.Errorf("%w: i8 tiles of dimension %d, at most %d", kernels.ErrShape, dim, maxDimI8)
		}
		if side == Right {
			p.sums = make([]int32, p.Count()*Panel)
		}
	}
	return p, nil
}

// Release removes the memory from p, for Renew. The maxima are kept, so Bound still works.
func (p *Panels) Release() *Panels {
	old := &Panels{data: p.data}
	p.data, p.terms, p.steps, p.sums = nil, nil, nil, nil
	return old
}

// Count returns the number of panels.
func (p *Panels) Count() int { return (p.N + Panel - 1) / Panel }

// Bytes returns the memory that n vectors of dimension dim take as panels.
func Bytes(k cpu.Kernels, dtype kernels.DType, n, dim int) int64 {
	return int64((n+Panel-1)/Panel) * int64(panelBytes(k, dtype, dim)+4*Panel)
}

// Stats holds the maxima found while packing a range of panels; Merge adds them to the Panels.
type Stats struct {
	Norm, Residual, Low float64
	Short               bool
}

// Merge updates p's maxima; do not call it concurrently.
func (p *Panels) Merge(s Stats) {
	p.norm, p.residual, p.low = max(p.norm, s.Norm), max(p.residual, s.Residual), max(p.low, s.Low)
	p.short = p.short || s.Short
}

// Short reports whether some vector packed so far has 0 < ‖x̂‖ < 2⁻⁴⁵ in a layout of bfloat16 parts: AMX treats parts
// and products below 2⁻¹²⁶ as 0, so the scores of such a vector have fewer correct digits than float32 could hold.
func (p *Panels) Short() bool { return p.short }

// Norm returns the largest ‖x̂‖ packed so far, rounded up; it is not finite if a value was not (Pack does not check for
// that; norms passed for cosine must be finite).
func (p *Panels) Norm() float64 { return p.norm }

// Pack fills the panels [from, to) of p from rows: vector i of p is row order[i], or row i if order is nil. A cosine
// needs rows.Norms. Different ranges may be packed concurrently.
func Pack(k cpu.Kernels, p *Panels, rows cpu.Rows, order []int32, from, to int) (Stats, error) {
	if p.isa != k.ISA() {
		return Stats{}, fmt.Errorf("%w: panels for %s, packed with %s", kernels.ErrISA, p.isa, k.ISA())
	}
	if rows.Dim != p.Dim || order == nil && rows.N < p.N || order != nil && len(order) < p.N || from < 0 ||
		to > p.Count() || from > to {
		return Stats{}, fmt.Errorf("%w: panels %d to %d of %d×%d from %d×%d rows, %d in order",
			kernels.ErrShape, from, to, p.N, p.Dim, rows.N, rows.Dim, len(order))
	}
	if err := rows.Check(p.Metric == kernels.Cosine); err != nil {
		return Stats{}, err
	}
	for _, i := range order[min(len(order), from*Panel):min(len(order), to*Panel)] {
		if i < 0 || int(i) >= rows.N {
			return Stats{}, fmt.Errorf("%w: row %d of %d in the order of panels", kernels.ErrShape, i, rows.N)
		}
	}
	if from == to {
		return Stats{}, nil
	}
	return pack(k, p, rows, order, from, to)
}
