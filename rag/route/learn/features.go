package learn

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
)

// ErrFeatures is wrapped by the errors of features that a classifier cannot take.
var ErrFeatures = errors.New("learn: these features cannot be used")

// Features are rows of numbers: sparse columns first, dense ones behind them.
type Features struct {
	Rows   int
	Terms  int       // sparse columns
	Starts []int     // of each row's entries in Columns and Values, and their end: Rows + 1; nil without sparse columns
	Column []int32   // ascending in a row
	Value  []float64 // of the entries
	Dim    int       // dense columns
	Dense  []float32 // Rows × Dim
}

// Columns returns the number of all columns.
func (f *Features) Columns() int { return f.Terms + f.Dim }

// check returns what is wrong with features that come from outside.
func (f *Features) check() error {
	if f.Rows < 1 || f.Columns() < 1 {
		return fmt.Errorf("%w: %d rows of %d columns", ErrFeatures, f.Rows, f.Columns())
	}
	if len(f.Dense) != f.Rows*f.Dim || f.Terms > 0 && len(f.Starts) != f.Rows+1 {
		return fmt.Errorf("%w: %w", ErrFeatures, kernels.ErrShape)
	}
	for i, v := range f.Dense {
		if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: %w: row %d, dense column %d", ErrFeatures, kernels.ErrNonFinite, i/f.Dim, i%f.Dim)
		}
	}
	return nil
}

// sparse returns the entries of a row.
func (f *Features) sparse(row int) ([]int32, []float64) {
	if f.Starts == nil {
		return nil, nil
	}
	from, to := f.Starts[row], f.Starts[row+1]
	return f.Column[from:to], f.Value[from:to]
}

// dense returns the dense columns of a row.
func (f *Features) dense(row int) []float32 { return f.Dense[row*f.Dim : (row+1)*f.Dim] }

// dot returns the product of a row with weights of all columns.
func (f *Features) dot(row int, w []float64) float64 {
	var s float64
	columns, values := f.sparse(row)
	for i, c := range columns {
		s += values[i] * w[c]
	}
	x := f.dense(row)
	y := w[f.Terms:][:len(x)]
	var a, b, c, d float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += float64(x[i]) * y[i]
		b += float64(x[i+1]) * y[i+1]
		c += float64(x[i+2]) * y[i+2]
		d += float64(x[i+3]) * y[i+3]
	}
	for ; i < len(x); i++ {
		a += float64(x[i]) * y[i]
	}
	return s + (a + b) + (c + d)
}

// add adds a multiple of a row to sums of all columns.
func (f *Features) add(row int, factor float64, to []float64) {
	columns, values := f.sparse(row)
	for i, c := range columns {
		to[c] += factor * values[i]
	}
	x := f.dense(row)
	y := to[f.Terms:][:len(x)]
	for i, v := range x {
		y[i] += factor * float64(v)
	}
}

// Means returns the mean of each column over the rows of each class, class by class; a class without rows has zeros.
func (f *Features) Means(of []int32, classes int) []float64 {
	n := f.Columns()
	out, rows := make([]float64, classes*n), make([]float64, classes)
	for i, k := range of {
		f.add(i, 1, out[int(k)*n:][:n])
		rows[k]++
	}
	for k, count := range rows {
		for j := range n {
			out[k*n+j] /= max(count, 1)
		}
	}
	return out
}
