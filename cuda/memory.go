//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"gorgonia.org/cu"

	"github.com/sluice-rag/sluice/cuda/internal/driver"
)

// piece is memory allocated by the driver. used and copied are the numbers of the last launch and the last copy that
// use it; they are kept when it is freed and reused, so that its next owner's work waits for them.
type piece struct {
	at           Ptr
	size         int64 // size of its class
	asked        int64
	used, copied uint64
}

// memory is the pool of a device: pieces in use by address, and freed pieces by size.
type memory struct {
	mu     sync.Mutex
	live   []*piece // in order of address
	free   map[int64][]*piece
	used   int64 // bytes of live
	pooled int64 // bytes of free
	peak   int64
	limit  int64
	closed bool
	wrong  error // the first misuse of Free
}

const (
	pieceMin  = 512     // smallest request to the driver, and alignment of addresses
	pieceStep = 2 << 20 // granularity of the driver's mappings
)

// class rounds a size up, so that a freed piece can serve a request of about its size: to a power of two, and from 16
// MiB on to an eighth of one, in steps of 2 MiB.
func class(bytes int64) int64 {
	if bytes <= pieceMin {
		return pieceMin
	}
	step := int64(1) << bits.Len64(uint64(bytes-1))
	if bytes >= 8*pieceStep {
		step /= 16 // bytes is in (8, 16] steps
	}
	return (bytes + step - 1) / step * step
}

// Alloc returns memory that nothing else uses, at a multiple of 512. Its contents are undefined.
func (d *Device) Alloc(bytes int64) (Ptr, error) {
	if bytes < 0 || bytes > 1<<46 {
		return 0, fmt.Errorf("%w: allocation of %d bytes", ErrMisuse, bytes)
	}
	p, ok, err := d.mem.take(bytes)
	if err != nil || ok {
		return p, err
	}
	err = d.onThread(func(s *Stream) error {
		p, err = s.grow(bytes)
		return err
	})
	return p, err
}

// Free returns memory of Alloc to the pool. Work queued before may still use it. Address 0 is ignored.
func (d *Device) Free(p Ptr) { d.mem.give(p) }

// Used returns the bytes in use, rounded up to size classes, and their maximum so far.
func (d *Device) Used() (bytes, peak int64) {
	d.mem.mu.Lock()
	defer d.mem.mu.Unlock()
	return d.mem.used, d.mem.peak
}

// Limit returns the maximum of the bytes in use.
func (d *Device) Limit() int64 { return d.mem.limit }

// Live returns the number of pieces that have not been freed.
func (d *Device) Live() int {
	d.mem.mu.Lock()
	defer d.mem.mu.Unlock()
	return len(d.mem.live)
}

// take returns a freed piece, if there is one. It may be called from any thread.
func (m *memory) take(bytes int64) (Ptr, bool, error) {
	size := class(bytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, false, ErrClosed
	}
	if m.used+size > m.limit {
		return 0, false, &MemoryError{Asked: bytes, Used: m.used, Limit: m.limit, Free: -1}
	}
	list := m.free[size]
	if len(list) == 0 {
		return 0, false, nil
	}
	p := list[len(list)-1]
	m.free[size] = list[:len(list)-1]
	m.pooled -= size
	m.add(p, bytes)
	return p.at, true, nil
}

func (m *memory) search(p Ptr) (int, bool) {
	return slices.BinarySearchFunc(m.live, p, func(x *piece, p Ptr) int { return cmp.Compare(x.at, p) })
}

func (m *memory) add(p *piece, bytes int64) {
	p.asked = bytes
	i, _ := m.search(p.at)
	m.live = slices.Insert(m.live, i, p)
	m.used += p.size
	m.peak = max(m.peak, m.used)
}

func (m *memory) give(at Ptr) {
	if at == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	i, ok := m.search(at)
	if !ok {
		if m.wrong == nil {
			m.wrong = fmt.Errorf("%w: Free of %#x, which is not in use", ErrMisuse, uint64(at))
		}
		return
	}
	p := m.live[i]
	m.live = slices.Delete(m.live, i, i+1)
	m.used -= p.size
	m.free[p.size] = append(m.free[p.size], p)
	m.pooled += p.size
}

func (m *memory) misuse() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrong
}

// around returns the piece in use that contains the address, or nil. m.mu is held.
func (m *memory) around(p Ptr) *piece {
	i, ok := m.search(p)
	if ok {
		return m.live[i]
	}
	if i == 0 || p >= m.live[i-1].at+Ptr(m.live[i-1].size) {
		return nil
	}
	return m.live[i-1]
}

// find returns the piece that contains a range.
func (m *memory) find(what string, p Ptr, bytes int64) (*piece, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.around(p)
	if x == nil {
		return nil, fmt.Errorf("%w: %s of %d bytes at %#x, where nothing is in use", ErrRange, what, bytes, uint64(p))
	}
	if bytes < 0 || int64(p-x.at)+bytes > x.asked {
		return nil, fmt.Errorf("%w: %s of %d bytes from byte %d of %d", ErrRange, what, bytes, p-x.at, x.asked)
	}
	return x, nil
}

// grow allocates a piece from the driver. The limit covers freed pieces, too: they are released first.
func (s *Stream) grow(bytes int64) (Ptr, error) {
	if s.lost != nil {
		return 0, s.lost
	}
	m, size := &s.d.mem, class(bytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+size > m.limit {
		return 0, &MemoryError{Asked: bytes, Used: m.used, Limit: m.limit, Free: -1}
	}
	if err := s.trim(m.used + m.pooled + size - m.limit); err != nil {
		return 0, err
	}
	p, err := s.allocate(size)
	if errors.Is(err, ErrMemory) && m.pooled > 0 {
		if err := s.trim(m.pooled); err != nil {
			return 0, err
		}
		if err := s.Wait(); err != nil { // freed memory has returned to the system after this
			return 0, err
		}
		p, err = s.allocate(size)
	}
	if errors.Is(err, ErrMemory) {
		e := &MemoryError{Asked: bytes, Used: m.used, Limit: m.limit}
		var asking error
		if e.Free, _, asking = cu.MemInfo(); asking != nil {
			e.Free = -1
		}
		return 0, e
	}
	if err != nil {
		return 0, err
	}
	m.add(p, bytes)
	return p.at, nil
}

// allocate gets memory from the pool, in order with the copies, or synchronously if the device has no pools.
func (s *Stream) allocate(size int64) (*piece, error) {
	if s.pool == (driver.Pool{}) {
		at, err := cu.MemAlloc(size)
		return &piece{at: Ptr(at), size: size}, s.check("cuMemAlloc", err)
	}
	at, err := s.pool.Alloc(size, s.copies)
	if err != nil {
		return nil, s.check("cuMemAllocFromPoolAsync", err)
	}
	s.copied++
	return &piece{at: Ptr(at), size: size, copied: s.copied}, nil
}

// trim releases freed pieces to the driver, the largest first, until that many bytes are released. s.d.mem.mu is held.
func (s *Stream) trim(bytes int64) error {
	m := &s.d.mem
	if bytes <= 0 {
		return nil
	}
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(m.free))) {
		for list := m.free[size]; len(list) > 0 && bytes > 0; list = m.free[size] {
			p := list[len(list)-1]
			m.free[size] = list[:len(list)-1]
			m.pooled -= size
			bytes -= size
			if err := s.release(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// release returns a piece to the driver, after the work that uses it.
func (s *Stream) release(p *piece) error {
	if s.pool == (driver.Pool{}) {
		return s.check("cuMemFree", cu.MemFree(cu.DevicePtr(p.at)))
	}
	if err := s.copyBehind(p); err != nil {
		return err
	}
	return s.check("cuMemFreeAsync", driver.FreeAsync(cu.DevicePtr(p.at), s.copies))
}

// freeAll releases every piece, in use or not, when the device is closed.
func (s *Stream) freeAll() error {
	m := &s.d.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	var first error
	pieces := m.live
	for _, list := range m.free {
		pieces = append(pieces, list...)
	}
	for _, p := range pieces {
		p.used = 0 // the streams are idle
		first = cmp.Or(first, s.release(p))
	}
	if s.pool != (driver.Pool{}) && len(pieces) > 0 {
		first = cmp.Or(first, s.check("cuStreamSynchronize", s.copies.Synchronize()))
	}
	m.live, m.free, m.used, m.pooled, m.closed = nil, nil, 0, 0, true
	return first
}
