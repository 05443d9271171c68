package cpu

import (
	"fmt"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
)

// Rows is a view of N vectors of Dim elements, Stride apart, with their norms if a cosine needs them: Dim ≤ Stride,
// len(Data) ≥ (N−1)·Stride + Dim, len(Norms) ≥ N. Anything else is kernels.ErrShape.
//
// Resident, if not nil, is a device's copy of a set of rows, with norms, in which these start at row First; the kernels
// of this package read Data.
type Rows struct {
	Data           []float32
	Norms          []float64
	N, Dim, Stride int
	Resident       any
	First          int
}

// Row returns vector i.
func (r Rows) Row(i int) []float32 { return r.Data[i*r.Stride : i*r.Stride+r.Dim] }

// Slice returns a view of the rows [from, to).
func (r Rows) Slice(from, to int) Rows {
	s := Rows{N: to - from, Dim: r.Dim, Stride: r.Stride, Resident: r.Resident, First: r.First + from}
	if to > from {
		s.Data = r.Data[from*r.Stride : (to-1)*r.Stride+r.Dim]
	}
	if r.Norms != nil {
		s.Norms = r.Norms[from:to]
	}
	return s
}

// Check returns kernels.ErrShape if r, or its norms where they are needed, are inconsistent.
func (r Rows) Check(norms bool) error {
	short := r.N > 0 && (len(r.Data) < r.Dim || r.N-1 > (len(r.Data)-r.Dim)/max(r.Stride, 1))
	if r.N < 0 || r.Dim < 0 || r.Stride < r.Dim || short {
		return fmt.Errorf("%w: %d rows of %d elements with stride %d in %d values", kernels.ErrShape, r.N, r.Dim,
			r.Stride, len(r.Data))
	}
	if norms && len(r.Norms) < r.N {
		return fmt.Errorf("%w: %d norms of %d rows", kernels.ErrShape, len(r.Norms), r.N)
	}
	return nil
}

// CheckList rejects a list with a row number outside r.
func (r Rows) CheckList(list []int32) error {
	for i, row := range list {
		if row < 0 || int(row) >= r.N {
			return fmt.Errorf("%w: entry %d names row %d of %d", kernels.ErrShape, i, row, r.N)
		}
	}
	return nil
}

// Aligned returns n zeroed bytes aligned to a cache line.
func Aligned(n int) []byte {
	b := make([]byte, n+63)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63
	return b[skip : skip+uintptr(n) : skip+uintptr(n)]
}
