package cpu

import (
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
)

// The sizes of the index scan, as in scan.h.
const (
	ScanLanes    = 16 // rows of a panel
	ScanPanels   = 64 // panels of a chunk at most
	ScanSection  = 64 // dimensions of a section
	ScanSections = 64 // sections at most
	ScanQueries  = 64 // queries of a scan at most
	scanBlock    = 512
	scanMeta     = 5
	scanWeights  = 4
)

// Chunk holds rows as 4-bit planes with what bounds their error (scan.h has the layout).
type Chunk struct {
	Panels, Sections int
	codes            []byte
	meta             []float32 // sections × scanMeta × panels, spread of the panels, shape of the sections
	terms            []float32 // per row, added to its bounds; nil = 0
}

// Kinds of Chunk.meta.
const (
	metaScale = iota
	metaRestHigh
	metaRestBoth
	metaLength
	metaBehind
)

// ScanBytes is the size of the codes of a chunk.
func ScanBytes(panels, sections int) int { return panels * sections * 2 * scanBlock }

// NewChunk makes a chunk over codes (ScanBytes long, zeroed), with room for a term per row if terms.
func NewChunk(codes []byte, panels, sections int, terms bool) (*Chunk, error) {
	if panels < 1 || panels > ScanPanels || sections < 1 || sections > ScanSections || len(codes) != ScanBytes(panels, sections) {
		return nil, fmt.Errorf("%w: chunk of %d panels and %d sections in %d bytes", kernels.ErrShape, panels, sections, len(codes))
	}
	c := &Chunk{Panels: panels, Sections: sections, codes: codes, meta: make([]float32, sections*scanMeta*panels+panels+sections)}
	if terms {
		c.terms = make([]float32, panels*ScanLanes)
	}
	return c, nil
}

// Bytes is the memory that the chunk takes.
func (c *Chunk) Bytes() int64 {
	return int64(len(c.codes) + 4*(len(c.meta)+len(c.terms)))
}

// Mean adds the mean over the panels of what is known of each section to the profile.
func (c *Chunk) Mean(into []SectionProfile) {
	for s := range into {
		m := c.meta[s*scanMeta*c.Panels:]
		for p := range c.Panels {
			into[s].High += float64(m[metaRestHigh*c.Panels+p]) / float64(c.Panels)
			into[s].Both += float64(m[metaRestBoth*c.Panels+p]) / float64(c.Panels)
			into[s].Behind += float64(m[metaBehind*c.Panels+p]) / float64(c.Panels)
		}
	}
}

// SectionProfile is what reading a section's planes is worth: the norms of what is not known of it
// with its high plane, with both, and of it and all sections behind it without.
type SectionProfile struct{ High, Both, Behind float64 }

// Rounding limits, relative to the lengths of the vectors, what the float32 sums of a scan over that
// many sections are off. A term is off by 4 roundings, each of 4 sums per section adds one, and no
// partial sum is above 33 times the lengths: 15 nibbles of 16 units of the largest element times at
// most 8 times the query's length, twice for what is subtracted again, and some.
func Rounding(sections int) float64 { return 33 * float64(4*sections+12) / (1 << 24) }

// up is x as a float32 that is not smaller.
func up(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// Down is x as a float32 that is not larger.
func Down(x float64) float32 { return -up(-x) }

// SetTerm sets what is added to the bounds of a row. The scan's roundings are taken care of: what is
// set, and returned, is a little larger.
func (c *Chunk) SetTerm(row int, term float64) float64 {
	c.terms[row] = up(term + Rounding(c.Sections)*math.Abs(term))
	return float64(c.terms[row])
}

// SetShape says how large the sections are relative to each other, from the rows that the chunk will
// hold; Pack needs it.
func (c *Chunk) SetShape(y Rows) {
	for s := range c.Sections {
		sum := 0.0
		for i := range y.N {
			for _, x := range y.Row(i)[s*ScanSection : min(y.Dim, (s+1)*ScanSection)] {
				sum += float64(x) * float64(x)
			}
		}
		c.shape()[s] = float32(math.Sqrt(sum / float64(max(y.N, 1))))
	}
}

func (c *Chunk) shape() []float32 { return c.meta[c.Sections*scanMeta*c.Panels+c.Panels:] }

// spread is the panel's scale relative to the shape: such that its largest element has the largest code.
func (c *Chunk) spread(y Rows) float32 {
	spread := 0.0
	for s, shape := range c.shape() {
		largest := uint32(0) // without the sign, floats are ordered like their bits
		for i := range y.N {
			for _, x := range y.Row(i)[s*ScanSection : min(y.Dim, (s+1)*ScanSection)] {
				largest = max(largest, math.Float32bits(x)&^(1<<31))
			}
		}
		if shape > 0 {
			spread = max(spread, float64(math.Float32frombits(largest))/127.5/float64(shape))
		}
	}
	return up(spread)
}

// Pack sets a panel to y, 1 to 16 rows of at most 64·Sections elements; the last row fills the panel up, 0
// the sections. slop ≥ the norm of what each row itself is off. It returns the largest norm of a row, rounded up.
func (c *Chunk) Pack(panel int, y Rows, slop float64) (norm float64, err error) {
	if panel < 0 || panel >= c.Panels || y.N < 1 || y.N > ScanLanes || ceilDiv(y.Dim, ScanSection) != c.Sections {
		return 0, fmt.Errorf("%w: panel %d of %d from %d rows of %d elements", kernels.ErrShape, panel, c.Panels, y.N, y.Dim)
	}
	if err := y.check(false); err != nil {
		return 0, err
	}
	spread := c.spread(y)
	c.meta[c.Sections*scanMeta*c.Panels+panel] = spread
	var behind [ScanLanes]float64
	for s := c.Sections - 1; s >= 0; s-- {
		scale := spread * c.shape()[s]
		if scale != 0 && !(scale > 1e-30 && scale < math.MaxFloat32) { // too small or too large to divide by: all is rest
			scale, c.meta[c.Sections*scanMeta*c.Panels+panel] = 0, float32(math.NaN())
		}
		high := c.codes[(2*s*c.Panels+panel)*scanBlock:][:scanBlock]
		low := c.codes[((2*s+1)*c.Panels+panel)*scanBlock:][:scanBlock]
		clear(high)
		clear(low)
		var restHigh, restBoth, length, all float64
		for lane := range ScanLanes {
			e := packSection(y.Row(min(lane, y.N-1))[s*ScanSection:min(y.Dim, (s+1)*ScanSection)], scale, lane, high, low)
			restHigh, restBoth, length = max(restHigh, e.high), max(restBoth, e.both), max(length, e.length)
			behind[lane] += e.square
			all = max(all, behind[lane])
		}
		m := c.meta[s*scanMeta*c.Panels+panel:]
		m[metaScale*c.Panels] = scale
		m[metaRestHigh*c.Panels] = widen(restHigh, slop)
		m[metaRestBoth*c.Panels] = widen(restBoth, slop)
		m[metaLength*c.Panels] = widen(length, 0)
		m[metaBehind*c.Panels] = widen(all, slop)
		norm = float64(m[metaBehind*c.Panels])
	}
	return norm, nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// widen is √square + slop, rounded up past the roundings of the square's sum in float64.
func widen(square, slop float64) float32 { return up(math.Sqrt(square)*(1+1e-12) + slop) }

type squares struct{ high, both, length, square float64 }

// packSection writes the codes of one row's section and returns the squared norms of what they leave,
// of the longer approximation, and of x. The dimensions that a short section lacks get the codes of 0;
// their approximations are not 0, but queries are.
func packSection(x []float32, scale float32, lane int, high, low []byte) (e squares) {
	inverse, unit := float32(0), float64(scale)
	if scale > 0 {
		inverse = 1 / scale
	}
	var lengthHigh, lengthBoth float64
	for k, v := range x {
		code := min(max(int(v*inverse+128), 0), 255)
		at, shift := k%32/4*64+4*lane+k%4, uint(k/32*4)
		high[at] |= byte(code>>4) << shift
		low[at] |= byte(code&15) << shift
		v, h, b := float64(v), unit*(float64(code>>4)*16-120), unit*(float64(code)-127.5)
		e.high += (v - h) * (v - h)
		e.both += (v - b) * (v - b)
		lengthHigh += h * h
		lengthBoth += b * b
		e.square += v * v
	}
	e.length = max(lengthHigh, lengthBoth)
	return e
}

// Queries are up to ScanQueries queries in the form that a scan takes.
type Queries struct {
	N, Sections int
	room        int // places: 1, or a multiple of 16, the queries of a tile
	q8          []int8
	sums        []int32
	weights     []float32
}

func roomFor(queries int) int {
	if queries == 1 {
		return 1
	}
	return ceilDiv(queries, ScanLanes) * ScanLanes
}

// NewQueries makes room for up to ScanQueries queries at a time; Reset says how many.
func NewQueries(capacity, sections int) *Queries {
	n := roomFor(capacity) * sections
	return &Queries{Sections: sections, q8: make([]int8, n*ScanSection), sums: make([]int32, n), weights: make([]float32, n*scanWeights)}
}

// Reset makes room for n queries, which have to be set again.
func (q *Queries) Reset(n int) { q.N, q.room = n, roomFor(n) }

// Set makes z, of 64·Sections elements, query i; slop ≥ the norm of what z itself is off.
func (q *Queries) Set(i int, z []float64, slop float64) {
	round, behind := Rounding(q.Sections), 0.0
	for s := q.Sections - 1; s >= 0; s-- {
		x := z[s*ScanSection:][:ScanSection]
		largest := 0.0
		for _, v := range x {
			largest = max(largest, math.Abs(v))
		}
		step, inverse := float32(largest/127), 0.0
		if step > 1e-30 && step < math.MaxFloat32 {
			inverse = 1 / float64(step)
		} else {
			step = 0
		}
		q8, sum := q.q8[(s*q.room+i)*ScanSection:][:ScanSection], int32(0)
		var off, length, square float64
		for k, v := range x {
			code := int32(min(max(math.RoundToEven(v*inverse), -127), 127))
			q8[k] = int8(code)
			sum += code
			have := float64(step) * float64(code)
			off += (v - have) * (v - have)
			length += have * have
			square += v * v
		}
		behind += square
		w := q.weights[s*scanWeights*q.room+i:]
		grow := (1 + round) * (1 + 1e-12)
		w[0] = step
		w[q.room] = up((math.Sqrt(square) + slop) * grow)
		w[2*q.room] = up((math.Sqrt(off) + slop + round*math.Sqrt(length)) * grow)
		w[3*q.room] = up((math.Sqrt(behind) + slop) * grow)
		q.sums[s*q.room+i] = 15 * sum
	}
}

// Norms returns |z| of a section, and of the section and all behind it.
func (q *Queries) Norms(i, section int) (own, behind float64) {
	w := q.weights[section*scanWeights*q.room+i:]
	return float64(w[q.room]), float64(w[3*q.room])
}

// ScanScratch is the memory that scans of one goroutine work in.
type ScanScratch struct {
	acc   []float32
	found []uint32
	lines []float32               // bounds, parallel to found
	Alive [2 * ScanSections]int64 // summed up over scans: (query, panel) left after each step
}

// NewScanScratch makes room for scans with up to that many queries.
func NewScanScratch(queries int) *ScanScratch {
	n := queries * ScanPanels * ScanLanes
	return &ScanScratch{acc: make([]float32, n), found: make([]uint32, n), lines: make([]float32, n)}
}

// CanScan tells whether there are scan kernels: plain Go has none.
func (k Kernels) CanScan() bool { return k.isa != Go }

// ScanName is the scan kernel in scan.h.
func (k Kernels) ScanName() string {
	switch k.isa {
	case Go:
		return "ref_scores_f32"
	case AVX512: // without VNNI, 512 bits gain nothing over 256 here
		return "slc_scan_i8_" + AVX2.String()
	}
	return "slc_scan_i8_" + k.isa.String()
}

// Scan returns the rows of c that the bounds leave, as query<<16 | row, in ascending order, and their
// bounds, both in scratch: those that may reach need[query] after the planes in steps (2·section for the
// high one, +1 for the low one), the first of which are read in any case. need has q's room: the
// number of queries rounded up to 16 unless it is 1.
func (k Kernels) Scan(c *Chunk, q *Queries, steps []uint8, first int, need []float32, w *ScanScratch) (found []uint32, bounds []float32, err error) {
	size := q.N * c.Panels * ScanLanes
	if q.Sections != c.Sections || q.N < 1 || len(q.sums) < q.room*q.Sections || len(need) < q.room || len(w.acc) < size || len(steps) > len(w.Alive) {
		return nil, nil, fmt.Errorf("%w: scan of %d queries with %d sections in %d sections; %d limits, room for %d of %d sums",
			kernels.ErrShape, q.N, q.Sections, c.Sections, len(need), len(w.acc), size)
	}
	n, err := k.scan(c, q, steps, first, need, w)
	if err != nil {
		return nil, nil, err
	}
	return w.found[:n], w.lines[:n], nil
}
