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
	MaxPanels   = 64 // maximum panels per chunk
	Section     = 64 // dimensions per section
	MaxSections = 64 // maximum sections
	MaxQueries  = 64 // maximum queries per scan
	MaxRows     = MaxPanels * Lanes
	scanBlock   = 512
	scanLift    = 2
	scanMeta    = 5
	scanWeights = 4
)

// Rounding bounds the error of a scan's float32 sums over the given number of sections, relative to the lengths of the
// vectors. A term has 4 roundings, each of 4 sums per section adds one, and no partial sum exceeds 33 times the
// lengths: 15 nibbles of 16 units of the largest element times at most 8 times the query's length, twice for the offset
// that is subtracted, plus a margin.
func Rounding(sections int) float64 { return 33 * float64(4*sections+12) / (1 << 24) }

// up rounds x up to float32.
func up(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// Down rounds x down to float32.
func Down(x float64) float32 { return -up(-x) }

// Scratch is the working memory for the scans of one goroutine.
type Scratch struct {
	acc   []float32
	found []uint32
	lines []float32              // bounds, parallel to found
	Alive [2 * MaxSections]int64 // summed over scans: (query, panel) pairs left after each step
}

// NewScratch allocates memory for scans with up to the given number of queries.
func NewScratch(queries int) *Scratch {
	n := queries * MaxPanels * Lanes
	return &Scratch{acc: make([]float32, n), found: make([]uint32, n), lines: make([]float32, n)}
}

// Bias holds the biases of a chunk's rows for each query of a scan: Rows[n*MaxRows+i] ≥ 0 for row i of the chunk and
// query n. Only queries whose bit is set in Queries have biases.
type Bias struct {
	Rows    []float32
	Queries uint64
	Lift    [MaxQueries * scanLift]float32
}

// NewBias allocates biases for the given number of queries.
func NewBias(queries int) *Bias {
	return &Bias{Rows: make([]float32, queries*MaxRows)}
}

// Of returns the biases of a query.
func (b *Bias) Of(query int) []float32 { return b.Rows[query*MaxRows : (query+1)*MaxRows] }

// SetLift sets what a bias b of the query's rows adds to their bounds: linear·b + square·b², both factors ≥ 0. It adds
// a margin for the scan's roundings.
func (b *Bias) SetLift(query, sections int, linear, square float64) {
	grow := (1 + Rounding(sections)) * (1 + 0x1p-20)
	b.Lift[query*scanLift], b.Lift[query*scanLift+1] = up(linear*grow), up(square*grow)
}

// Has reports whether there are scan kernels; plain Go has none.
func Has(k cpu.Kernels) bool { return k.ISA() != cpu.Go }

// Shares reports whether n queries of a scan share the unpacking of codes.
func Shares(isa cpu.ISA, n int) bool { return n >= 4 && (isa == cpu.AMX || isa == cpu.AVX512VNNI) }

// Name returns the name of the scan kernel in scan.h.
func Name(k cpu.Kernels) string {
	switch k.ISA() {
	case cpu.Go:
		return "ref_scores_f32"
	case cpu.AVX512: // without VNNI, 512 bits gain nothing over 256 here
		return "slc_scan_i8_" + cpu.AVX2.String()
	case cpu.I8MM, cpu.BF16:
		return "slc_scan_i8_" + cpu.DotProd.String()
	}
	return "slc_scan_i8_" + k.ISA().String()
}

// Scan returns the rows of c that the bounds do not rule out, as query<<16 | row, in ascending order, and their bounds,
// both in scratch: the rows that may reach need[query] after the planes in steps (2·section for the high plane, +1 for
// the low one). The first planes of steps are read unconditionally. need has the room of q: the number of queries
// rounded up to 16 unless it is 1.
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
