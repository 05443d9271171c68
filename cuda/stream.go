//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/sluice-rag/sluice/cuda/internal/driver"
)

// paramsMax is the maximum number of kernel parameters.
const paramsMax = 64

// Stream queues work inside the function of Do; it must not be kept.
type Stream struct {
	d        *Device
	device   cu.Device
	retained bool // whether the primary context is retained
	compute  cu.Stream
	copies   cu.Stream
	events   [4]cu.Event // after a launch, after a copy, and two for timing
	pool     driver.Pool
	staging  staging
	modules  map[*Module]struct{}

	// Launches and copies are numbered. The copy stream has waited for launch copiesSaw, the launch stream for copy
	// computeSaw.
	launched, copied      uint64
	copiesSaw, computeSaw uint64

	measuring bool // inside Time
	lost      error

	values   [paramsMax]uint64
	pointers [paramsMax]unsafe.Pointer
}

// check is the package's check that also records a broken context.
func (s *Stream) check(call string, err error) error {
	if err == nil {
		return nil
	}
	return s.broken(check(call, err))
}

func (s *Stream) broken(err error) error {
	var e *Error
	if !errors.As(err, &e) || !breaks(e.Code) {
		return err
	}
	if s.lost == nil {
		s.lost = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return s.lost
}

// copyBehind makes the next copy wait for the launches that use the piece.
func (s *Stream) copyBehind(p *piece) error {
	if p.used <= s.copiesSaw {
		return nil
	}
	if err := s.check("cuEventRecord", s.events[0].Record(s.compute)); err != nil {
		return err
	}
	if err := s.check("cuStreamWaitEvent", s.copies.Wait(s.events[0], 0)); err != nil {
		return err
	}
	s.copiesSaw = s.launched
	return nil
}

// computeBehind makes the next launch wait for copy n and earlier ones.
func (s *Stream) computeBehind(n uint64) error {
	if n <= s.computeSaw {
		return nil
	}
	if err := s.check("cuEventRecord", s.events[1].Record(s.copies)); err != nil {
		return err
	}
	if err := s.check("cuStreamWaitEvent", s.compute.Wait(s.events[1], 0)); err != nil {
		return err
	}
	s.computeSaw = s.copied
	return nil
}

// uses records the next launch's parameters, and makes it wait for the copies to the memory they point at.
func (s *Stream) uses(args []uint64) error {
	var behind uint64
	m := &s.d.mem
	m.mu.Lock()
	s.launched++
	for _, a := range args {
		if p := m.around(Ptr(a)); p != nil {
			behind = max(behind, p.copied)
			p.used = s.launched
		}
	}
	m.mu.Unlock()
	return s.computeBehind(behind)
}

// sharedDefault is the dynamic shared memory in bytes that every kernel may use.
const sharedDefault = 48 << 10

// Launch queues a kernel. grid is in blocks, block in threads, shared in bytes of dynamic shared memory. Every kernel
// parameter is eight bytes wide; parameters that are addresses declare the memory it uses.
func (s *Stream) Launch(k Kernel, grid, block [3]int, shared int, args ...uint64) error {
	if k.kernel == nil || k.d != s.d {
		return fmt.Errorf("%w: launch of a kernel of another device", ErrMisuse)
	}
	if len(args) > paramsMax {
		return fmt.Errorf("%w: %s with %d parameters, the maximum is %d", ErrMisuse, k.name, len(args), paramsMax)
	}
	for i := range grid {
		if grid[i] < 1 || block[i] < 1 {
			return fmt.Errorf("%w: %s with grid %v and block %v", ErrMisuse, k.name, grid, block)
		}
	}
	if shared > max(sharedDefault, k.shared) {
		if err := s.check("cuFuncSetAttribute of "+k.name, driver.SetShared(k.function, shared)); err != nil {
			return err
		}
		k.shared = shared
	}
	if err := s.uses(args); err != nil {
		return err
	}
	copy(s.values[:], args)
	err := k.function.Launch(grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, s.compute,
		s.pointers[:max(len(args), 1)]) // cu allocates for an empty slice, and the driver must not read it
	if err != nil {
		return fmt.Errorf("launch of %s, grid %v, block %v, %d bytes shared: %w", k.name, grid, block, shared,
			s.check("cuLaunchKernel", err))
	}
	return nil
}

// Fill sets each of the given number of bytes at p to value.
func (s *Stream) Fill(p Ptr, value byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	if _, err := s.d.mem.find("fill", p, bytes); err != nil {
		return err
	}
	if err := s.uses([]uint64{uint64(p)}); err != nil {
		return err
	}
	return s.check("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(p), value, bytes, s.compute))
}

// Copy copies within the device's memory.
func (s *Stream) Copy(to, from Ptr, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	for _, p := range []Ptr{to, from} {
		if _, err := s.d.mem.find("copy", p, bytes); err != nil {
			return err
		}
	}
	if err := s.uses([]uint64{uint64(to), uint64(from)}); err != nil {
		return err
	}
	return s.check("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(to), cu.DevicePtr(from), bytes, s.compute))
}

// Map encodes a tensor map of boxes with a swizzle of 128 bytes; elements beyond the matrix are 0. The driver returns
// ErrDriver before CUDA 12, and for sizes outside its documented limits.
func (s *Stream) Map(b Boxes) ([MapBytes]byte, error) {
	bytes := int64(b.Height-1)*b.Stride + int64(b.Width*b.Element)
	if _, err := s.d.mem.find("map", b.At, bytes); err != nil {
		return [MapBytes]byte{}, err
	}
	m, err := driver.EncodeBoxes(cu.DevicePtr(b.At), b.Element, b.Width, b.Height, b.Stride, b.BoxWidth, b.BoxHeight)
	if err != nil {
		return m, fmt.Errorf("the map of %d×%d elements: %w", b.Height, b.Width, s.check("cuTensorMapEncodeTiled", err))
	}
	return m, nil
}

// Call lets another library queue its own kernels, which use the given memory, on the launch stream (a CUstream). The
// library must not change the thread's context.
func (s *Stream) Call(f func(stream unsafe.Pointer) error, uses ...Ptr) error {
	all := make([]uint64, len(uses))
	for i, p := range uses {
		all[i] = uint64(p)
	}
	if err := s.uses(all); err != nil {
		return err
	}
	return f(driver.Handle(s.compute))
}

// Write copies to the device. The caller may change from when it returns: it has been copied to the staging memory.
func (s *Stream) Write(to Ptr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	p, err := s.begin("write", to, len(from))
	if err != nil {
		return err
	}
	for len(from) > 0 {
		n := min(len(from), s.staging.part())
		x, err := s.take(n)
		if err != nil {
			return err
		}
		at := s.staging.bytes[x.from:x.to]
		copy(at, from[:n])
		err = cu.MemcpyHtoDAsync(cu.DevicePtr(to), unsafe.Pointer(&at[0]), int64(n), s.copies)
		if err != nil {
			return s.check("cuMemcpyHtoDAsync", err)
		}
		s.copied++
		p.copied = s.copied
		if err := s.check("cuEventRecord", x.event.Record(s.copies)); err != nil {
			return err
		}
		to, from = to+Ptr(n), from[n:]
	}
	return nil
}

// begin checks a copy's range and makes it wait for the launches that use the memory.
func (s *Stream) begin(what string, at Ptr, bytes int) (*piece, error) {
	p, err := s.d.mem.find(what, at, int64(bytes))
	if err != nil {
		return nil, err
	}
	return p, s.copyBehind(p)
}

// Read copies from the device and waits until to is filled.
func (s *Stream) Read(to []byte, from Ptr) error {
	if len(to) == 0 {
		return nil
	}
	if _, err := s.begin("read", from, len(to)); err != nil {
		return err
	}
	asked := to // not yet queued
	type arrival struct {
		x *segment
		n int
	}
	var under [stagingSegments]arrival // queued, oldest first
	first, queued := 0, 0
	for len(to) > 0 {
		for len(asked) > 0 && queued < stagingParts-1 {
			n := min(len(asked), s.staging.part())
			x, err := s.take(n)
			if err != nil {
				return err
			}
			at := unsafe.Pointer(&s.staging.bytes[x.from])
			err = cu.MemcpyDtoHAsync(at, cu.DevicePtr(from), int64(n), s.copies)
			if err := s.check("cuMemcpyDtoHAsync", err); err != nil {
				return err
			}
			if err := s.check("cuEventRecord", x.event.Record(s.copies)); err != nil {
				return err
			}
			under[(first+queued)%stagingSegments] = arrival{x, n}
			queued++
			from, asked = from+Ptr(n), asked[n:]
		}
		a := under[first]
		if err := s.await(a.x.event); err != nil {
			return err
		}
		copy(to[:a.n], s.staging.bytes[a.x.from:])
		to = to[a.n:]
		first, queued = (first+1)%stagingSegments, queued-1
	}
	return nil
}

// Wait waits for all queued work.
func (s *Stream) Wait() error {
	for i, st := range []cu.Stream{s.compute, s.copies} {
		if err := s.check("cuEventRecord", s.events[i].Record(st)); err != nil {
			return err
		}
	}
	for i := range 2 {
		if err := s.await(s.events[i]); err != nil {
			return err
		}
	}
	s.copiesSaw, s.computeSaw = s.launched, s.copied
	return nil
}

// Time measures the queued work of f, copies included, with the device's clock. It waits for completion.
func (s *Stream) Time(f func() error) (milliseconds float64, err error) {
	if s.measuring {
		return 0, fmt.Errorf("%w: Time inside Time", ErrMisuse)
	}
	s.measuring = true
	defer func() { s.measuring = false }()
	if err := s.mark(2); err != nil {
		return 0, err
	}
	// Copies must not run before the first event, although they use another stream.
	if err := s.check("cuStreamWaitEvent", s.copies.Wait(s.events[2], 0)); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := s.mark(3); err != nil {
		return 0, err
	}
	if err := s.await(s.events[3]); err != nil {
		return 0, err
	}
	milliseconds, err = s.events[2].Elapsed(s.events[3])
	return milliseconds, s.check("cuEventElapsedTime", err)
}

// mark records an event after all work queued so far.
func (s *Stream) mark(event int) error {
	if err := s.computeBehind(s.copied); err != nil {
		return err
	}
	return s.check("cuEventRecord", s.events[event].Record(s.compute))
}
