// Package device is what the engine's operations compute on: an interface that a device implements, its
// first implementation on the CPU, and what every operation does before and around a call of it: checked
// operands with norms, blocks of canonical scores, memory.
package device

import (
	"context"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// Device computes on sets of vectors. Its calls may come from many goroutines at once; a device that runs fewer
// of them at a time, or all on one thread, lets the others wait. Each call is one task of 1 to 10 ms, so that
// cancellation comes soon. Every error is a value: nothing panics and nothing ends the process.
//
// A set holds the vectors in the device's own layout, normalised or scaled as tiles.Panels says, in
// panels of Panel vectors; what an operation counts or writes are tile values, off by at most Bound.
// Scores and Pairs are canonical: the same bits on every device. They and Pack take rows in the process's
// memory, and read the device's own copy instead where Upload made one.
type Device interface {
	Describe() Info
	// Has reports whether the device multiplies in that format; every device has F32.
	Has(t kernels.DType) bool
	// Bytes is the memory that a set of n vectors takes.
	Bytes(t kernels.DType, n, dim int) int64

	// Upload copies rows and their norms into memory of the device's own: what it returns is for cpu.Rows.Resident
	// of views of these rows. It is nil where the device reads the process's memory. Release gives it back.
	Upload(rows cpu.Rows) (resident any, err error)
	Release(resident any)

	// New makes room for a set of n vectors as the left or right side of tiles. Free gives it back; it must
	// not be used any more.
	New(side Side, t kernels.DType, m kernels.Metric, n, dim int, scale float64) (Set, error)
	Free(s Set)
	// Pack fills the panels [from, to): vector i of s is row order[i], or row i without order. A cosine needs
	// norms. Calls on different ranges may come at the same time.
	Pack(s Set, rows cpu.Rows, order []int32, from, to int) error
	// Bound is ε ≥ |tile value − its canonical counterpart| over all pairs of what has been packed; also of sets
	// that were freed.
	Bound(left, right Set) float64

	// Count goes over the pairs of the panels [row0, row1) × [lane0, lane1), at most MaxSide panels each way.
	Count(c *Count, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error
	// Matrix writes the scores of the same pairs, in the metric's own unit.
	Matrix(out []float32, stride int, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error

	// Scores writes the canonical scores of all rows of a with all of b: out[i*stride+j].
	Scores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error
	// Pairs writes the canonical scores of rows rowsA[i] of a with rows rowsB[i] of b; without rowsA, of a's only row.
	Pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error

	// HasScan reports whether Code and Scan are there; they are for rows and queries that have copies on the device.
	// Code makes the codes of all rows, of which Scan reads the first head coordinates before it looks at the others.
	// Free gives them back.
	HasScan() bool
	Code(ctx context.Context, rows cpu.Rows, x *Axes, head int) (Codes, error)
	Scan(s *Scan) error
}

// Set is a set of vectors in a device's own layout.
type Set interface {
	Len() int       // vectors
	Count() int     // panels
	Norm() float64  // the largest norm of what is packed, rounded up
	Short() bool    // tiles.Panels.Short
	Scale() float64 // of what is packed
	Dimension() int
}

// Info describes a device.
type Info struct {
	Name   string // "cpu"
	Kernel string // family of its canonical kernels
	ISA    string
	Tiles  string // how tiles of low precision are multiplied, where a device has several ways, and why
	// CountWork and MatrixWork are multiply-adds of a task that counts tiles, or writes them.
	CountWork, MatrixWork int
	// PackBytes is how many bytes of float32 rows a call of Pack takes best; 0: what fits the CPU's caches.
	PackBytes int
	// Memory is what sets and copies of rows may take together, in bytes, in memory of the device's own; 0: sets
	// take the process's memory, within the limit of the operation.
	Memory int64
}

// The types that the CPU's kernels and every other device share.
type (
	Side  = tiles.Side
	Count = tiles.Count
	Entry = tiles.Entry
)

// Sides, and sizes of a call.
const (
	Left        = tiles.Left
	Right       = tiles.Right
	Panel       = tiles.Panel
	MaxBrackets = tiles.MaxBrackets
	MaxSide     = tiles.MaxSide // panels
)

// Resources are what an operation runs on.
type Resources struct {
	Device
	Host     cpu.Kernels // norms, checks, sums and samples of vectors in memory, and scans of the index
	Pool     *workers.Pool
	MemLimit int64                   // bytes of scratch memory
	TileRows int                     // rows of a tile that the user asked for; 0 = chosen
	Report   func(done, total int64) // of progress; may be nil
	Costs    Costs                   // what Choose goes by
	Why      *Reason                 // why the operation runs on this device, where that was chosen for it alone
}

// Meter reports the progress of an operation on that many pairs.
func (r *Resources) Meter(total int64) *workers.Meter { return workers.NewMeter(r.Report, total) }

// SetMemory returns how many bytes of sets an operation may have at once.
func (r *Resources) SetMemory() int64 {
	if own := r.Describe().Memory; own > 0 {
		return own
	}
	return r.MemLimit
}

// Choose says what an operation should run on, and why, by the costs that are known.
func (r *Resources) Choose(op Op, s Shape, has Residency) string {
	if r.Why != nil {
		return r.Why.String()
	}
	_, why := Choose(op, s, has, r.Costs)
	return why.String()
}

// HoldBoth holds two operands; release is to be called after an error, too.
func (r *Resources) HoldBoth(a, b *Operand) (release func(), err error) {
	first, err := r.Hold(a)
	if err != nil {
		return first, err
	}
	second, err := r.Hold(b)
	return func() { second(); first() }, err
}

// Accurate returns the fastest format that is about as accurate as float32. Cheaper ones do not tell near
// vectors apart: plain bfloat16 is off by up to .1 in a distance of unit vectors. Three products with BFMMLA may be
// faster than one of floats on some processors of arm64; none was measured.
func (r *Resources) Accurate() kernels.DType {
	if r.Has(kernels.BF16x3) && r.Host.ISA() != cpu.BF16 {
		return kernels.BF16x3
	}
	return kernels.F32
}
