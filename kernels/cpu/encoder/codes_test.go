package encoder_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// A product that writes its outputs as codes gives the next product the same bits as encoding its outputs, for shapes
// around the kernels' steps and slices.
func TestOutputsAsCodes(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(18, 1))
		for i, shape := range [][3]int{{1, 1, 1}, {2, 33, 7}, {15, 96, 32}, {17, 500, 33}, {33, 64, 100},
			{130, 800, 65}} {
			rows, in, out := shape[0], shape[1], shape[2]
			x := encoded(t, k, Rows{Data: normal(rng, rows*in, 1), N: rows, Dim: in, Stride: in})
			pack := func(out, in int) *Weights {
				return cputest.Must(PackCodes(k, nil, Rows{Data: normal(rng, out*in, .1), N: out, Dim: in, Stride: in}))
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
			if err := l.Compute(k); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("codes of some panels: %v", err)
			}
		}
	})
}

// A NaN input makes all outputs of its row NaN, for every activation, and affects no other row.
func TestActivationsShowNaN(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		const rows, in, out = 3, 40, 33
		rng := rand.New(rand.NewPCG(2, 4))
		x, w := normal(rng, rows*in, 1), normal(rng, out*in, 1)
		x[in+7] = float32(math.NaN())
		in32 := Rows{Data: x, N: rows, Dim: in, Stride: in}
		for a := Activation(0); a <= Tanh; a++ {
			for _, coded := range []bool{false, true} {
				l := Linear{X: in32, Weights: weightsOf(t, k, w, out, in), Y: make([]float32, rows*out), Stride: out,
					Activation: a}
				if coded {
					l.X, l.Codes = Rows{}, encoded(t, k, in32)
					l.Weights = cputest.Must(PackCodes(k, nil, Rows{Data: w, N: out, Dim: in, Stride: in}))
				}
				l.Last = l.Weights.Panels()
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
				for i, y := range l.Y {
					if want := i/out == 1; want != (y != y) {
						t.Errorf("activation %d, codes %v: output %d of row %d is %v", a, coded, i%out, i/out, y)
						break
					}
				}
			}
		}
	})
}
