package cpu_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
)

// A product whose outputs are codes gives the next one the same bits as one whose outputs are encoded, with shapes
// beside the kernels' steps and slices.
func TestOutputsAsCodes(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(18, 1))
		for i, shape := range [][3]int{{1, 1, 1}, {2, 33, 7}, {15, 96, 32}, {17, 500, 33}, {33, 64, 100},
			{130, 800, 65}} {
			rows, in, out := shape[0], shape[1], shape[2]
			x := encoded(t, k, Rows{Data: normal(rng, rows*in, 1), N: rows, Dim: in, Stride: in})
			pack := func(out, in int) *Weights {
				return must(k.PackCodes(Rows{Data: normal(rng, out*in, .1), N: out, Dim: in, Stride: in}))
			}
			first, second := pack(out, in), pack(20, out)
			l := Linear{Codes: x, Weights: first, Y: make([]float32, rows*out), Stride: out, Last: first.Panels(),
				Activation: Activation(i % 5), Bias: normal(rng, out, 1)}
			if i%2 > 0 {
				l.Residual = normal(rng, rows*out, 1)
			}
			next := func(codes *Codes) []float32 {
				y := make([]float32, rows*20)
				if err := multiply(k, &Linear{Codes: codes, Weights: second, Y: y, Stride: 20,
					Last: second.Panels()}); err != nil {
					t.Fatal(err)
				}
				return y
			}
			if err := multiply(k, &l); err != nil {
				t.Fatal(err)
			}
			want := next(encoded(t, k, Rows{Data: l.Y, N: rows, Dim: out, Stride: out}))
			l.To, l.Y = &Codes{}, make([]float32, len(l.Y))
			for range 2 { // the second time in the same memory
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(next(l.To), want) {
					t.Errorf("%v: other bits than of encoded outputs", shape)
				}
			}
			l.First = l.Last
			if err := k.Linear(&l); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("codes of some panels: %v", err)
			}
		}
	})
}
