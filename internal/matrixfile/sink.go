package matrixfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/internal/safetensors"
)

// Number is a type of values that sinks write.
type Number interface{ float32 | float64 | int64 }

// Array is a matrix to be written.
type Array struct {
	Name       string
	DType      string // F32, F64, I64
	Rows, Cols int
}

// Sink writes the arrays of one result. They appear under their names when Commit succeeds, and not before.
type Sink struct {
	files  []*partial
	places []place // per array
}

// partial is a file that does not have its name yet.
type partial struct {
	f    *os.File
	name string
}

type place struct {
	to     *partial
	offset int64
	Array
}

// Create begins a result. path ends in .safetensors for one file with a tensor per array (and metadata), or in .npy: a
// single array is that file; for several, ".NAME" is inserted before the ending. The disk space of all files is
// reserved if the file system can do that; after an error no file is left.
func Create(path string, metadata map[string]string, arrays ...Array) (*Sink, error) {
	s := &Sink{}
	err := CheckName(path)
	switch {
	case err != nil:
	case filepath.Ext(path) == safetensorsExt:
		err = s.safetensors(path, metadata, arrays)
	default:
		err = s.numpy(path, arrays)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Paths returns the files of the result.
func (s *Sink) Paths() (paths []string) {
	for _, p := range s.files {
		paths = append(paths, p.name)
	}
	return paths
}

func (s *Sink) safetensors(path string, metadata map[string]string, arrays []Array) error {
	entries := make([]safetensors.Entry, len(arrays))
	for i, a := range arrays {
		entries[i] = safetensors.Entry{Name: a.Name,
			Tensor: safetensors.Tensor{DType: a.DType, Shape: []int64{int64(a.Rows), int64(a.Cols)}}}
	}
	head, err := safetensors.Header(entries, metadata)
	if err != nil {
		return err
	}
	size := int64(len(head))
	for _, e := range entries {
		size += e.Length
	}
	p, err := s.begin(path, head, size)
	for i, e := range entries {
		s.places = append(s.places, place{p, e.Offset, arrays[i]})
	}
	return err
}

func (s *Sink) numpy(path string, arrays []Array) error {
	for _, a := range arrays {
		name := path
		if len(arrays) > 1 {
			name = strings.TrimSuffix(path, numpyExt) + "." + a.Name + numpyExt
		}
		head := npy.MatrixHeader(map[string]string{"F32": "<f4", "F64": "<f8", "I64": "<i8"}[a.DType], a.Rows, a.Cols)
		size := int64(len(head))
		if a.Cols > 0 && int64(a.Rows) > (math.MaxInt64-size)/8/int64(a.Cols) {
			return fmt.Errorf("%s: %d × %d values are more than a file can hold", name, a.Rows, a.Cols)
		}
		p, err := s.begin(name, head, size+int64(a.Rows)*int64(a.Cols)*int64(bytesOf(a.DType)))
		if err != nil {
			return err
		}
		s.places = append(s.places, place{p, size, a})
	}
	return nil
}

func bytesOf(dtype string) int {
	if dtype == "F32" {
		return 4
	}
	return 8
}

// begin creates the temporary file of size bytes.
func (s *Sink) begin(name string, head []byte, size int64) (*partial, error) {
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s exists and is not a regular file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return nil, err
	}
	p := &partial{f, name}
	s.files = append(s.files, p)
	if err := reserve(f, size); err != nil {
		return nil, fmt.Errorf("%s needs %d bytes: %w", name, size, err)
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// Put writes a block of an array: values are rows of width numbers that begin at row, col.
func Put[T Number](s *Sink, array, row, col int, values []T, width int) error {
	p := s.places[array]
	size := int64(unsafe.Sizeof(*new(T)))
	at := func(row int) int64 { return p.offset + (int64(row)*int64(p.Cols)+int64(col))*size }
	if width == p.Cols { // whole rows lie together
		width = len(values)
	}
	for len(values) > 0 {
		if _, err := p.to.f.WriteAt(encode(values[:width]), at(row)); err != nil {
			return fmt.Errorf("%s: %w", p.to.name, err)
		}
		values, row = values[width:], row+1
	}
	return nil
}

// encode returns the bytes of values in the files' order, which is the memory's nearly everywhere.
func encode[T Number](values []T) []byte {
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(*new(T))))
	}
	b, _ := binary.Append(nil, binary.LittleEndian, values) // it knows these types
	return b
}

// Commit gives the files their names, replacing what had them.
func (s *Sink) Commit() error {
	for _, p := range s.files {
		if err := errors.Join(p.f.Chmod(0o644), p.f.Close()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for _, p := range s.files {
		if err := os.Rename(p.f.Name(), p.name); err != nil {
			return err
		}
	}
	return nil
}

// Remove takes a committed result away again.
func (s *Sink) Remove() (err error) {
	for _, p := range s.files {
		err = errors.Join(err, os.Remove(p.name))
	}
	return err
}

// Close removes what was not committed.
func (s *Sink) Close() error {
	for _, p := range s.files {
		_ = p.f.Close() // it may be closed already
		_ = os.Remove(p.f.Name())
	}
	return nil
}
