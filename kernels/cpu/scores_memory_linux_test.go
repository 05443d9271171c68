package cpu_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels/ref"

	. "github.com/sluice-rag/sluice/kernels/cpu"
)

// TestReadsNothingBehindTheEnd puts the last element right before a page that must not be touched,
// and the first right behind one: reading astray ends the test binary.
func TestReadsNothingBehindTheEnd(t *testing.T) {
	forEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(9, 9))
		for _, dim := range []int{1, 3, 7, 8, 9, 17, 33} {
			for _, n := range []int{1, 4, 5} {
				a, b := fenced(t, n*dim, true), fenced(t, n*dim, false)
				for i := range a {
					a[i], b[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
				}
				x := withNorms(Rows{Data: a, N: n, Dim: dim, Stride: dim})
				y := withNorms(Rows{Data: b, N: n, Dim: dim, Stride: dim})
				checkScores(t, k, x, y)
				checkScores(t, k, y, x)
				if row, err := k.NonFinite(x); row != -1 || err != nil {
					t.Errorf("NonFinite: %d, %v", row, err)
				}
				norm := make([]float64, n)
				if err := k.Norms(norm, y); err != nil || norm[n-1] != ref.Norm(y.Row(n-1)) {
					t.Errorf("Norms: %v, %v", norm, err)
				}
			}
		}
	})
}

// fenced returns n floats at the end (or start) of a readable page between two unreadable ones.
func fenced(t *testing.T, n int, atEnd bool) []float32 {
	t.Helper()
	page := syscall.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skipf("SKIP: no guard pages: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	for _, fence := range [][]byte{mem[:page], mem[2*page:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Skipf("SKIP: no guard pages: %v", err)
		}
	}
	from := page
	if atEnd {
		from = 2*page - 4*n
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[from])), n)
}
