package scan_test

import (
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// TestScanStaysInside places all memory of a scan right before and right after inaccessible pages.
func TestScanStaysInside(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		if !Has(k) {
			t.Skip("SKIP: no scan without C")
		}
		rng := rand.New(rand.NewPCG(53, 1))
		for _, atEnd := range []bool{true, false} {
			for _, queries := range []int{1, 3, 4, 17, 64} {
				s := newScanCase(t, rng, 37, 70, queries, 0, queries%2 == 1)
				s.addBiases(rng)
				places, size := *cputest.Field[int](s.queries, "room"), queries*s.chunk.Panels*Lanes
				need := cputest.InFence(t, make([]float32, places), atEnd)
				for q := range queries {
					score, _ := s.score(q, q%37)
					need[q] = float32(score)
				}
				want, _, err := Scan(k, s.chunk, s.queries, []uint8{0, 1, 2, 3}, 2, need, s.bias,
					NewScratch(queries))
				if err != nil || len(want) == 0 {
					t.Fatalf("%d found, %v", len(want), err)
				}
				c, q := *s.chunk, *s.queries
				cputest.FenceFields[byte](t, &c, atEnd, "codes")
				cputest.FenceFields[float32](t, &c, atEnd, "meta", "terms")
				cputest.FenceFields[int8](t, &q, atEnd, "q8")
				cputest.FenceFields[int32](t, &q, atEnd, "sums")
				cputest.FenceFields[float32](t, &q, atEnd, "weights")
				bias := *s.bias
				bias.Rows = cputest.InFence(t, bias.Rows[:(queries-1)*MaxRows+s.chunk.Panels*Lanes], atEnd)
				scratch := new(Scratch)
				*cputest.Field[[]float32](scratch, "acc") = make([]float32, size)
				*cputest.Field[[]uint32](scratch, "found") = make([]uint32, size)
				*cputest.Field[[]float32](scratch, "lines") = make([]float32, size)
				cputest.FenceFields[float32](t, scratch, atEnd, "acc", "lines")
				cputest.FenceFields[uint32](t, scratch, atEnd, "found")
				got, bounds, err := Scan(k, &c, &q, []uint8{0, 1, 2, 3}, 2, need, &bias, scratch)
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
