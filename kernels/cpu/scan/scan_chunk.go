package scan

import (
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Chunk holds rows as 4-bit planes with bounds of their error (scan.h has the layout).
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

// Bytes returns the size of the codes of a chunk.
func Bytes(panels, sections int) int { return panels * sections * 2 * scanBlock }

// NewChunk makes a chunk over codes (Bytes long, zeroed), with memory for a term per row if terms is set.
func NewChunk(codes []byte, panels, sections int, terms bool) (*Chunk, error) {
	if panels < 1 || panels > MaxPanels || sections < 1 || sections > MaxSections ||
		len(codes) != Bytes(panels, sections) {
		return nil,
			fmt.Errorf("%w: chunk of %d panels and %d sections in %d bytes", kernels.ErrShape, panels, sections,
				len(codes))
	}
	c := &Chunk{Panels: panels, Sections: sections, codes: codes,
		meta: make([]float32, sections*scanMeta*panels+panels+sections)}
	if terms {
		c.terms = make([]float32, panels*Lanes)
	}
	return c, nil
}

// Bytes returns the memory that the chunk takes.
func (c *Chunk) Bytes() int64 {
	return int64(len(c.codes) + 4*(len(c.meta)+len(c.terms)))
}

// Mean adds each section's unknown norms, averaged over the panels, to the profile.
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

// SectionProfile tells what reading a section's planes gains: the norms of its unknown part after the high plane and
// after both, and of it and all later sections before reading.
type SectionProfile struct{ High, Both, Behind float64 }

// SetTerm sets what is added to the bounds of a row. The value set, and returned, is slightly larger, to cover the
// scan's roundings.
func (c *Chunk) SetTerm(row int, term float64) float64 {
	c.terms[row] = up(term + Rounding(c.Sections)*math.Abs(term))
	return float64(c.terms[row])
}

// SetShape sets the relative sizes of the sections from the rows that the chunk will hold; Pack needs them.
func (c *Chunk) SetShape(y cpu.Rows) {
	for s := range c.Sections {
		sum := 0.0
		for i := range y.N {
			for _, x := range y.Row(i)[s*Section : min(y.Dim, (s+1)*Section)] {
				sum += float64(x) * float64(x)
			}
		}
		c.shape()[s] = float32(math.Sqrt(sum / float64(max(y.N, 1))))
	}
}

func (c *Chunk) shape() []float32 { return c.meta[c.Sections*scanMeta*c.Panels+c.Panels:] }

// spread returns the panel's scale relative to the shape: its largest element gets the largest code.
func (c *Chunk) spread(y cpu.Rows) float32 {
	spread := 0.0
	for s, shape := range c.shape() {
		largest := uint32(0) // as magnitudes, floats are ordered like their bits
		for i := range y.N {
			for _, x := range y.Row(i)[s*Section : min(y.Dim, (s+1)*Section)] {
				largest = max(largest, math.Float32bits(x)&^(1<<31))
			}
		}
		if shape > 0 {
			spread = max(spread, float64(math.Float32frombits(largest))/127.5/float64(shape))
		}
	}
	return up(spread)
}

// Pack sets a panel to y, 1 to 16 rows of at most 64·Sections elements; missing rows repeat the last one, missing
// elements are 0. slop ≥ the norm of the error that each row already has. It returns the largest norm of a row, rounded
// up.
func (c *Chunk) Pack(panel int, y cpu.Rows, slop float64) (norm float64, err error) {
	if panel < 0 || panel >= c.Panels || y.N < 1 || y.N > Lanes || ceilDiv(y.Dim, Section) != c.Sections {
		return 0,
			fmt.Errorf("%w: panel %d of %d from %d rows of %d elements", kernels.ErrShape, panel, c.Panels, y.N, y.Dim)
	}
	if err := y.Check(false); err != nil {
		return 0, err
	}
	spread := c.spread(y)
	c.meta[c.Sections*scanMeta*c.Panels+panel] = spread
	var behind [Lanes]float64
	for s := c.Sections - 1; s >= 0; s-- {
		scale := spread * c.shape()[s]
		// too small or too large to divide by: all of it counts as error
		if scale != 0 && !(scale > 1e-30 && scale < math.MaxFloat32) {
			scale, c.meta[c.Sections*scanMeta*c.Panels+panel] = 0, float32(math.NaN())
		}
		high := c.codes[(2*s*c.Panels+panel)*scanBlock:][:scanBlock]
		low := c.codes[((2*s+1)*c.Panels+panel)*scanBlock:][:scanBlock]
		clear(high)
		clear(low)
		var restHigh, restBoth, length, all float64
		for lane := range Lanes {
			e := packSection(y.Row(min(lane, y.N-1))[s*Section:min(y.Dim, (s+1)*Section)], scale, lane, high,
				low)
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

// packSection writes the codes of one row's section and returns the squared norms of their errors, of the longer
// approximation, and of x. The dimensions that a short section lacks get the codes of 0; their approximations are not
// 0, but queries are.
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

// Parts returns a chunk's contents for a file, read-only: codes, error bounds, and a term per row or nil. The layout of
// scan.h is the same on every instruction set.
func (c *Chunk) Parts() (codes []byte, meta, terms []float32) { return c.codes, c.meta, c.terms }

// ChunkMeta returns the length of a chunk's meta.
func ChunkMeta(panels, sections int) int { return sections*scanMeta*panels + panels + sections }

// ChunkOf is the inverse of Parts; codes must be at an address from Aligned, or a whole number of chunks after one.
func ChunkOf(panels, sections int, codes []byte, meta, terms []float32) (*Chunk, error) {
	c, err := NewChunk(codes, panels, sections, false)
	if err != nil {
		return nil, err
	}
	if len(meta) != len(c.meta) || terms != nil && len(terms) != panels*Lanes {
		return nil,
			fmt.Errorf("%w: %d and %d numbers for a chunk of %d panels and %d sections", kernels.ErrShape, len(meta),
				len(terms), panels, sections)
	}
	c.meta, c.terms = meta, terms
	return c, nil
}
