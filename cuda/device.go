//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
	"gorgonia.org/cu"

	"github.com/sluice-rag/sluice/cuda/internal/driver"
)

// Device is an open GPU. Its methods may be called from any goroutine.
type Device struct {
	info  Info
	tasks chan *task
	quit  chan struct{} // closed by Close
	gone  chan struct{} // closed when everything has been released
	once  sync.Once
	tid   atomic.Int64 // OS thread that serves the device; 0 once it has ended
	err   error        // of the release; read after gone is closed
	s     *Stream      // used on the device's thread only
	mem   memory
}

// task is a function to run on the device's thread.
type task struct {
	f        func(s *Stream) error
	err      error
	panicked any
	done     chan struct{}
}

// Open opens a GPU with a thread of its own, the primary context, two streams and staging memory. The context is shared
// with whatever else uses this GPU in the process.
func Open(o Options) (*Device, error) {
	o.Staging = cmp.Or(o.Staging, DefaultStaging)
	if o.MemoryLimit < 0 || o.Staging < stagingMin || o.Ordinal < 0 {
		return nil, fmt.Errorf("%w: Open with memory limit %d, staging %d (at least %d) and ordinal %d", ErrMisuse,
			o.MemoryLimit, o.Staging, stagingMin, o.Ordinal)
	}
	if err := loadDriver(o.Library); err != nil {
		return nil, err
	}
	d := &Device{tasks: make(chan *task), quit: make(chan struct{}), gone: make(chan struct{})}
	opened := make(chan error)
	go d.thread(o, opened)
	if err := <-opened; err != nil {
		return nil, err
	}
	return d, nil
}

// thread is the device's goroutine: it opens, serves and closes on one OS thread, because the driver binds the context
// to a thread.
func (d *Device) thread(o Options, opened chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d.tid.Store(int64(unix.Gettid()))
	s, err := openStream(d, o)
	if err != nil {
		opened <- errors.Join(err, s.close())
		return
	}
	d.s = s
	opened <- nil
	// The function of a task may end this goroutine (runtime.Goexit); the resources are released in that case as well.
	defer func() {
		d.once.Do(func() { close(d.quit) })
		d.err = errors.Join(s.close(), d.mem.misuse())
		d.tid.Store(0)
		close(d.gone)
	}()
	for {
		select {
		case <-d.quit:
			return
		case t := <-d.tasks:
			d.serve(t)
		}
	}
}

// serve runs one task and passes a panic to the goroutine that called Do.
func (d *Device) serve(t *task) {
	ended := false
	defer func() {
		if !ended {
			if t.panicked = recover(); t.panicked == nil {
				t.err = fmt.Errorf("%w: the function of Do ended its goroutine; the device is closed", ErrMisuse)
			}
		}
		close(t.done)
	}()
	if t.err = d.s.lost; t.err == nil {
		t.err = t.f(d.s)
	}
	ended = true
}

// Do runs f on the device's thread; concurrent calls run in no particular order. Work that f queued on its Stream may
// still be running when Do returns, unless f waited or read. An asynchronous error is returned by the call that detects
// it, at the latest by Wait or Read. f must not wait for another goroutine that needs this device.
func (d *Device) Do(f func(s *Stream) error) error {
	if d.here() {
		return fmt.Errorf("%w: Do inside Do", ErrMisuse)
	}
	return d.submit(f)
}

func (d *Device) submit(f func(s *Stream) error) error {
	t := &task{f: f, done: make(chan struct{})}
	select {
	case <-d.quit:
		return ErrClosed
	default:
	}
	select {
	case d.tasks <- t:
	case <-d.quit:
		return ErrClosed
	}
	<-t.done
	if t.panicked != nil {
		panic(t.panicked)
	}
	return t.err
}

// here reports whether the caller is on the device's thread, that is, inside the function of Do.
func (d *Device) here() bool { return int64(unix.Gettid()) == d.tid.Load() }

// onThread runs f on the device's thread, directly if the caller is already there.
func (d *Device) onThread(f func(s *Stream) error) error {
	if d.here() {
		return f(d.s)
	}
	return d.submit(f)
}

// Close waits for the running call of Do and for the device, and releases everything: memory, modules, streams, the
// context. Calls that have not begun return ErrClosed. A second Close returns the same error as the first.
func (d *Device) Close() error {
	if d.here() {
		return fmt.Errorf("%w: Close inside Do", ErrMisuse)
	}
	d.once.Do(func() { close(d.quit) })
	<-d.gone
	return d.err
}

// Info returns the properties read when the device was opened.
func (d *Device) Info() Info { return d.info }

// context retains the device's primary context and makes it current on the thread.
func (s *Stream) context(ordinal int) error {
	n, err := cu.NumDevices()
	if err != nil {
		return check("cuDeviceGetCount", err)
	}
	if ordinal >= n {
		return fmt.Errorf("%w: there is no GPU %d, the driver knows %d", ErrUnavailable, ordinal, n)
	}
	if s.d.info, err = describe(ordinal); err != nil {
		return err
	}
	if s.device, err = cu.GetDevice(ordinal); err != nil {
		return check("cuDeviceGet", err)
	}
	context, err := s.device.RetainPrimaryCtx()
	if err != nil {
		return check("cuDevicePrimaryCtxRetain", err)
	}
	s.retained = true
	if err := cu.SetCurrentContext(context); err != nil {
		return check("cuCtxSetCurrent", err)
	}
	s.d.info.Free, _, err = cu.MemInfo()
	return check("cuMemGetInfo", err)
}

// openStream creates everything a device holds. The returned Stream must be closed even after an error.
func openStream(d *Device, o Options) (*Stream, error) {
	s := &Stream{d: d, modules: map[*Module]struct{}{}}
	for i := range s.values {
		s.pointers[i] = unsafe.Pointer(&s.values[i])
	}
	if err := s.context(o.Ordinal); err != nil {
		return s, err
	}
	d.mem.free, d.mem.limit = map[int64][]*piece{}, cmp.Or(o.MemoryLimit, d.info.Free/10*9)
	var err error
	if s.compute, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return s, check("cuStreamCreate", err)
	}
	if s.copies, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return s, check("cuStreamCreate", err)
	}
	for i, flags := range []cu.EventFlags{ordering, ordering, cu.BlockingSyncEvent, cu.BlockingSyncEvent} {
		if s.events[i], err = cu.MakeEvent(flags); err != nil {
			return s, check("cuEventCreate", err)
		}
	}
	pools, err := s.device.Attribute(attributePools)
	if err != nil {
		return s, check("cuDeviceGetAttribute", err)
	}
	if pools != 0 {
		if s.pool, err = driver.NewPool(o.Ordinal); err != nil {
			return s, check("cuMemPoolCreate", err)
		}
	}
	return s, s.staging.open(o.Staging)
}

// close releases everything in reverse order of creation, and returns the first error.
func (s *Stream) close() error {
	var first error
	keep := func(err error) { first = cmp.Or(first, err) }
	none := cu.Stream{}
	for _, st := range []cu.Stream{s.compute, s.copies} {
		if st != none {
			keep(check("cuStreamSynchronize", st.Synchronize()))
		}
	}
	for m := range s.modules {
		keep(check("cuModuleUnload", m.module.Unload()))
	}
	keep(s.freeAll())
	if s.pool != (driver.Pool{}) {
		keep(check("cuMemPoolDestroy", s.pool.Destroy()))
	}
	keep(s.staging.close())
	for i := range s.events {
		if s.events[i] != (cu.Event{}) {
			keep(check("cuEventDestroy", cu.DestroyEvent(&s.events[i])))
		}
	}
	for _, st := range []*cu.Stream{&s.copies, &s.compute} {
		if *st != none {
			keep(check("cuStreamDestroy", st.Destroy()))
		}
	}
	if s.retained {
		keep(check("cuCtxSetCurrent", cu.SetCurrentContext(cu.CUContext{})))
		keep(check("cuDevicePrimaryCtxRelease", s.device.ReleasePrimaryCtx()))
	}
	return first
}
