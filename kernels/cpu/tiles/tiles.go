package tiles

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Entry is a pair that a count kept: its value, and its position relative to the ranges of the call, (row − first
// row)<<16 | (column − first column).
type Entry struct {
	Value float32
	At    uint32
}

// MaxBrackets is the maximum number of brackets per count.
const MaxBrackets = 12

// MaxSide is the maximum number of panels per side of a count.
const MaxSide = 2048

// Count holds the parameters and results of Add for the tiles rows × columns (contexts are rows, on the left; queries
// are columns, on the right).
//
// A pair's class determines which results include it. Own pairs (Own[column] = row) and, with groups, pairs of one
// group (RowGroup[row] = ColumnGroup[column]) are near. Without groups only own pairs are near.
//   - Counted, Below, Sum, Sum2, Kept, Bins: pairs that are not own; with CrossGroup, not near.
//   - Other, BestOther: pairs that are not near.
//   - All, BestAll: at least all near pairs (and perhaps others).
//
// Brackets, Min, Max and the candidates refer to tile values; so do Sum, Sum2 and Bins, except that for l2 they use
// √(−2·value), the scaled distance.
type Count struct {
	// Parameters.
	Low, High             []float32 // disjoint brackets, ascending, at most MaxBrackets: values in [Low, High] are kept
	Min, Max              float32   // values ≤ Min or ≥ Max are kept; −Inf and +Inf keep none
	Margin                float32   // candidates are values ≥ best so far − Margin
	Own                   []int32   // per column of the panels: its own row, or −1
	RowGroup, ColumnGroup []int32   // per row and column, or both nil
	CrossGroup            bool
	NoBest                bool    // do not compute Other, All, BestOther and BestAll
	BinLow, BinScale      float32 // bin of v: ⌊(v − BinLow)·BinScale⌋, clamped to Bins

	// Results. The caller sets Kept, Other and All to length 0 with sufficient capacity, zeroes the counts and fills
	// BestOther and BestAll (per column of the call) with −Inf, or passes earlier results to continue from.
	Counted int64
	Below   []int64 // per bracket: values < Low
	// sums of v and v², rounded once per tile to units of 2⁻³⁰: independent of how a count is divided at panels
	Sum, Sum2        Sum
	Bins             []int64 // nil = no histogram
	Kept, Other, All []Entry
	// a list was full: Kept is incomplete, the counts are correct; a list without capacity is not requested
	KeptFull           bool
	OtherFull, AllFull bool
	BestOther, BestAll []float32
}

// Add counts the pairs of the panels [row0, row1) × [column0, column1) (at most MaxSide panels per side). rows is
// packed Left, columns Right, with the same dtype, metric and dimension. If a sum exceeds its type, or that of a tile
// 2⁶² units, it returns kernels.ErrRange and the results in c are invalid.
func (c *Count) Add(k cpu.Kernels, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) error {
	if err := checkTiles(k, rows, row0, row1, columns, column0, column1); err != nil {
		return err
	}
	if err := c.Check(rows.N, columns.N, row1-row0, column1-column0); err != nil {
		return err
	}
	if row0 == row1 || column0 == column1 {
		return nil
	}
	return count(k, c, rows, row0, row1, columns, column0, column1)
}

// Check validates a count of rowPanels × columnPanels panels out of sets of the given numbers of rows and columns; it
// returns kernels.ErrShape or kernels.ErrArgument.
func (c *Count) Check(rows, columns, rowPanels, columnPanels int) error {
	width := columnPanels * Panel
	switch {
	case rowPanels > MaxSide || columnPanels > MaxSide:
		return fmt.Errorf("%w: %d×%d panels in one count, at most %d", kernels.ErrShape, rowPanels, columnPanels,
			MaxSide)
	case len(c.Low) != len(c.High) || len(c.Below) != len(c.Low) || len(c.Low) > MaxBrackets:
		return fmt.Errorf("%w: %d and %d bracket ends, %d counters; at most %d", kernels.ErrArgument, len(c.Low),
			len(c.High), len(c.Below), MaxBrackets)
	case len(c.Own) < columns || (c.RowGroup == nil) != (c.ColumnGroup == nil):
		return fmt.Errorf("%w: %d owners of %d columns", kernels.ErrShape, len(c.Own), columns)
	case c.RowGroup != nil && (len(c.RowGroup) < rows || len(c.ColumnGroup) < columns):
		return fmt.Errorf("%w: %d and %d groups of %d rows and %d columns", kernels.ErrShape, len(c.RowGroup),
			len(c.ColumnGroup), rows, columns)
	case !c.NoBest && (len(c.BestOther) < width || len(c.BestAll) < width):
		return fmt.Errorf("%w: room for %d and %d best of %d columns", kernels.ErrShape, len(c.BestOther),
			len(c.BestAll), width)
	}
	return nil
}

// Matrix writes the scores of the panels [row0, row1) × [column0, column1) to out, in the metric's own
// unit (unscaled; l2 as a distance): out[(row−Panel·row0)·stride + column−Panel·column0].
func Matrix(k cpu.Kernels, out []float32, stride int, rows *Panels, row0, row1 int, columns *Panels, column0,
	column1 int) error {
	if err := checkTiles(k, rows, row0, row1, columns, column0, column1); err != nil {
		return err
	}
	m, n := min(row1*Panel, rows.N)-row0*Panel, min(column1*Panel, columns.N)-column0*Panel
	if m <= 0 || n <= 0 {
		return nil
	}
	if stride < n || len(out) < (m-1)*stride+n {
		return fmt.Errorf("%w: %d×%d scores into %d values with stride %d", kernels.ErrShape, m, n, len(out), stride)
	}
	return matrix(k, out, stride, rows, row0, row1, columns, column0, column1)
}

func checkTiles(k cpu.Kernels, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) error {
	if rows.Side != Left || columns.Side != Right || rows.DType != columns.DType || rows.Metric != columns.Metric ||
		rows.Dim != columns.Dim {
		return fmt.Errorf("%w: tiles of %s %s×%d and %s %s×%d", kernels.ErrShape,
			rows.DType, rows.Metric, rows.Dim, columns.DType, columns.Metric, columns.Dim)
	}
	if rows.isa != k.ISA() || columns.isa != k.ISA() {
		return fmt.Errorf("%w: panels packed for %s and %s, used with %s", kernels.ErrISA, rows.isa, columns.isa,
			k.ISA())
	}
	if row0 < 0 || row1 < row0 || row1 > rows.Count() || column0 < 0 || column1 < column0 || column1 > columns.Count() {
		return fmt.Errorf("%w: panels [%d, %d) of %d × [%d, %d) of %d", kernels.ErrShape, row0, row1, rows.Count(),
			column0, column1, columns.Count())
	}
	return nil
}
