package encoder_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// Weights of one arena do not overlap, and give the same products as weights with their own memory; After does not
// change results.
func TestArena(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(52, 2))
		var arena Arena
		var apart, together []*Weights
		var inputs [][]float32
		for i := range 40 {
			out, in := 1+rng.IntN(90), 1+rng.IntN(400)
			w := Rows{Data: normal(rng, out*in, 1), N: out, Dim: in, Stride: in}
			pack := PackWeights
			if i%3 == 2 {
				pack = PackCodes
			}
			apart = append(apart, cputest.Must(pack(k, nil, w)))
			together = append(together, cputest.Must(pack(k, &arena, w)))
			inputs = append(inputs, normal(rng, 7*in, 1))
		}
		for i, x := range inputs {
			var results [2][]float32
			for side, all := range [][]*Weights{apart, together} {
				w := all[i]
				rows := Rows{Data: x, N: 7, Dim: w.In, Stride: w.In}
				l := Linear{X: rows, Weights: w, Y: make([]float32, 7*w.Out), Stride: w.Out, Last: w.Panels()}
				if i%3 == 2 {
					l.X, l.Codes = Rows{}, encoded(t, k, rows)
				}
				if side == 1 {
					l.After = all[(i+3)%len(all)]
				}
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
				results[side] = l.Y
			}
			if !slices.Equal(results[0], results[1]) {
				t.Fatalf("product %d: other bits with memory of an arena", i)
			}
		}
	})
}
