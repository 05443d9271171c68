//go:build native && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
)

// everything makes every driver call that the package uses, and returns the first error.
func everything() (err error) {
	if _, err := cuda.Devices(); err != nil {
		return err
	}
	d, err := cuda.Open(cuda.Options{Staging: 4096, MemoryLimit: 1 << 20})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	m, err := d.Load(image)
	if err != nil {
		return err
	}
	k, err := m.Kernel("add")
	if err != nil {
		return err
	}
	if err := add(d, k, 3000, 1); err != nil {
		return err
	}
	p, err := d.Alloc(900 << 10) // freed memory has to go back to the driver
	if err != nil {
		return err
	}
	more, err := m.Kernel("one_more")
	if err != nil {
		return err
	}
	one := [3]int{1, 1, 1}
	got := make([]byte, 100)
	err = d.Do(func(s *cuda.Stream) error {
		if err := s.Fill(p, 5, 100); err != nil {
			return err
		}
		if _, err := s.Time(func() error {
			return errors.Join(s.Launch(more, one, one, 64<<10, uint64(p), 100),
				s.Launch(more, one, one, 0, uint64(p), 100))
		}); err != nil {
			return err
		}
		if err := s.Write(p+50, make([]byte, 50)); err != nil {
			return err
		}
		if _, err := s.Map(cuda.Boxes{At: p, Element: 2, Width: 40, Height: 9, Stride: 80, BoxWidth: 64,
			BoxHeight: 64}); err != nil {
			return err
		}
		if err := s.Copy(p+200, p, 100); err != nil {
			return err
		}
		return errors.Join(s.Wait(), s.Read(got, p+200))
	})
	if err == nil && !(got[0] == 7 && got[49] == 7 && got[50] == 0) {
		err = fmt.Errorf("the device has %v", got)
	}
	return err
}

// Each driver call fails in turn: with a recoverable error, with one that breaks the context, and for lack of memory.
// The error is returned with its sentinel and the call's name, nothing leaks or crashes, and the next Open works.
func TestEveryCallFails(t *testing.T) {
	both(t, func(t *testing.T, driver *drivertest.Driver) {
		if err := everything(); err != nil { // the first Open of a process also initialises the driver
			t.Fatal(err)
		}
		before := driver.Calls()
		if err := everything(); err != nil {
			t.Fatal(err)
		}
		total := driver.Calls() - before
		if total < 100 {
			t.Errorf("only %d calls", total)
		}
		names := map[string]bool{}
		for _, code := range []int{1, 2, 700} {
			for n := int64(1); n <= total; n++ {
				driver.FailAt(n, code)
				err := everything()
				name := driver.Failed()
				names[name] = true
				// A full pool releases freed pieces and asks again, so no error is returned.
				again := code == 2 && (name == "cuMemAllocFromPoolAsync" || name == "cuMemAlloc_v2")
				if err == nil && !again || err != nil && !errors.Is(err, cuda.ErrDriver) &&
					!errors.Is(err, cuda.ErrMemory) ||
					code == 2 && err != nil && !errors.Is(err, cuda.ErrMemory) ||
					code == 700 && !errors.Is(err, cuda.ErrLost) && !strings.Contains(err.Error(), "(700)") {
					t.Errorf("call %d (%s), code %d: %v", n, name, code, err)
				}
				driver.FailAt(0, 0)
				if left := driver.Left(); left != "" {
					t.Fatalf("call %d (%s), code %d: %v; left: %s", n, name, code, err, left)
				}
				if f := driver.Faults(); f != "" {
					t.Fatalf("call %d (%s), code %d: %v; faults: %s", n, name, code, err, f)
				}
			}
		}
		if err := everything(); err != nil {
			t.Error(err)
		}
		t.Logf("%d calls of %d entries failed with 3 codes each", total, len(names))
	})
}

// After an error that breaks the context every call reports it and its cause until the device is closed and opened
// again.
func TestLost(t *testing.T) {
	both(t, func(t *testing.T, driver *drivertest.Driver) {
		d, err := cuda.Open(cuda.Options{Staging: 4096})
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.Load(image)
		if err != nil {
			t.Fatal(err)
		}
		k, err := m.Kernel("fault")
		if err != nil {
			t.Fatal(err)
		}
		one := [3]int{1, 1, 1}
		err = d.Do(func(s *cuda.Stream) error { return errors.Join(s.Launch(k, one, one, 0), s.Wait()) })
		if !errors.Is(err, cuda.ErrLost) || !errors.Is(err, cuda.ErrDriver) ||
			!strings.Contains(err.Error(), "illegal memory") {
			t.Errorf("%v", err)
		}
		if err := d.Do(func(*cuda.Stream) error { return nil }); !errors.Is(err, cuda.ErrLost) {
			t.Errorf("%v", err)
		}
		if _, err := d.Alloc(77); !errors.Is(err, cuda.ErrLost) {
			t.Errorf("%v", err)
		}
		if _, err := d.Load(image); !errors.Is(err, cuda.ErrLost) {
			t.Errorf("%v", err)
		}
		if err := d.Close(); err == nil {
			t.Error("Close of a lost device says nothing")
		}
		if err := everything(); err != nil {
			t.Error(err)
		}
	})
}

// The stand-in detects a kernel that writes beyond its memory, on either side.
func TestStandInFindsWritesBeyond(t *testing.T) {
	driver := drivertest.OpenSmall(t)
	for _, at := range []int{512, -1} {
		d, err := cuda.Open(cuda.Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := kernel(t, d, "beyond")
		p, err := d.Alloc(512)
		if err != nil {
			t.Fatal(err)
		}
		one := [3]int{1, 1, 1}
		err = d.Do(func(s *cuda.Stream) error {
			return errors.Join(s.Launch(k, one, one, 0, uint64(p), uint64(at)), s.Wait())
		})
		if f := driver.Faults(); !errors.Is(err, cuda.ErrLost) || !strings.Contains(f, "written beyond a block") {
			t.Errorf("byte %d of 512 was written: %v; faults: %q", at, err, f)
		}
		if err := d.Close(); err == nil {
			t.Error("Close says nothing")
		}
	}
}

func TestCloseBesideCallers(t *testing.T) {
	both(t, func(t *testing.T, _ *drivertest.Driver) {
		for range 10 {
			d, err := cuda.Open(cuda.Options{Staging: 4096})
			if err != nil {
				t.Fatal(err)
			}
			k := kernel(t, d, "add")
			var all sync.WaitGroup
			for g := range 6 {
				all.Go(func() {
					for i := 0; ; i++ {
						err := add(d, k, 100+i, uint64(g))
						if errors.Is(err, cuda.ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range 2 {
				all.Go(func() {
					time.Sleep(time.Millisecond)
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if _, err := d.Alloc(1); !errors.Is(err, cuda.ErrClosed) {
				t.Errorf("Alloc after Close: %v", err)
			}
			if _, err := d.Load(image); !errors.Is(err, cuda.ErrClosed) {
				t.Errorf("Load after Close: %v", err)
			}
			d.Free(4096)
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	both(t, func(t *testing.T, driver *drivertest.Driver) {
		d := opened(t, cuda.Options{MemoryLimit: 1 << 20})
		a, err := d.Alloc(600 << 10) // 1 MiB: a power of two
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Alloc(1)
		var m *cuda.MemoryError
		if !errors.Is(err, cuda.ErrMemory) || !errors.As(err, &m) || m.Asked != 1 || m.Used != 1<<20 ||
			m.Limit != 1<<20 {
			t.Errorf("beyond the limit: %v", err)
		}
		d.Free(a)
		before := driver.Calls()
		if b, err := d.Alloc(1 << 20); err != nil || b != a || driver.Calls() != before {
			t.Errorf("memory of the same class is not taken from the pool: %v", err)
		}
		d.Free(a)
		for i := range 8 { // another size class: freed pieces go back to the driver
			if _, err := d.Alloc(100 << 10); err != nil {
				t.Fatal(i, err)
			}
		}
		if used, peak := d.Used(); used != 1<<20 || peak != 1<<20 || d.Live() != 8 {
			t.Errorf("%d bytes, maximum %d, %d pieces", used, peak, d.Live())
		}
	})
}

// If the device has less than the limit, the driver's refusal is ErrMemory with the free bytes.
func TestDeviceMemoryIsUsedUp(t *testing.T) {
	both(t, func(t *testing.T, driver *drivertest.Driver) {
		driver.Set("memory", 1<<20)
		d := opened(t, cuda.Options{MemoryLimit: 1 << 30})
		if _, err := d.Alloc(1 << 19); err != nil {
			t.Fatal(err)
		}
		p, err := d.Alloc(1 << 18)
		if err != nil {
			t.Fatal(err)
		}
		d.Free(p) // of another size class than the next: it is released when the driver refuses
		if _, err := d.Alloc(1 << 19); err != nil {
			t.Errorf("what was freed did not make room: %v", err)
		}
		_, err = d.Alloc(1 << 10)
		var m *cuda.MemoryError
		if !errors.Is(err, cuda.ErrMemory) || !errors.As(err, &m) || m.Free != 0 ||
			!strings.Contains(err.Error(), "1024 bytes") {
			t.Errorf("%v", err)
		}
	})
}

func TestSeveralDevices(t *testing.T) {
	both(t, func(t *testing.T, driver *drivertest.Driver) {
		driver.Set("devices", 3)
		list, err := cuda.Devices()
		if err != nil || len(list) != 3 || list[2].Ordinal != 2 || list[2].Name != "Stand-in GPU 2" {
			t.Fatal(list, err)
		}
		var all sync.WaitGroup
		for i := range list {
			d := opened(t, cuda.Options{Ordinal: i})
			k := kernel(t, d, "add")
			all.Go(func() {
				for n := range 20 {
					if err := add(d, k, 500+n, uint64(i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		a, b := opened(t, cuda.Options{Ordinal: 0}), opened(t, cuda.Options{Ordinal: 1})
		k := kernel(t, a, "add")
		err = b.Do(func(s *cuda.Stream) error { return s.Launch(k, [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0) })
		if !errors.Is(err, cuda.ErrMisuse) {
			t.Errorf("a kernel of another device: %v", err)
		}
		if _, err := cuda.Open(cuda.Options{Ordinal: 3}); !errors.Is(err, cuda.ErrUnavailable) {
			t.Errorf("device 3 of 3: %v", err)
		}
	})
}

func TestImagesThatDoNotFit(t *testing.T) {
	driver := drivertest.OpenSmall(t)
	load := func(image []byte) error {
		t.Helper()
		d, err := cuda.Open(cuda.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Load(image)
		return errors.Join(err, d.Close())
	}
	driver.Set("version", 12040)
	err := load(image)
	var old *cuda.TooOldError
	if !errors.Is(err, cuda.ErrTooOld) || !errors.Is(err, cuda.ErrUnavailable) || !errors.As(err, &old) ||
		old.Have != 12040 ||
		old.Need != 13000 || !strings.Contains(err.Error(), "CUDA 12.4") {
		t.Errorf("an old driver: %v", err)
	}
	driver.Set("version", 13000)
	driver.Set("major", 5)
	if err := load(image); !errors.Is(err, cuda.ErrImage) || !errors.Is(err, cuda.ErrUnavailable) {
		t.Errorf("an old device: %v", err)
	}
	driver.Set("major", 9)
	for _, bad := range [][]byte{nil, []byte("no image"), image[:60], image[:len(image)-1]} {
		if err := load(bad); !errors.Is(err, cuda.ErrImage) {
			t.Errorf("%d bytes that are no image: %v", len(bad), err)
		}
	}
	if err := load(image); err != nil {
		t.Error(err)
	}
}

func TestNoDeviceInTheMachine(t *testing.T) {
	driver := drivertest.OpenSmall(t)
	if _, err := cuda.Devices(); err != nil { // loads the driver, with a device
		t.Fatal(err)
	}
	driver.Set("devices", 0)
	if _, err := cuda.Open(cuda.Options{}); !errors.Is(err, cuda.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := cuda.Devices(); !errors.Is(err, cuda.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestMisuse(t *testing.T) {
	driver := drivertest.OpenSmall(t)
	d, err := cuda.Open(cuda.Options{Staging: 4096})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	k := kernel(t, d, "one_more")
	one := [3]int{1, 1, 1}
	var inside cuda.Ptr
	err = d.Do(func(s *cuda.Stream) error {
		for what, err := range map[string]error{
			"Do inside Do":    d.Do(func(*cuda.Stream) error { return nil }),
			"Close inside Do": d.Close(),
			"no grid":         s.Launch(k, [3]int{0, 1, 1}, one, 0),
			"no kernel":       s.Launch(cuda.Kernel{}, one, one, 0),
			"65 parameters":   s.Launch(k, one, one, 0, make([]uint64, 65)...),
		} {
			if !errors.Is(err, cuda.ErrMisuse) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, err := range map[string]error{
			"write beyond":    s.Write(p+1, make([]byte, 100)),
			"read beyond":     s.Read(make([]byte, 101), p),
			"fill beyond":     s.Fill(p, 0, 513),
			"fill of nothing": s.Fill(4096, 0, 1),
			"copy beyond":     s.Copy(p, p+8, 505),
			"copy to nothing": s.Copy(4096, p, 1),
		} {
			if !errors.Is(err, cuda.ErrRange) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := s.Launch(k, one, [3]int{2048, 1, 1}, 0, uint64(p), 1); !errors.Is(err, cuda.ErrDriver) {
			t.Errorf("2,048 threads in a block: %v", err)
		}
		if err := s.Launch(k, one, one, 1<<20, uint64(p), 1); !errors.Is(err, cuda.ErrDriver) {
			t.Errorf("1 MiB of shared memory: %v", err)
		}
		inside, err = d.Alloc(100) // allowed inside Do
		return err
	})
	if err != nil || inside == 0 {
		t.Errorf("%v", err)
	}
	d.Free(p)
	d.Free(p)
	if err := d.Close(); !errors.Is(err, cuda.ErrMisuse) ||
		!strings.Contains(err.Error(), fmt.Sprintf("%#x", uint64(p))) {
		t.Errorf("Close after a second Free: %v", err)
	}
	if left := driver.Left(); left != "" {
		t.Error(left)
	}
}

// A function of Do that panics, or ends its goroutine as t.FailNow does, leaves no blocked caller and no leaked memory.
func TestDoPanicsAndEnds(t *testing.T) {
	driver := drivertest.OpenSmall(t)
	d := opened(t, cuda.Options{Staging: 4096})
	func() {
		defer func() {
			if r := recover(); r != "for a test" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = d.Do(func(*cuda.Stream) error { panic("for a test") })
	}()
	k := kernel(t, d, "add")
	if err := add(d, k, 1000, 1); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	e, err := cuda.Open(cuda.Options{Staging: 4096})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Do(func(*cuda.Stream) error { runtime.Goexit(); return nil }); !errors.Is(err, cuda.ErrMisuse) {
		t.Errorf("an ended goroutine: %v", err)
	}
	if err := e.Do(func(*cuda.Stream) error { return nil }); !errors.Is(err, cuda.ErrClosed) {
		t.Errorf("after an ended goroutine: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	_ = driver
}

func TestTime(t *testing.T) {
	both(t, func(t *testing.T, _ *drivertest.Driver) {
		d := opened(t, cuda.Options{})
		k := kernel(t, d, "slow")
		one := [3]int{1, 1, 1}
		var ms float64
		err := d.Do(func(s *cuda.Stream) (err error) {
			ms, err = s.Time(func() error { return s.Launch(k, one, one, 0, 20) })
			return err
		})
		if err != nil || ms < 19 {
			t.Errorf("a kernel of 20 ms takes %v ms: %v", ms, err)
		}
	})
}
