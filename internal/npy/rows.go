package npy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Rows writes a two-dimensional float32 array row by row, in flat memory: the number of rows is put into the
// header at the end.
type Rows struct {
	f    io.WriteSeeker
	w    *bufio.Writer
	cols int
	n    int
	head int // bytes of the header
}

// NewRows begins a file of cols columns at the writer's start.
func NewRows(f io.WriteSeeker, cols int) (*Rows, error) {
	if cols < 1 {
		return nil, fmt.Errorf("npy: %d columns", cols)
	}
	r := &Rows{f: f, w: bufio.NewWriterSize(f, block), cols: cols}
	head := MatrixHeader("<f4", 0, cols)
	r.head = len(head)
	_, err := r.w.Write(head)
	return r, err
}

// N returns the number of rows so far.
func (r *Rows) N() int { return r.n }

// Append writes one row.
func (r *Rows) Append(row []float32) error {
	if len(row) != r.cols {
		return fmt.Errorf("npy: a row of %d values in an array of %d columns", len(row), r.cols)
	}
	r.n++
	return binary.Write(r.w, binary.LittleEndian, row)
}

// Close writes the number of rows; it does not close the writer.
func (r *Rows) Close() error {
	if err := r.w.Flush(); err != nil {
		return err
	}
	head := MatrixHeader("<f4", r.n, r.cols)
	if len(head) != r.head { // the padding takes up 20 digits
		return errors.New("npy: the number of rows does not fit the header")
	}
	if _, err := r.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := r.f.Write(head); err != nil {
		return err
	}
	_, err := r.f.Seek(0, io.SeekEnd)
	return err
}
