package transpose

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Transpose writes to[j*stride+i] = element j of row i of a, ignoring its norms; to and a.Data must not overlap. to has
// a.Dim rows of a.N values, stride apart.
func Transpose(k cpu.Kernels, to []float32, stride int, a cpu.Rows) error {
	if err := a.Check(false); err != nil {
		return err
	}
	if a.N == 0 || a.Dim == 0 {
		return nil
	}
	if stride < a.N || len(to) < a.N || a.Dim-1 > (len(to)-a.N)/stride {
		return fmt.Errorf("%w: %d×%d transposed into %d values with stride %d", kernels.ErrShape, a.N, a.Dim, len(to),
			stride)
	}
	return transpose(k, to, stride, a)
}

func goTranspose(to []float32, stride int, a cpu.Rows) {
	const block = 32
	for i0 := 0; i0 < a.N; i0 += block {
		for j0 := 0; j0 < a.Dim; j0 += block {
			for i := i0; i < min(a.N, i0+block); i++ {
				for j, x := range a.Row(i)[j0:min(a.Dim, j0+block)] {
					to[(j0+j)*stride+i] = x
				}
			}
		}
	}
}
