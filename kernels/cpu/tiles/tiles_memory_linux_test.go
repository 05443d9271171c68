package tiles_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// TestTilesStayInTheirMemory packs, multiplies and counts with every operand and result right before an inaccessible
// page; an access beyond it ends the test binary. Results are checked elsewhere.
func TestTilesStayInTheirMemory(t *testing.T) {
	shapes := [][3]int{{1, 1, 1}, {3, 2, 5}, {31, 33, 9}, {33, 32, 16}, {40, 65, 31}, {64, 97, 66}, {65, 33, 384}}
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(41, 1))
		for _, shape := range shapes {
			for _, m := range cputest.Metrics {
				a, b := cputest.RandomRows(rng, shape[0], shape[2]), cputest.RandomRows(rng, shape[1], shape[2])
				for _, r := range []*Rows{&a, &b} {
					r.Data, r.Norms = behind(t, r.Data), behind(t, r.Norms)
				}
				scale := scaleOf(m, a, b)
				left, right := fencedPanels(t, k, Left, dtype, m, a, scale),
					fencedPanels(t, k, Right, dtype, m, b, scale)
				out := behind(t, make([]float32, a.N*b.N))
				if err := Matrix(k, out, b.N, left, 0, left.Count(), right, 0, right.Count()); err != nil {
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
				if err := c.Add(k, left, 0, left.Count(), right, 0, right.Count()); err != nil {
					t.Fatal(err)
				}
				if c.Counted == 0 && a.N > 1 && !c.CrossGroup {
					t.Errorf("%s %s %v: nothing counted", dtype, m, shape)
				}
			}
		}
	})
}

// fencedPanels packs r into panels that end right before an inaccessible page.
func fencedPanels(t *testing.T, k Kernels, side Side, dtype kernels.DType, m kernels.Metric, r Rows,
	scale float64) *Panels {
	t.Helper()
	if m == kernels.Cosine {
		scale = 1
	}
	p, err := NewPanels(k, side, dtype, m, r.N, r.Dim, scale)
	if err != nil {
		t.Fatal(err)
	}
	data, terms := cputest.Field[[]byte](p, "data"), cputest.Field[[]float32](p, "terms")
	*data, *terms = behind(t, *data), behind(t, *terms)
	s, err := Pack(k, p, r, nil, 0, p.Count())
	if err != nil {
		t.Fatal(err)
	}
	p.Merge(s)
	return p
}

// behind moves a slice right before an inaccessible page.
func behind[T any](t *testing.T, s []T) []T { return cputest.InFence(t, s, true) }
