package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is the memory that vectors are read from: rows from first on, one behind the other, without a copy. An
// address range is reserved for more segments than there are, and every segment is mapped into it as a whole: as a file
// grows, its rows appear. Only rows that are committed may be read. Views share it; the last one to leave unmaps it.
type mapping struct {
	g     *segments
	first int64 // row; begins a segment
	base  unsafe.Pointer
	size  uintptr // reserved
	data  []float32
	end   int64 // rows of the segments that are mapped, from the store's row 0
	whole int64 // rows below are of whole blocks whose checksums were compared
	users atomic.Int64

	checksums []uint32      // of the whole blocks
	damaged   []*BlockError // whose rows are zero here; only of rows in memory
}

// spare segments are reserved beside twice as many as there are; address space costs nothing.
const spare = 16

// mappable reports whether segments can be laid end to end: if the header and a full segment are whole pages. Not so
// on machines with pages above 4 KiB; those read instead.
func (g *segments) mappable() bool { return os.Getpagesize() == headerSize }

// newMapping reserves space for rows first … end−1 and more. Its user lets go of it by release.
func (g *segments) newMapping(first, end int64) (*mapping, error) {
	m := &mapping{g: g, first: first, end: first, whole: first}
	m.users.Store(1)
	m.size = uintptr((2*(g.count(end)-first/g.rows) + spare) * g.rows * g.rowBytes())
	var err error
	if m.base, err = unix.MmapPtr(-1, 0, nil, m.size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return nil, fmt.Errorf("reserve %d bytes of address space: %w", m.size, err)
	}
	m.data = unsafe.Slice((*float32)(m.base), m.size/4)
	return m, nil
}

// fits reports whether rows first … end−1 are or can be mapped.
func (m *mapping) fits(first, end int64) bool {
	return m != nil && m.base != nil && m.first == first && uintptr((end-first)*m.g.rowBytes()) <= m.size
}

// extend maps the segments of the rows up to end that are not mapped yet. Headers and sizes of all are compared.
func (m *mapping) extend(end int64) error {
	for no := m.first / m.g.rows; no < m.g.count(end); no++ {
		f, err := m.g.check(no, end)
		if err != nil {
			return err
		}
		if from := no * m.g.rows; from >= m.end {
			at := unsafe.Add(m.base, (from-m.first)*m.g.rowBytes())
			if _, err = unix.MmapPtr(int(f.Fd()), headerSize, at, uintptr(m.g.rows*m.g.rowBytes()), unix.PROT_READ,
				unix.MAP_SHARED|unix.MAP_FIXED); err == nil {
				m.end = from + m.g.rows
			}
		}
		if err = errors.Join(err, f.Close()); err != nil { // the mapping outlives the descriptor
			return fmt.Errorf("map %s: %w", m.g.path(no), err)
		}
	}
	return nil
}

// readAll replaces a mapping: it reads the rows into memory.
func (g *segments) readAll(ctx context.Context, first, end int64) (*mapping, error) {
	m := &mapping{g: g, first: first, end: end, whole: first, data: make([]float32, (end-first)*int64(g.head.Dim))}
	m.users.Store(1)
	for row := first; row < end; {
		to := min(row+max(1, writeBytes/g.rowBytes()), (row/g.rows+1)*g.rows, end)
		b, err := g.read(ctx, row, to)
		if err != nil {
			return nil, err
		}
		copy(bytesOf(m.data)[(row-first)*g.rowBytes():], b)
		row = to
	}
	return m, nil
}

// rows returns the vectors of rows from … to−1.
func (m *mapping) rows(from, to int64) []float32 {
	dim := int64(m.g.head.Dim)
	return m.data[(from-m.first)*dim : (to-m.first)*dim : (to-m.first)*dim]
}

func (m *mapping) use() *mapping {
	m.users.Add(1)
	return m
}

// release ends one use.
func (m *mapping) release() error {
	if m == nil || m.users.Add(-1) > 0 || m.base == nil {
		return nil
	}
	return unix.MunmapPtr(m.base, m.size)
}
