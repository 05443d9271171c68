//go:build native && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
)

// fat is an image whose contents the stand-in ignores: its kernels are compiled in.
func fat(parts ...cuda.ImagePart) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, p := range parts {
		h := make([]byte, 64)
		le.PutUint16(h, 2)
		version := uint32(1<<16 | (p.Driver/1000 - 5))
		if p.PTX {
			le.PutUint16(h, 1)
			version = uint32((p.Driver/1000-4)<<16 | p.Driver%1000/10)
		}
		le.PutUint16(h[2:], 0x101)
		le.PutUint32(h[4:], 64)
		le.PutUint64(h[8:], 8)
		le.PutUint32(h[24:], version)
		le.PutUint32(h[28:], uint32(p.Arch))
		if p.Specific {
			le.PutUint32(h[40:], 1<<20)
		}
		body = append(append(body, h...), "12345678"...)
	}
	head := make([]byte, 16)
	le.PutUint32(head, 0xBA55ED50)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], 16)
	le.PutUint64(head[8:], uint64(len(body)))
	return append(head, body...)
}

var image = fat(cuda.ImagePart{Arch: 80, Driver: 13000}, cuda.ImagePart{Arch: 90, Specific: true, Driver: 13000},
	cuda.ImagePart{PTX: true, Arch: 75, Driver: 13000})

func opened(t testing.TB, o cuda.Options) *cuda.Device {
	t.Helper()
	d, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return d
}

func kernel(t testing.TB, d *cuda.Device, name string) cuda.Kernel {
	t.Helper()
	m, err := d.Load(image)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func floats(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// add computes a + b on the device and compares the result.
func add(d *cuda.Device, k cuda.Kernel, n int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	a, b, want := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range a {
		a[i], b[i] = rng.Float32(), rng.Float32()
		want[i] = a[i] + b[i]
	}
	var p [3]cuda.Ptr
	defer func() {
		for _, x := range p {
			d.Free(x)
		}
	}()
	for i := range p {
		var err error
		if p[i], err = d.Alloc(int64(4 * n)); err != nil {
			return err
		}
	}
	got := make([]byte, 4*n)
	err := d.Do(func(s *cuda.Stream) error {
		if err := s.Write(p[0], floats(a)); err != nil {
			return err
		}
		if err := s.Write(p[1], floats(b)); err != nil {
			return err
		}
		if err := s.Launch(k, [3]int{(n + 255) / 256, 1, 1}, [3]int{256, 1, 1}, 0, uint64(p[0]), uint64(p[1]),
			uint64(p[2]),
			uint64(n)); err != nil {
			return err
		}
		return s.Read(got, p[2])
	})
	if err == nil && !bytes.Equal(got, floats(want)) {
		err = fmt.Errorf("%d sums differ from those of the host", n)
	}
	return err
}

// both runs a test with a driver that executes work at once and with one that defers it until somebody waits, each with
// and without memory pools.
func both(t *testing.T, f func(t *testing.T, driver *drivertest.Driver)) {
	for _, lazy := range []int64{0, 1, 2} {
		for _, pools := range []int64{1, 0} {
			t.Run(fmt.Sprintf("lazy=%d,pools=%d", lazy, pools), func(t *testing.T) {
				driver := drivertest.OpenSmall(t)
				driver.Set("lazy", lazy)
				driver.Set("pools", pools)
				f(t, driver)
			})
		}
	}
}

func TestAdd(t *testing.T) {
	both(t, func(t *testing.T, _ *drivertest.Driver) {
		d := opened(t, cuda.Options{Staging: 4096})
		k := kernel(t, d, "add")
		for i, n := range []int{1, 255, 256, 257, 1 << 12, 1 << 16} {
			if err := add(d, k, n, uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if used, peak := d.Used(); used != 0 || peak < 3<<18 || d.Live() != 0 {
			t.Errorf("%d bytes in %d pieces are in use, the maximum was %d", used, d.Live(), peak)
		}
		if i := d.Info(); i.Capability != [2]int{9, 0} || i.Memory != 1<<30 || i.Driver != "13.0" ||
			i.Multiprocessors != 132 ||
			i.Free <= 0 || !strings.HasPrefix(i.Name, "Stand-in") || i.ClockKHz == 0 || i.Shared != 227<<10 ||
			i.L2 == 0 {
			t.Errorf("%+v", i)
		}
	})
}

func TestManyGoroutines(t *testing.T) {
	both(t, func(t *testing.T, _ *drivertest.Driver) {
		d := opened(t, cuda.Options{Staging: 1 << 14})
		k := kernel(t, d, "add")
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 20 {
					if err := add(d, k, 1+(g*977+i*131)%5000, uint64(g*100+i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// Copies of 0 bytes and of 1, 3 and 100 pieces of the staging memory, to and from unaligned addresses.
func TestCopies(t *testing.T) {
	both(t, func(t *testing.T, _ *drivertest.Driver) {
		const staging = 8 << 10 // pieces of 2 KiB
		d := opened(t, cuda.Options{Staging: staging})
		for _, n := range []int{0, 1, 255, 256, 257, 2047, 2048, 2049, 3 * 2048, 3*2048 + 1, 4 * 2048, staging + 1,
			25*staging + 77} {
			p, err := d.Alloc(int64(n) + 3)
			if err != nil {
				t.Fatal(err)
			}
			want, got := make([]byte, n), make([]byte, n)
			for i := range want {
				want[i] = byte(i*7 + n)
			}
			err = d.Do(func(s *cuda.Stream) error {
				sent := bytes.Clone(want)
				err := s.Write(p+3, sent)
				clear(sent) // allowed: the data has been copied to the staging memory
				return errors.Join(err, s.Read(got, p+3))
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %v", n, err)
			}
			d.Free(p)
		}
	})
}

// Work queued on the device runs in that order, across both streams and across calls of Do.
func TestOrder(t *testing.T) {
	both(t, func(t *testing.T, _ *drivertest.Driver) {
		d := opened(t, cuda.Options{Staging: 4096})
		copying, more := kernel(t, d, "copy"), kernel(t, d, "one_more")
		const n = 3000
		a, err := d.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		one := [3]int{1, 1, 1}
		for round := range 5 {
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			got := make([]byte, n)
			must(d.Do(func(s *cuda.Stream) error { return s.Write(a, bytes.Repeat([]byte{10}, n)) }))
			must(d.Do(func(s *cuda.Stream) error {
				if err := s.Launch(more, one, one, 0, uint64(a), n); err != nil { // 11
					return err
				}
				if err := s.Launch(copying, one, one, 0, uint64(b), uint64(a), n); err != nil { // b = 11
					return err
				}
				return s.Write(a, bytes.Repeat([]byte{20}, n)) // must not run before the copy
			}))
			must(d.Do(func(s *cuda.Stream) error { return s.Launch(more, one, one, 0, uint64(a), n) })) // 21
			must(d.Do(func(s *cuda.Stream) error { return s.Fill(b, 12, n/2) }))
			must(d.Do(func(s *cuda.Stream) error { return s.Read(got, b) }))
			if got[0] != 12 || got[n/2] != 11 {
				t.Fatalf("round %d: b is %d, %d, want 12, 11", round, got[0], got[n/2])
			}
			must(d.Do(func(s *cuda.Stream) error { return s.Read(got, a) }))
			if got[0] != 21 {
				t.Fatalf("round %d: a is %d, want 21", round, got[0])
			}
			must(d.Do(func(s *cuda.Stream) error { return s.Write(a, bytes.Repeat([]byte{30}, n)) }))
			must(d.Do(func(s *cuda.Stream) error { return s.Copy(b, a, n/2) })) // waits for the write
			must(d.Do(func(s *cuda.Stream) error { return s.Write(a, bytes.Repeat([]byte{40}, n)) }))
			must(d.Do(func(s *cuda.Stream) error { return s.Read(got, b) }))
			if got[0] != 30 || got[n/2] != 11 {
				t.Fatalf("round %d: b is %d, %d, want 30, 11", round, got[0], got[n/2])
			}
		}
	})
}
