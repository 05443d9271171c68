package matrixfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/sluice-rag/sluice/internal/filemap"
	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/internal/safetensors"
)

// The errors of sources; what was found is wrapped into them.
var (
	// ErrTensor is a .safetensors file without the tensor that is asked for, or with several and no choice made.
	ErrTensor = errors.New("matrixfile: no such tensor")
	// ErrChanged is a file that became shorter while it was read.
	ErrChanged = errors.New("matrixfile: the file was cut while it was read")
)

// Source is a matrix of Rows × Dim numbers in a file. Its methods may be called by several goroutines.
type Source struct {
	Path      string
	Rows, Dim int
	DType     string // F32, F16, BF16, F64

	fortran bool
	data    []byte // the values
	whole   []byte // the mapping
	file    *os.File
	size    int64
}

// Open maps the matrix in the file at path. tensor names one of a .safetensors file; it may be empty when there is
// only one matrix. Formats and types that are not read are refused by name (npy.ErrKind, npy.ErrFormat,
// safetensors.ErrFormat, ErrTensor, ErrName).
func Open(path, tensor string) (*Source, error) {
	if err := CheckName(path); err != nil {
		return nil, err
	}
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	s := &Source{Path: path, file: f}
	if err := s.open(tensor); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Source) open(tensor string) error {
	st, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.size = st.Size()
	if s.whole, err = filemap.Map(s.file, s.size, false); err != nil {
		return err
	}
	if filepath.Ext(s.Path) == safetensorsExt {
		return s.openSafetensors(tensor)
	}
	m, err := npy.ParseMatrix(s.whole)
	if err != nil {
		return err
	}
	s.Rows, s.Dim, s.fortran, s.data = m.Rows, m.Cols, m.Fortran, m.Data
	s.DType = map[string]string{"<f2": "F16", "<f4": "F32", "<f8": "F64"}[m.DType]
	return nil
}

func (s *Source) openSafetensors(name string) error {
	tensors, err := safetensors.ReadHeader(bytes.NewReader(s.whole), s.size)
	if err != nil {
		return err
	}
	if name == "" {
		maps.DeleteFunc(tensors,
			func(_ string, t safetensors.Tensor) bool { return len(t.Shape) != 2 || width(t.DType) == 0 })
		if len(tensors) != 1 {
			return fmt.Errorf("%w: %d matrices of F32, F16, BF16 or F64 (%s); name one", ErrTensor, len(tensors),
				list(tensors))
		}
		for name = range tensors {
		}
	}
	t, ok := tensors[name]
	switch {
	case !ok:
		return fmt.Errorf("%w: %q; there are %s", ErrTensor, name, list(tensors))
	case len(t.Shape) != 2:
		return fmt.Errorf("%w: %q has %d dimensions %v, want 2", ErrTensor, name, len(t.Shape), t.Shape)
	case width(t.DType) == 0:
		return fmt.Errorf("%w: %q is %s, want F32, F16, BF16 or F64", ErrTensor, name, t.DType)
	}
	s.Rows, s.Dim, s.DType = int(t.Shape[0]), int(t.Shape[1]), t.DType
	s.data = s.whole[t.Offset : t.Offset+t.Length]
	return nil
}

// list names up to eight tensors.
func list(tensors map[string]safetensors.Tensor) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		names = append(names, strconv.Quote(name))
	}
	if len(names) > 8 {
		names = append(names[:8], "…")
	}
	return strings.Join(names, ", ")
}

// width returns the size of a readable type's values in bytes, 0 for others.
func width(dtype string) int {
	return map[string]int{"F16": 2, "BF16": 2, "F32": 4, "F64": 8}[dtype]
}

// Close unmaps the file; blocks that refer to the mapping must not be used afterwards.
func (s *Source) Close() error {
	whole := s.whole
	s.whole, s.data = nil, nil
	return errors.Join(filemap.Unmap(whole), s.file.Close())
}

// Direct reports whether blocks are the mapping itself; otherwise they are converted into a buffer.
func (s *Source) Direct() bool {
	return littleEndian && s.DType == "F32" && !s.fortran && uintptr(unsafe.Pointer(unsafe.SliceData(s.data)))%4 == 0
}

// Rounds reports whether values lose digits in float32.
func (s *Source) Rounds() bool { return s.DType == "F64" }

// Block returns the rows [from, to), contiguous. Unless the source is direct they are converted into buf, which has
// room for them. A file that has become shorter is ErrChanged: reading beyond its end would kill the process.
func (s *Source) Block(from, to int, buf []float32) ([]float32, error) {
	st, err := s.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	if st.Size() < s.size {
		return nil, fmt.Errorf("%w: %s has %d bytes, it had %d", ErrChanged, s.Path, st.Size(), s.size)
	}
	n := (to - from) * s.Dim
	if n == 0 {
		return nil, nil
	}
	if s.Direct() {
		all := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(s.data))), s.Rows*s.Dim)
		return all[from*s.Dim : to*s.Dim], nil
	}
	buf = buf[:n]
	if !s.fortran {
		convert(buf, 1, s.data[from*s.Dim*width(s.DType):], s.DType, n)
		return buf, nil
	}
	for col := range s.Dim {
		convert(buf[col:], s.Dim, s.data[(col*s.Rows+from)*width(s.DType):], s.DType, to-from)
	}
	return buf, nil
}

// convert writes n values to every step-th place of dst.
func convert(dst []float32, step int, src []byte, dtype string, n int) {
	switch dtype {
	case "F16":
		for i := range n {
			dst[i*step] = half(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case "BF16":
		for i := range n {
			dst[i*step] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case "F32":
		for i := range n {
			dst[i*step] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	default:
		for i := range n {
			dst[i*step] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	}
}

// half returns the value of an IEEE 754 binary16: its exponent and mantissa, moved to their places in a float32, are
// the value times 2⁻¹¹², subnormal ones included.
func half(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	if h&0x7c00 == 0x7c00 { // infinite, or no number
		return math.Float32frombits(sign | 0x7f800000 | rest)
	}
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest)*0x1p112))
}

// NonFinite returns the place and stored value of the first number in the rows [from, to) that has no finite float32.
func (s *Source) NonFinite(from, to int) (row, col int, value float64, found bool) {
	w := width(s.DType)
	for row = from; row < to; row++ {
		for col = range s.Dim {
			i := row*s.Dim + col
			if s.fortran {
				i = col*s.Rows + row
			}
			var x [1]float32
			convert(x[:], 1, s.data[i*w:], s.DType, 1)
			if f := float64(x[0]); math.IsNaN(f) || math.IsInf(f, 0) {
				if s.DType == "F64" {
					f = math.Float64frombits(binary.LittleEndian.Uint64(s.data[i*w:]))
				}
				return row, col, f, true
			}
		}
	}
	return 0, 0, 0, false
}
