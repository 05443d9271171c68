package cpu_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
)

// fence returns n bytes that end right before a page that must not be touched.
func fence(t *testing.T, n int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	size := (n + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skipf("SKIP: no guard pages: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	if err := syscall.Mprotect(mem[size:], syscall.PROT_NONE); err != nil {
		t.Skipf("SKIP: no guard pages: %v", err)
	}
	return mem[size-n : size : size]
}

// behind moves a slice to the end of such memory.
func behind[T any](t *testing.T, s []T) []T {
	t.Helper()
	if len(s) == 0 {
		return s
	}
	size := int(unsafe.Sizeof(s[0]))
	moved := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(fence(t, len(s)*size)))), len(s))
	copy(moved, s)
	return moved
}

// TestTilesStayInTheirMemory: packing, multiplying and counting with every operand and result right before a page
// that must not be touched. What they do inside is for other tests; a step outside ends the test binary.
func TestTilesStayInTheirMemory(t *testing.T) {
	shapes := [][3]int{{1, 1, 1}, {3, 2, 5}, {31, 33, 9}, {33, 32, 16}, {40, 65, 31}, {64, 97, 66}, {65, 33, 384}}
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(41, 1))
		for _, shape := range shapes {
			for _, m := range metrics {
				a, b := unitRows(rng, shape[0], shape[2]), unitRows(rng, shape[1], shape[2])
				for _, r := range []*Rows{&a, &b} {
					r.Data, r.Norms = behind(t, r.Data), behind(t, r.Norms)
				}
				scale := scaleOf(m, a, b)
				left, right := fencedPanels(t, k, Left, dtype, m, a, scale),
					fencedPanels(t, k, Right, dtype, m, b, scale)
				out := behind(t, make([]float32, a.N*b.N))
				if err := k.Matrix(out, b.N, left, 0, left.Count(), right, 0, right.Count()); err != nil {
					t.Fatal(err)
				}
				c := newCount(rng, a.N, b.N, 3, 5)
				c.Own, c.RowGroup, c.ColumnGroup = behind(t, c.Own), behind(t, c.RowGroup), behind(t, c.ColumnGroup)
				c.Low, c.High, c.Below, c.Bins = behind(t, c.Low), behind(t, c.High), behind(t, c.Below),
					behind(t, c.Bins)
				c.BestOther, c.BestAll = behind(t, c.BestOther), behind(t, c.BestAll)
				for _, list := range []*[]Entry{&c.Kept, &c.Other, &c.All} {
					*list = behind(t, (*list)[:cap(*list)])[:0]
				}
				if err := k.Count(&c, left, 0, left.Count(), right, 0, right.Count()); err != nil {
					t.Fatal(err)
				}
				if c.Counted == 0 && a.N > 1 && !c.CrossGroup {
					t.Errorf("%s %s %v: nothing counted", dtype, m, shape)
				}
			}
		}
	})
}

// fencedPanels packs r into panels whose last byte lies before such a page.
func fencedPanels(t *testing.T, k Kernels, side Side, dtype kernels.DType, m kernels.Metric, r Rows,
	scale float64) *Panels {
	t.Helper()
	if m == kernels.Cosine {
		scale = 1
	}
	p, err := k.NewPanels(side, dtype, m, r.N, r.Dim, scale)
	if err != nil {
		t.Fatal(err)
	}
	data, terms := field[[]byte](p, "data"), field[[]float32](p, "terms")
	*data, *terms = behind(t, *data), behind(t, *terms)
	s, err := k.Pack(p, r, nil, 0, p.Count())
	if err != nil {
		t.Fatal(err)
	}
	p.Merge(s)
	return p
}

// TestOthersStayInTheirMemory: the same for the kernels of single pairs, sums and transposes.
func TestOthersStayInTheirMemory(t *testing.T) {
	forEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(42, 1))
		for _, shape := range [][2]int{{1, 1}, {3, 7}, {9, 8}, {17, 33}, {70, 65}} {
			a := unitRows(rng, shape[0], shape[1])
			a.Data, a.Norms = behind(t, a.Data), behind(t, a.Norms)
			list := make([]int32, a.N)
			for i := range list {
				list[i] = int32(a.N - 1 - i)
			}
			list = behind(t, list)
			for _, m := range metrics {
				if err := k.Pairs(m, behind(t, make([]float64, a.N)), a, list, a, list); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.Sum(behind(t, make([]float64, a.Dim)), a, a.Norms, list); err != nil {
				t.Fatal(err)
			}
			if err := k.Transpose(behind(t, make([]float32, a.N*a.Dim)), a.N, a); err != nil {
				t.Fatal(err)
			}
		}
	})
}
