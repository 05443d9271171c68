package tiles

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Panel is the number of vectors in a panel: tiles are Panel × Panel pairs.
const Panel = 32

const maxDimI8 = 1 << 16 // 255·127 times that still fits an int32

// Side says which operand of a tile a set of vectors is; its layout follows from that.
type Side uint8

const (
	// Left vectors are the rows of a tile.
	Left Side = iota
	// Right vectors are its columns, each in a lane of a vector register.
	Right
)

// Panels are vectors in the layout of the tile kernels, in panels of Panel vectors, the last one
// filled up with zeros. What is packed is x̂ ≈ Scale·x (IP, L2) or x/‖x‖ (cosine), so that ‖x̂‖ ≲ 1,
// Scale being a power of two. A tile's value is
//
//	cosine  x̂·ŷ            ≈ cosine
//	ip      x̂·ŷ            ≈ Scale_x·Scale_y·ip
//	l2      x̂·ŷ − ½‖x̂‖² − ½‖ŷ‖² ≈ −½ Scale²·l2² (both sides have the same Scale)
//
// so that larger is always closer. Bound limits the difference.
type Panels struct {
	Side   Side
	DType  kernels.DType
	Metric kernels.Metric
	N, Dim int
	Scale  float64 // power of two; 1 for cosine

	isa   cpu.ISA   // whose layout it is
	data  []byte    // 64-byte aligned; layouts in pack.h
	terms []float32 // l2: −½‖x̂‖² per vector
	steps []float32 // I8, I16: each vector's step
	sums  []int32   // I8, right: 128 × sum of the vector's codes

	// Largest over the vectors packed so far, rounded up: ‖x̂‖, ‖x̂ − exact‖, and of what is split into bfloat16
	// the norm of the second parts.
	norm, residual, low float64
	short               bool
}

// NewPanels makes room for n vectors of dimension dim.
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

// Release takes the memory out of p, for Renew. What packing found stays, so that Bound still serves p.
func (p *Panels) Release() *Panels {
	old := &Panels{data: p.data}
	p.data, p.terms, p.steps, p.sums = nil, nil, nil, nil
	return old
}

// Count is the number of panels.
func (p *Panels) Count() int { return (p.N + Panel - 1) / Panel }

// Bytes is the memory that n vectors of dimension dim take as panels.
func Bytes(k cpu.Kernels, dtype kernels.DType, n, dim int) int64 {
	return int64((n+Panel-1)/Panel) * int64(panelBytes(k, dtype, dim)+4*Panel)
}

// Stats are what packing a range of panels found; Merge takes them into the Panels.
type Stats struct {
	Norm, Residual, Low float64
	Short               bool
}

// Merge widens p's maxima; it is for one goroutine at a time.
func (p *Panels) Merge(s Stats) {
	p.norm, p.residual, p.low = max(p.norm, s.Norm), max(p.residual, s.Residual), max(p.low, s.Low)
	p.short = p.short || s.Short
}

// Short tells that some vector packed so far has 0 < ‖x̂‖ < 2⁻⁴⁵ in a layout of bfloat16 parts: AMX takes parts and
// products below 2⁻¹²⁶ for 0, so that such a vector's scores have fewer good digits than float32 could hold.
func (p *Panels) Short() bool { return p.short }

// Norm is the largest ‖x̂‖ packed so far, rounded up; not finite if a value was not (Pack does not
// look for that; for cosine, the norms that it is given must not be).
func (p *Panels) Norm() float64 { return p.norm }

// Pack fills the panels [from, to) of p from rows: vector i of p is row order[i], or row i if order
// is nil. A cosine needs rows.Norms. Different ranges may be packed at the same time.
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
