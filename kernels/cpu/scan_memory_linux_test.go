package cpu_test

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	. "github.com/sluice-rag/sluice/kernels/cpu"
)

// TestScanStaysInside puts all that a scan reads and writes right before and right behind pages that must
// not be touched.
func TestScanStaysInside(t *testing.T) {
	forEachISA(t, func(t *testing.T, k Kernels) {
		if !k.CanScan() {
			t.Skip("SKIP: no scan without C")
		}
		rng := rand.New(rand.NewPCG(53, 1))
		for _, atEnd := range []bool{true, false} {
			for _, queries := range []int{1, 3, 4, 17, 64} {
				s := newScanCase(t, rng, 37, 70, queries, 0, queries%2 == 1)
				s.addBiases(rng)
				places, size := *field[int](s.queries, "room"), queries*s.chunk.Panels*ScanLanes
				need := inFence(t, make([]float32, places), atEnd)
				for q := range queries {
					score, _ := s.score(q, q%37)
					need[q] = float32(score)
				}
				want, _, err := k.Scan(s.chunk, s.queries, []uint8{0, 1, 2, 3}, 2, need, s.bias,
					NewScanScratch(queries))
				if err != nil || len(want) == 0 {
					t.Fatalf("%d found, %v", len(want), err)
				}
				c, q := *s.chunk, *s.queries
				fenceFields[byte](t, &c, atEnd, "codes")
				fenceFields[float32](t, &c, atEnd, "meta", "terms")
				fenceFields[int8](t, &q, atEnd, "q8")
				fenceFields[int32](t, &q, atEnd, "sums")
				fenceFields[float32](t, &q, atEnd, "weights")
				bias := *s.bias
				bias.Rows = inFence(t, bias.Rows[:(queries-1)*ScanRows+s.chunk.Panels*ScanLanes], atEnd)
				scratch := new(ScanScratch)
				*field[[]float32](scratch, "acc") = make([]float32, size)
				*field[[]uint32](scratch, "found") = make([]uint32, size)
				*field[[]float32](scratch, "lines") = make([]float32, size)
				fenceFields[float32](t, scratch, atEnd, "acc", "lines")
				fenceFields[uint32](t, scratch, atEnd, "found")
				got, bounds, err := k.Scan(&c, &q, []uint8{0, 1, 2, 3}, 2, need, &bias, scratch)
				if err != nil || len(got) != len(want) {
					t.Fatalf("%d found, want %d, %v", len(got), len(want), err)
				}
				for i := range got {
					if got[i] != want[i] || math.IsNaN(float64(bounds[i])) {
						t.Fatalf("%d: %x, want %x; bound %v", i, got[i], want[i], bounds[i])
					}
				}
			}
		}
	})
}

// inFence copies x between unreadable pages; nil stays nil.
func inFence[T any](t *testing.T, x []T, atEnd bool) []T {
	if len(x) == 0 {
		return x
	}
	size := len(x) * int(unsafe.Sizeof(x[0]))
	out := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(fencedPages(t, size, atEnd)))), len(x))
	copy(out, x)
	return out
}

// fenceFields moves the named slices of a struct into fences.
func fenceFields[T any](t *testing.T, of any, atEnd bool, names ...string) {
	for _, name := range names {
		f := field[[]T](of, name)
		*f = inFence(t, *f, atEnd)
	}
}

// fencedPages is fenced for bytes, of any number of pages.
func fencedPages(t *testing.T, n int, atEnd bool) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	inside := (n + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, inside+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skipf("SKIP: no guard pages: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	for _, fence := range [][]byte{mem[:page], mem[page+inside:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Skipf("SKIP: no guard pages: %v", err)
		}
	}
	if atEnd {
		return mem[page+inside-n : page+inside]
	}
	return mem[page : page+n]
}
