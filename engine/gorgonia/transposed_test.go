package gorgonia

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
)

// TestTransposedProducts compares the products of a linear layer with float64 sums, for operands in any layout.
func TestTransposedProducts(t *testing.T) {
	e := newEngine(t, engine.Options{})
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(1, 70).Draw(t, "m"), rapid.IntRange(1, 70).Draw(t, "n"),
			rapid.IntRange(1, 70).Draw(t, "k")
		x, w, dy := layout(t, "x", e, m, k), layout(t, "w", e, n, k), layout(t, "dy", e, m, n)
		vx, vw, vy := matrixOf(x), matrixOf(w), matrixOf(dy)
		for name, c := range map[string]struct {
			a, b view // the product is a·bᵀ
			run  func(out *tensor.Dense) error
		}{
			"linear": {vx, vw, func(out *tensor.Dense) error { return e.Linear(out, x, w) }},
			"weights": {vy.transposed(), vx.transposed(),
				func(out *tensor.Dense) error { return e.LinearWeights(out, dy, x) }},
			"input": {vy, vw.transposed(), func(out *tensor.Dense) error { return e.LinearInput(out, dy, w) }},
		} {
			out := plain(e, numbers(9, c.a.rows*c.b.rows), c.a.rows, c.b.rows)
			if err := c.run(out); err != nil {
				t.Fatal(err)
			}
			got := matrixOf(out)
			for i := range got.rows {
				for j := range got.cols {
					var sum, size float64
					for l := range c.a.cols {
						p := float64(c.a.at(i, l)) * float64(c.b.at(j, l))
						sum, size = sum+p, size+math.Abs(p)
					}
					if d := math.Abs(float64(got.at(i, j)) - sum); !(d <= size*float64(c.a.cols+1)/(1<<23)) {
						t.Fatalf("%s: element %d, %d is %v, %v expected", name, i, j, got.at(i, j), sum)
					}
				}
			}
		}
	})
}

// TestTransposedProductsAreTheSameOnAnyThreads: what is trained on one thread is what is trained on many.
func TestTransposedProductsAreTheSameOnAnyThreads(t *testing.T) {
	const m, n, k = 353, 300, 200
	var want [3][]float32
	for threads := 1; threads <= 3; threads++ {
		e := newEngine(t, engine.Options{Cores: cores.New(threads), Threads: threads})
		x, w, dy := plain(e, numbers(1, m*k), m, k), plain(e, numbers(2, n*k), n, k), plain(e, numbers(3, m*n), m, n)
		y, dw, dx := plain(e, make([]float32, m*n), m, n), plain(e, make([]float32, n*k), n, k),
			plain(e, make([]float32, m*k), m, k)
		if err := errors.Join(e.Linear(y, x, w), e.LinearWeights(dw, dy, x), e.LinearInput(dx, dy, w)); err != nil {
			t.Fatal(err)
		}
		for i, out := range []*tensor.Dense{y, dw, dx} {
			if want[i] == nil {
				want[i] = out.Float32s()
			} else if !slices.Equal(out.Float32s(), want[i]) {
				t.Errorf("product %d has other bits on %d threads than on one", i, threads)
			}
		}
	}
}

// TestTransposedProductsRefuse what has no product.
func TestTransposedProductsRefuse(t *testing.T) {
	e := newEngine(t, engine.Options{})
	x, w, y := plain(e, numbers(1, 6), 2, 3), plain(e, numbers(1, 12), 4, 3), plain(e, numbers(1, 8), 2, 4)
	wrong := plain(e, numbers(1, 4), 2, 2)
	for i, err := range []error{e.Linear(wrong, x, w), e.LinearWeights(wrong, y, x), e.LinearInput(wrong, y, w),
		e.Linear(y, wrong, w)} {
		if !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%d: %v", i, err)
		}
	}
	doubles := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(make([]float64, 6)))
	if err := e.Linear(y, doubles, w); err == nil {
		t.Error("float64 operands are multiplied")
	}
}
