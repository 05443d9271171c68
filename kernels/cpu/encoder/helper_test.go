package encoder_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// Products and attentions have the same bits with a helper, before its run and after it, and it computes some of them.
func TestHelper(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng, h := rand.New(rand.NewPCG(52, 1)), NewHelper()
		defer h.Close()
		const rows, in = 12, 96
		x := Rows{Data: normal(rng, rows*in, 1), N: rows, Dim: in, Stride: in}
		took := 0
		for _, out := range []int{1, 40, 400} {
			w := normal(rng, out*in, 1)
			for _, coded := range []bool{false, true} {
				l := Linear{X: x, Weights: weightsOf(t, k, w, out, in), Stride: out, Bias: normal(rng, out, 1)}
				if coded {
					l.X, l.Codes = Rows{}, encoded(t, k, x)
					l.Weights = cputest.Must(PackCodes(k, nil, Rows{Data: w, N: out, Dim: in, Stride: in}))
				}
				l.Last, l.After = l.Weights.Panels(), l.Weights
				a := attentionOf(rng, k, 1+out%7, 16, []int{3, 0, 20}, false, coded)
				compute := func(h *Helper) []float32 {
					l.Y, l.Helper = make([]float32, rows*out), h
					a.Y, a.Helper = make([]float32, len(a.Y)), h
					if err := errors.Join(multiply(k, &l), a.Compute(k)); err != nil {
						t.Fatal(err)
					}
					return slices.Concat(l.Y, a.Y)
				}
				want := compute(nil)
				check := func(when string) {
					if !slices.Equal(compute(h), want) {
						t.Fatalf("%d outputs, codes %v: other bits %s", out, coded, when)
					}
				}
				check("before a run")
				rounds := 50
				if k.ISA() == Go {
					rounds = 1 // has no thread beside it
				}
				for range rounds {
					h.Begin()
					check("in a run")
					took += h.Done()
					h.End()
					check("after a run")
				}
				if h.Begin(); out == 400 && k.ISA() != Go { // the thread may start late, but must start
					for h.Done() == 0 {
						check("in a run")
					}
				}
				h.End()
			}
		}
		t.Logf("it computed %d halves", took)
	})
}

// Arguments that are rejected without a helper are also rejected with one.
func TestHelperRefuses(t *testing.T) {
	h, k := NewHelper(), cputest.Must(Open(""))
	defer h.Close()
	h.Begin()
	defer h.End()
	w := weightsOf(t, k, make([]float32, 200), 100, 2)
	l := Linear{X: Rows{Data: make([]float32, 4), N: 2, Dim: 2, Stride: 2}, Weights: w, Y: make([]float32, 200),
		Stride: 100, Last: w.Panels(), Helper: h, Activation: 9}
	if err := multiply(k, &l); !errors.Is(err, kernels.ErrShape) {
		t.Error(err)
	}
	a := attentionOf(rand.New(rand.NewPCG(1, 1)), k, 2, 4, []int{3, 2}, false, false)
	a.Helper, a.Starts[1] = h, 9
	if err := a.Compute(k); !errors.Is(err, kernels.ErrShape) {
		t.Error(err)
	}
}
