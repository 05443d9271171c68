package cpu

import (
	"fmt"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
)

// Panel is the number of vectors in a panel: tiles are Panel × Panel pairs.
const Panel = 32

const maxDimI8 = 1 << 16 // 255·127 times that still fits an int32

// Side says which operand of a tile a set of vectors is; its layout follows from that.
type Side uint8

const (
	// Left vectors are the rows of a tile.
	Left Side = iota
	// Right vectors are its columns, one per SIMD lane.
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

	isa   ISA       // whose layout it is
	data  []byte    // 64-byte aligned; layouts in slc.h
	terms []float32 // l2: −½‖x̂‖² per vector
	steps []float32 // I8: each vector's step
	sums  []int32   // I8, right: 128 × sum of the vector's codes

	// Largest over the vectors packed so far, rounded up: ‖x̂‖, ‖x̂ − exact‖, and of what is split into bfloat16
	// the norm of the second parts.
	norm, residual, low float64
	short               bool
}

// NewPanels makes room for n vectors of dimension dim.
func (k Kernels) NewPanels(side Side, dtype kernels.DType, metric kernels.Metric, n, dim int, scale float64) (*Panels, error) {
	return k.Renew(new(Panels), side, dtype, metric, n, dim, scale)
}

// Renew is NewPanels in the memory of old panels, which must not be used any more; old may be nil.
func (k Kernels) Renew(old *Panels, side Side, dtype kernels.DType, metric kernels.Metric, n, dim int, scale float64) (*Panels, error) {
	if !k.Has(dtype) {
		return nil, fmt.Errorf("%w: %s has no %s tiles", kernels.ErrISA, k.isa, dtype)
	}
	if n < 0 || dim < 1 || metric > kernels.L2 || !(scale > 0) {
		return nil, fmt.Errorf("%w: panels of %d×%d, metric %s, scale %v", kernels.ErrShape, n, dim, metric, scale)
	}
	p := &Panels{Side: side, DType: dtype, Metric: metric, N: n, Dim: dim, Scale: scale, isa: k.isa}
	if size := p.Count() * k.panelBytes(dtype, dim); old != nil && cap(old.data) >= size {
		p.data = old.data[:size] // packing writes all of a panel
	} else {
		p.data = Aligned(size)
	}
	if metric == kernels.L2 {
		p.terms = make([]float32, p.Count()*Panel)
	}
	if dtype == kernels.I8 {
		if dim > maxDimI8 {
			return nil, fmt.Errorf("%w: i8 tiles of dimension %d, at most %d", kernels.ErrShape, dim, maxDimI8)
		}
		p.steps = make([]float32, p.Count()*Panel)
		if side == Right {
			p.sums = make([]int32, p.Count()*Panel)
		}
	}
	return p, nil
}

// Count is the number of panels.
func (p *Panels) Count() int { return (p.N + Panel - 1) / Panel }

// Bytes is the memory that n vectors of dimension dim take as panels.
func (k Kernels) Bytes(dtype kernels.DType, n, dim int) int64 {
	return int64((n+Panel-1)/Panel) * int64(k.panelBytes(dtype, dim)+4*Panel)
}

// Aligned is n zeroed bytes that start at a cache line.
func Aligned(n int) []byte {
	b := make([]byte, n+63)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63
	return b[skip : skip+uintptr(n) : skip+uintptr(n)]
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
func (k Kernels) Pack(p *Panels, rows Rows, order []int32, from, to int) (Stats, error) {
	if p.isa != k.isa {
		return Stats{}, fmt.Errorf("%w: panels for %s, packed with %s", kernels.ErrISA, p.isa, k.isa)
	}
	if rows.Dim != p.Dim || order == nil && rows.N < p.N || order != nil && len(order) < p.N || from < 0 || to > p.Count() || from > to {
		return Stats{}, fmt.Errorf("%w: panels %d to %d of %d×%d from %d×%d rows, %d in order",
			kernels.ErrShape, from, to, p.N, p.Dim, rows.N, rows.Dim, len(order))
	}
	if err := rows.check(p.Metric == kernels.Cosine); err != nil {
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
	return k.pack(p, rows, order, from, to)
}

// Bound is ε ≥ |a tile's value − its canonical counterpart (see Panels)|, in float32 from below the
// comparison: it covers both operands' rounding, the sums and the canonical score's own error.
func Bound(left, right *Panels) float64 { return bound(left, right) }

// Entry is a pair that a count kept: its value, and where it is, relative to the ranges of the call:
// (row − first row)<<16 | (lane − first lane).
type Entry struct {
	Value float32
	At    uint32
}

// MaxBrackets is how many brackets one count takes.
const MaxBrackets = 12

// Count is what Kernels.Count looks for and finds in the tiles rows × lanes (contexts are rows, on
// the left; queries are lanes, on the right).
//
// A pair's class decides what it enters. Own pairs (Own[lane] = row) and, with groups, pairs of one
// group (RowGroup[row] = LaneGroup[lane]) are near. Without groups only own pairs are.
//   - Counted, Below, Sum, Sum2, Kept, Bins: pairs that are not own; with CrossGroup, not near.
//   - Other, BestOther: pairs that are not near.
//   - All, BestAll: at least all near pairs (and perhaps others).
//
// Brackets, Min, Max and the candidates are about tile values; Sum, Sum2 and Bins too, but for l2 they
// are about √(−2·value), the scaled distance.
type Count struct {
	// What to look for.
	Low, High           []float32 // disjoint brackets, ascending, at most MaxBrackets: values in [Low, High] are kept
	Min, Max            float32   // values ≤ Min or ≥ Max are kept; −Inf and +Inf keep none
	Margin              float32   // candidates are values ≥ best so far − Margin
	Own                 []int32   // per lane of the panels: its own row, or −1
	RowGroup, LaneGroup []int32   // per row and lane, or both nil
	CrossGroup          bool
	NoBest              bool    // Other, All, BestOther and BestAll are not wanted
	BinLow, BinScale    float32 // bin of v: ⌊(v − BinLow)·BinScale⌋, clamped to Bins

	// What was found; the caller sets Kept, Other and All to length 0 with room, zeroes the counts and
	// fills BestOther and BestAll (per lane of the call) with −Inf, or carries them on.
	Counted            int64
	Below              []int64 // per bracket: values < Low
	Sum, Sum2          Sum     // of v and v², rounded once per tile to units of 2⁻³⁰: the same for any cutting at panels
	Bins               []int64 // nil = no histogram
	Kept, Other, All   []Entry
	KeptFull           bool // there was too little room: Kept is of no use, the counts are good; without any room nothing is wanted
	OtherFull, AllFull bool
	BestOther, BestAll []float32
}

// Count goes over the panels [row0, row1) × [lane0, lane1) (at most 2048 panels each way). rows is
// packed Left, lanes Right, of one dtype, metric and dimension. A sum that its type does not hold, or that of a tile beyond
// 2⁶² units, is kernels.ErrRange, and then nothing in c is of use.
func (k Kernels) Count(c *Count, rows *Panels, row0, row1 int, lanes *Panels, lane0, lane1 int) error {
	if err := k.checkTiles(rows, row0, row1, lanes, lane0, lane1); err != nil {
		return err
	}
	width := (lane1 - lane0) * Panel
	switch {
	case row1-row0 > 2048 || lane1-lane0 > 2048:
		return fmt.Errorf("%w: %d×%d panels in one count, at most 2048", kernels.ErrShape, row1-row0, lane1-lane0)
	case len(c.Low) != len(c.High) || len(c.Below) != len(c.Low) || len(c.Low) > MaxBrackets:
		return fmt.Errorf("%w: %d and %d bracket ends, %d counters; at most %d", kernels.ErrArgument, len(c.Low), len(c.High), len(c.Below), MaxBrackets)
	case len(c.Own) < lanes.N || (c.RowGroup == nil) != (c.LaneGroup == nil):
		return fmt.Errorf("%w: %d owners of %d lanes", kernels.ErrShape, len(c.Own), lanes.N)
	case c.RowGroup != nil && (len(c.RowGroup) < rows.N || len(c.LaneGroup) < lanes.N):
		return fmt.Errorf("%w: %d and %d groups of %d rows and %d lanes", kernels.ErrShape, len(c.RowGroup), len(c.LaneGroup), rows.N, lanes.N)
	case !c.NoBest && (len(c.BestOther) < width || len(c.BestAll) < width):
		return fmt.Errorf("%w: room for %d and %d best of %d lanes", kernels.ErrShape, len(c.BestOther), len(c.BestAll), width)
	}
	if row0 == row1 || lane0 == lane1 {
		return nil
	}
	return k.count(c, rows, row0, row1, lanes, lane0, lane1)
}

// Matrix writes the scores of the panels [row0, row1) × [lane0, lane1) to out, in the metric's own
// unit (unscaled; l2 as a distance): out[(row−Panel·row0)·stride + lane−Panel·lane0].
func (k Kernels) Matrix(out []float32, stride int, rows *Panels, row0, row1 int, lanes *Panels, lane0, lane1 int) error {
	if err := k.checkTiles(rows, row0, row1, lanes, lane0, lane1); err != nil {
		return err
	}
	m, n := min(row1*Panel, rows.N)-row0*Panel, min(lane1*Panel, lanes.N)-lane0*Panel
	if m <= 0 || n <= 0 {
		return nil
	}
	if stride < n || len(out) < (m-1)*stride+n {
		return fmt.Errorf("%w: %d×%d scores into %d values with stride %d", kernels.ErrShape, m, n, len(out), stride)
	}
	return k.matrix(out, stride, rows, row0, row1, lanes, lane0, lane1)
}

func (k Kernels) checkTiles(rows *Panels, row0, row1 int, lanes *Panels, lane0, lane1 int) error {
	if rows.Side != Left || lanes.Side != Right || rows.DType != lanes.DType || rows.Metric != lanes.Metric || rows.Dim != lanes.Dim {
		return fmt.Errorf("%w: tiles of %s %s×%d and %s %s×%d", kernels.ErrShape,
			rows.DType, rows.Metric, rows.Dim, lanes.DType, lanes.Metric, lanes.Dim)
	}
	if rows.isa != k.isa || lanes.isa != k.isa {
		return fmt.Errorf("%w: panels packed for %s and %s, used with %s", kernels.ErrISA, rows.isa, lanes.isa, k.isa)
	}
	if row0 < 0 || row1 < row0 || row1 > rows.Count() || lane0 < 0 || lane1 < lane0 || lane1 > lanes.Count() {
		return fmt.Errorf("%w: panels [%d, %d) of %d × [%d, %d) of %d", kernels.ErrShape, row0, row1, rows.Count(), lane0, lane1, lanes.Count())
	}
	return nil
}
