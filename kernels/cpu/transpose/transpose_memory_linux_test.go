package transpose_test

import (
	"math/rand/v2"
	"testing"

	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/transpose"
)

// TestTransposeStaysInItsMemory places rows and columns right before an inaccessible page.
func TestTransposeStaysInItsMemory(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(42, 1))
		for _, shape := range [][2]int{{1, 1}, {3, 7}, {9, 8}, {17, 33}, {70, 65}} {
			a := cputest.RandomRows(rng, shape[0], shape[1])
			a.Data = cputest.InFence(t, a.Data, true)
			if err := Transpose(k, cputest.InFence(t, make([]float32, a.N*a.Dim), true), a.N, a); err != nil {
				t.Fatal(err)
			}
		}
	})
}
