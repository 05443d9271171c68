// Package npy reads and writes the kinds of NumPy .npy files that Sluice exchanges with other tools:
// one-dimensional float64 (score distributions) and two-dimensional float32 (vectors) as streams, both
// little-endian and in C order; and any little-endian matrix that lies in memory, a mapped file above all
// (ParseMatrix). Everything else is refused by name rather than guessed at.
//
// The format is NumPy's, versions 1.0 to 3.0: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// The errors of this package; what was found is wrapped into them.
var (
	// ErrFormat is a file that is not .npy, is damaged, or ends early.
	ErrFormat = errors.New("npy: not a readable .npy file")
	// ErrKind is a valid .npy file of another type, order or number of dimensions than asked for.
	ErrKind = errors.New("npy: another kind of array")
)

const (
	magic     = "\x93NUMPY"
	maxHeader = 64 << 10 // a real header is 118 bytes; a longer one is hostile
	block     = 64 << 10 // bytes converted at a time; a header's claim never allocates more than what arrives
)

// WriteFloat64 writes v as a one-dimensional float64 array.
func WriteFloat64(w io.Writer, v []float64) error {
	if err := writeHeader(w, "<f8", fmt.Sprintf("(%d,)", len(v))); err != nil {
		return err
	}
	return writeBlocks(w, v)
}

// ReadFloat64 reads a one-dimensional float64 array and expects the input to end after it.
func ReadFloat64(r io.Reader) ([]float64, error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	if err := h.want("<f8", 1); err != nil {
		return nil, err
	}
	return readBlocks[float64](r, h.shape[0])
}

// WriteFloat32 writes rows × cols values, row-major, as a two-dimensional float32 array.
func WriteFloat32(w io.Writer, data []float32, rows, cols int) error {
	if rows < 0 || cols < 0 || (cols > 0 && rows > math.MaxInt/cols) || rows*cols != len(data) {
		return fmt.Errorf("npy: %d values do not make %d × %d", len(data), rows, cols)
	}
	if err := writeHeader(w, "<f4", fmt.Sprintf("(%d, %d)", rows, cols)); err != nil {
		return err
	}
	return writeBlocks(w, data)
}

// ReadFloat32 reads a two-dimensional float32 array and expects the input to end after it.
func ReadFloat32(r io.Reader) (data []float32, rows, cols int, err error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, 0, 0, err
	}
	if err := h.want("<f4", 2); err != nil {
		return nil, 0, 0, err
	}
	rows, cols = h.shape[0], h.shape[1]
	if cols > 0 && rows > math.MaxInt/4/cols {
		return nil, 0, 0, fmt.Errorf("%w: a shape of %d × %d overflows", ErrFormat, rows, cols)
	}
	if data, err = readBlocks[float32](r, rows*cols); err != nil {
		return nil, 0, 0, err
	}
	return data, rows, cols, nil
}

// MatrixHeader returns the start of a file with a two-dimensional array of a type such as "<f4" in C order. The data
// follow directly, at a multiple of 64 bytes.
func MatrixHeader(descr string, rows, cols int) []byte {
	var b bytes.Buffer
	_ = writeHeader(&b, descr, fmt.Sprintf("(%d, %d)", rows, cols)) // a buffer takes everything
	return b.Bytes()
}

// writeHeader writes a version 1.0 header, padded so that the data begin at a multiple of 64 bytes.
func writeHeader(w io.Writer, descr, shape string) error {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape)
	const fixed = len(magic) + 4 // magic, version, length
	pad := 63 - (fixed+len(dict))%64
	dict += strings.Repeat(" ", pad) + "\n"
	head := append([]byte(magic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(dict)))
	_, err := w.Write(append(head, dict...))
	return err
}

func writeBlocks[T float32 | float64](w io.Writer, v []T) error {
	for part := range slices.Chunk(v, block/8) {
		if err := binary.Write(w, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	return nil
}

func readBlocks[T float32 | float64](r io.Reader, n int) (out []T, err error) {
	buf, size := make([]byte, block), binary.Size(T(0))
	for len(out) < n {
		more := min(n-len(out), block/size)
		if got, err := io.ReadFull(r, buf[:more*size]); err != nil {
			return nil, fmt.Errorf("%w: the header promises %d values, the data end in value %d (%w)", ErrFormat, n,
				len(out)+got/size, err)
		}
		out = slices.Grow(out, more)[:len(out)+more]
		_, _ = binary.Decode(buf, binary.LittleEndian, out[len(out)-more:]) // it knows these types
	}
	if _, err := io.ReadFull(r, buf[:1]); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: there are bytes after the %d values that the header promises", ErrFormat, n)
	}
	return out, nil
}
