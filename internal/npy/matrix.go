package npy

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// Matrix is a two-dimensional array in memory.
type Matrix struct {
	Rows, Cols int
	DType      string // "<f2", "<f4", "<f8"
	Fortran    bool   // columns lie together instead of rows
	Data       []byte // all values, and nothing else
}

// ParseMatrix reads the header of a whole file in memory. Every claim of the header is checked against the
// file's length; the data are not read, so a mapped file may be larger than memory.
func ParseMatrix(file []byte) (Matrix, error) {
	r := bytes.NewReader(file)
	h, err := readHeader(r)
	if err != nil {
		return Matrix{}, err
	}
	if strings.HasPrefix(h.descr, ">") {
		return Matrix{}, fmt.Errorf("%w: big-endian %s; astype('<f4') converts it", ErrKind, h.descr)
	}
	width := map[string]int{"<f2": 2, "<f4": 4, "<f8": 8}[h.descr]
	if width == 0 {
		return Matrix{}, fmt.Errorf("%w: type %s, want <f4, <f2 or <f8", ErrKind, h.descr)
	}
	if len(h.shape) != 2 {
		return Matrix{},
			fmt.Errorf("%w: %d dimensions %v, want 2 (a single vector is a matrix of one row)", ErrKind, len(h.shape),
				h.shape)
	}
	m := Matrix{Rows: h.shape[0], Cols: h.shape[1], DType: h.descr, Fortran: h.fortran, Data: file[len(file)-r.Len():]}
	if m.Cols > 0 && m.Rows > math.MaxInt/width/m.Cols {
		return Matrix{}, fmt.Errorf("%w: a shape of %d × %d overflows", ErrFormat, m.Rows, m.Cols)
	}
	if want := m.Rows * m.Cols * width; len(m.Data) != want {
		return Matrix{}, fmt.Errorf("%w: the header promises %d × %d values of %d bytes, %d in all; %d bytes follow it",
			ErrFormat, m.Rows, m.Cols, width, want, len(m.Data))
	}
	return m, nil
}
