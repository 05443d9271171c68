package transpose_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/transpose"
)

func TestTranspose(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(31, 1))
		for _, shape := range [][2]int{{0, 3}, {1, 1}, {1, 9}, {9, 1}, {3, 4}, {4, 4}, {5, 7}, {8, 31}, {32, 32},
			{33, 65}, {70, 34}} {
			a := cputest.Guarded(rng, shape[0], shape[1], shape[1]+rng.IntN(3))
			stride := a.N + rng.IntN(3)
			to := make([]float32, a.Dim*stride+7)
			for i := range to {
				to[i] = cputest.Canary
			}
			room := to[:max(0, (a.Dim-1)*stride+a.N)]
			if err := Transpose(k, room[:len(room):len(room)], stride, a); err != nil {
				t.Fatal(err)
			}
			for at, got := range to {
				want, i, j := cputest.Canary, at, 0
				if stride > 0 {
					i, j = at%stride, at/stride
				}
				if i < a.N && j < a.Dim {
					want = a.Row(i)[j]
				}
				if math.Float32bits(got) != math.Float32bits(want) {
					t.Fatalf("%v: value %d is %v, want %v", shape, at, got, want)
				}
			}
		}
		a := Rows{Data: make([]float32, 12), N: 3, Dim: 4, Stride: 4}
		for name, err := range map[string]error{
			"short":  Transpose(k, make([]float32, 11), 3, a),
			"stride": Transpose(k, make([]float32, 12), 2, a),
			"data":   Transpose(k, make([]float32, 12), 3, Rows{Data: a.Data[:11], N: 3, Dim: 4, Stride: 4}),
		} {
			if !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func BenchmarkTranspose(b *testing.B) {
	const n = 2048
	a, to := Rows{Data: make([]float32, n*n), N: n, Dim: n, Stride: n}, make([]float32, n*n)
	for _, isa := range []ISA{Scalar, Go} {
		k, err := Open(isa.String())
		if err != nil {
			b.Skip(err)
		}
		b.Run(isa.String(), func(b *testing.B) {
			b.SetBytes(8 * n * n)
			for b.Loop() {
				if err := Transpose(k, to, n, a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
