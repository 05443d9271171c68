package scan

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The sizes of the index scan, as in scan.h.
const (
	Lanes       = 16 // rows of a panel
	MaxPanels   = 64 // panels of a chunk at most
	Section     = 64 // dimensions of a section
	MaxSections = 64 // sections at most
	MaxQueries  = 64 // queries of a scan at most
	MaxRows     = MaxPanels * Lanes
	scanBlock   = 512
	scanLift    = 2
	scanMeta    = 5
	scanWeights = 4
)

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

// Scratch is the memory that scans of one goroutine work in.
type Scratch struct {
	acc   []float32
	found []uint32
	lines []float32              // bounds, parallel to found
	Alive [2 * MaxSections]int64 // summed up over scans: (query, panel) left after each step
}

// NewScratch makes room for scans with up to that many queries.
func NewScratch(queries int) *Scratch {
	n := queries * MaxPanels * Lanes
	return &Scratch{acc: make([]float32, n), found: make([]uint32, n), lines: make([]float32, n)}
}

// Bias are the biases of a chunk's rows, for each query of a scan: row i of the chunk and query n have
// Rows[n*MaxRows+i] ≥ 0. Only the queries whose bit is set in Queries have any.
type Bias struct {
	Rows    []float32
	Queries uint64
	Lift    [MaxQueries * scanLift]float32
}

// NewBias makes room for that many queries.
func NewBias(queries int) *Bias {
	return &Bias{Rows: make([]float32, queries*MaxRows)}
}

// Of is the place of a query's biases.
func (b *Bias) Of(query int) []float32 { return b.Rows[query*MaxRows : (query+1)*MaxRows] }

// SetLift says what a bias b of the query's rows adds to their bounds: linear·b + square·b², neither
// negative. The scan's roundings are taken care of.
func (b *Bias) SetLift(query, sections int, linear, square float64) {
	grow := (1 + Rounding(sections)) * (1 + 0x1p-20)
	b.Lift[query*scanLift], b.Lift[query*scanLift+1] = up(linear*grow), up(square*grow)
}

// Has tells whether there are scan kernels: plain Go has none.
func Has(k cpu.Kernels) bool { return k.ISA() != cpu.Go }

// Shares tells whether n queries of a scan share the unpacking of codes.
func Shares(isa cpu.ISA, n int) bool { return n >= 4 && (isa == cpu.AMX || isa == cpu.AVX512VNNI) }

// Name is the scan kernel in scan.h.
func Name(k cpu.Kernels) string {
	switch k.ISA() {
	case cpu.Go:
		return "ref_scores_f32"
	case cpu.AVX512: // without VNNI, 512 bits gain nothing over 256 here
		return "slc_scan_i8_" + cpu.AVX2.String()
	}
	return "slc_scan_i8_" + k.ISA().String()
}

// Scan returns the rows of c that the bounds leave, as query<<16 | row, in ascending order, and their
// bounds, both in scratch: those that may reach need[query] after the planes in steps (2·section for the
// high one, +1 for the low one), the first of which are read in any case. need has q's room: the
// number of queries rounded up to 16 unless it is 1.
func Scan(k cpu.Kernels, c *Chunk, q *Queries, steps []uint8, first int, need []float32, b *Bias,
	w *Scratch) (found []uint32, bounds []float32, err error) {
	size := q.N * c.Panels * Lanes
	if q.Sections != c.Sections || q.N < 1 || len(q.sums) < q.room*q.Sections || len(need) < q.room ||
		len(w.acc) < size || len(steps) > len(w.Alive) {
		return nil, nil,
			fmt.Errorf("%w: scan of %d queries with %d sections in %d sections; %d limits, room for %d of %d sums",
				kernels.ErrShape, q.N, q.Sections, c.Sections, len(need), len(w.acc), size)
	}
	if n := bits.Len64(b.Queries); n > q.N || n > 0 && len(b.Rows) < (n-1)*MaxRows+c.Panels*Lanes {
		return nil, nil,
			fmt.Errorf("%w: scan of %d queries with biases of %d rows for the queries %b", kernels.ErrShape, q.N,
				len(b.Rows), b.Queries)
	}
	n, err := scan(k, c, q, steps, first, need, b, w)
	if err != nil {
		return nil, nil, err
	}
	return w.found[:n], w.lines[:n], nil
}
