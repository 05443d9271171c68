package scores

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Pairs writes out[i] = canonical score of a's row rowsA[i] and b's row rowsB[i]; if rowsA is nil, a has one row, used
// for all. For scattered pairs it takes about three times as long per pair as Block.
func Pairs(k cpu.Kernels, m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	if m > kernels.L2 {
		return fmt.Errorf("%w: %s", kernels.ErrMetric, m)
	}
	single := rowsA == nil && a.N == 1
	if a.Dim != b.Dim || !single && len(rowsA) != len(rowsB) || len(out) < len(rowsB) {
		return fmt.Errorf("%w: %d and %d rows of dimensions %d and %d in pairs, room for %d scores",
			kernels.ErrShape, len(rowsA), len(rowsB), a.Dim, b.Dim, len(out))
	}
	for _, r := range []cpu.Rows{a, b} {
		if err := r.Check(m == kernels.Cosine); err != nil {
			return err
		}
	}
	if len(rowsB) == 0 {
		return nil
	}
	return pairs(k, m, out, a, rowsA, b, rowsB)
}

// Estimate writes out[i] = dot product (l2: squared distance) of a's row rowsA[i] and b's row rowsB[i] in float32, with
// unspecified summation order and no error bound; it may be infinite or NaN. It is meant for samples.
func Estimate(k cpu.Kernels, m kernels.Metric, out []float32, a cpu.Rows, rowsA []int32, b cpu.Rows,
	rowsB []int32) error {
	if a.Dim != b.Dim || len(rowsA) != len(rowsB) || len(out) < len(rowsA) {
		return fmt.Errorf("%w: %d and %d rows of dimensions %d and %d in pairs, room for %d estimates",
			kernels.ErrShape, len(rowsA), len(rowsB), a.Dim, b.Dim, len(out))
	}
	for _, r := range []cpu.Rows{a, b} {
		if err := r.Check(false); err != nil {
			return err
		}
	}
	if len(rowsA) == 0 {
		return nil
	}
	return estimate(k, m, out, a, rowsA, b, rowsB)
}

// SumRows is how many rows at most Sum adds.
const SumRows = 1 << 12

// SumUnit is the unit of Sum.
const SumUnit = 0x1p-50

// Sum adds factor[r]·row r of a to out, for the listed rows r: a weighted sum of vectors whose coordinates, between −2
// and 2, are each rounded to a whole number of SumUnits, ties to even, so that any order gives the same bits. factor
// has an entry per row of a.
func Sum(k cpu.Kernels, out []int64, a cpu.Rows, factor []float64, rows []int32) error {
	if len(out) != a.Dim || len(factor) < a.N {
		return fmt.Errorf("%w: sum of %d×%d rows with %d factors into %d values", kernels.ErrShape, a.N, a.Dim,
			len(factor), len(out))
	}
	if len(rows) > SumRows {
		return fmt.Errorf("%w: a sum of %d rows, at most %d", kernels.ErrShape, len(rows), SumRows)
	}
	if err := a.Check(false); err != nil || len(rows) == 0 {
		return err
	}
	return sum(k, out, a, factor, rows)
}
