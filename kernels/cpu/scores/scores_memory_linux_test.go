package scores_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels/ref"

	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// TestReadsNothingBehindTheEnd puts the last element right before an inaccessible page, and the first right after one:
// an access out of bounds ends the test binary.
func TestReadsNothingBehindTheEnd(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(9, 9))
		for _, dim := range []int{1, 3, 7, 8, 9, 17, 33} {
			for _, n := range []int{1, 4, 5} {
				a := cputest.InFence(t, make([]float32, n*dim), true)
				b := cputest.InFence(t, make([]float32, n*dim), false)
				for i := range a {
					a[i], b[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
				}
				x := cputest.WithNorms(Rows{Data: a, N: n, Dim: dim, Stride: dim})
				y := cputest.WithNorms(Rows{Data: b, N: n, Dim: dim, Stride: dim})
				checkScores(t, k, x, y)
				checkScores(t, k, y, x)
				if row, err := NonFinite(k, x); row != -1 || err != nil {
					t.Errorf("NonFinite: %d, %v", row, err)
				}
				norm := make([]float64, n)
				if err := Norms(k, norm, y); err != nil || norm[n-1] != ref.Norm(y.Row(n-1)) {
					t.Errorf("Norms: %v, %v", norm, err)
				}
			}
		}
	})
}

// TestPairsStayInTheirMemory places lists, scores and sums right before an inaccessible page.
func TestPairsStayInTheirMemory(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(42, 1))
		for _, shape := range [][2]int{{1, 1}, {3, 7}, {9, 8}, {17, 33}, {70, 65}} {
			a := cputest.RandomRows(rng, shape[0], shape[1])
			a.Data, a.Norms = cputest.InFence(t, a.Data, true), cputest.InFence(t, a.Norms, true)
			list := make([]int32, a.N)
			for i := range list {
				list[i] = int32(a.N - 1 - i)
			}
			list = cputest.InFence(t, list, true)
			for _, m := range cputest.Metrics {
				if err := Pairs(k, m, cputest.InFence(t, make([]float64, a.N), true), a, list, a, list); err != nil {
					t.Fatal(err)
				}
			}
			if err := Sum(k, cputest.InFence(t, make([]int64, a.Dim), true), a, a.Norms, list); err != nil {
				t.Fatal(err)
			}
		}
	})
}
