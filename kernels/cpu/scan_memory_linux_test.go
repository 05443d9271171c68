package cpu

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"
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
				need, size := inFence(t, make([]float32, roomFor(queries)), atEnd), queries*s.chunk.Panels*ScanLanes
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
				c.codes, c.meta, c.terms = inFence(t, c.codes, atEnd), inFence(t, c.meta, atEnd),
					inFence(t, c.terms, atEnd)
				q.q8, q.sums, q.weights = inFence(t, q.q8, atEnd), inFence(t, q.sums, atEnd),
					inFence(t, q.weights, atEnd)
				bias := *s.bias
				bias.Rows = inFence(t, bias.Rows[:(queries-1)*ScanRows+s.chunk.Panels*ScanLanes], atEnd)
				scratch := &ScanScratch{acc: inFence(t, make([]float32, size), atEnd),
					found: inFence(t, make([]uint32, size), atEnd),
					lines: inFence(t, make([]float32, size), atEnd)}
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

// fencedPages is fenced for bytes, of any number of pages.
func fencedPages(t *testing.T, n int, atEnd bool) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	inside := ceilDiv(n, page) * page
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
