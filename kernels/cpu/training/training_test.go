package training_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/training"
)

// TestGELUSlope compares with float64 on a grid and at the ends, at every alignment and remainder length.
func TestGELUSlope(t *testing.T) {
	var grid []float32
	for x := -12.; x <= 12; x += 1. / 512 {
		grid = append(grid, float32(x))
	}
	grid = append(grid, 0, 1e-30, -1e-30, 100, -100, 3e38, -3e38)
	for _, isa := range Available() {
		k := cputest.KernelsOf(isa)
		y, slope := slices.Clone(grid), make([]float32, len(grid))
		if err := GELUSlope(k, y, slope); err != nil {
			t.Fatal(err)
		}
		var worst float64
		for i, x := range grid {
			v := float64(x)
			phi := .5 * math.Erfc(-v/math.Sqrt2)
			d := phi + v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi)
			worst = max(worst, math.Abs(float64(y[i])-v*phi)/(1+math.Abs(v)),
				math.Abs(float64(slope[i])-d)/(1+math.Abs(v)))
		}
		if !(worst <= 5e-7) {
			t.Errorf("%v: off by %.3g", isa, worst)
		}
		t.Logf("%v: largest error %.3g", isa, worst)
		for n := range 40 {
			part, slopes := slices.Clone(grid[4000:4000+n+1]), make([]float32, n+1)
			if err := GELUSlope(k, part[:n], slopes[:n]); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(part[:n], y[4000:4000+n]) || !slices.Equal(slopes[:n], slope[4000:4000+n]) ||
				part[n] != grid[4000+n] || slopes[n] != 0 {
				t.Errorf("%v: %d values differ from those of a longer call, or something behind them was written", isa, n)
			}
		}
		if err := GELUSlope(k, y, slope[1:]); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%v: %v", isa, err)
		}
	}
}

// TestAdam compares steps with float64.
func TestAdam(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, isa := range Available() {
		k := cputest.KernelsOf(isa)
		for _, n := range []int{0, 1, 7, 16, 33, 100} {
			s := AdamStep{Scale: .5, Beta1: .9, Beta2: .999, Rate: 1e-2, Root: 3, Epsilon: 1e-8, Shrink: .99}
			var in [4][]float32
			for i := range in {
				in[i] = make([]float32, n+1)
				for j := range in[i] {
					in[i][j] = float32(r.NormFloat64())
					if i == 3 {
						in[i][j] *= in[i][j]
					}
				}
			}
			var out [4][]float32
			for i := range in {
				out[i] = slices.Clone(in[i])
			}
			if err := Adam(k, out[0][:n], out[1][:n], out[2][:n], out[3][:n], s); err != nil {
				t.Fatal(err)
			}
			for j := range n {
				g := float64(in[1][j]) * .5
				m := .9*float64(in[2][j]) + .1*g
				v := .999*float64(in[3][j]) + .001*g*g
				w := .99*float64(in[0][j]) - 1e-2*m/(math.Sqrt(v)*3+1e-8)
				for i, want := range []float64{w, float64(in[1][j]), m, v} {
					if d := math.Abs(float64(out[i][j]) - want); !(d <= 1e-5*(1+math.Abs(want))) {
						t.Errorf("%v: %d values: array %d, value %d is %v, %v expected", isa, n, i, j, out[i][j], want)
					}
				}
			}
			for i := range in {
				if out[i][n] != in[i][n] {
					t.Errorf("%v: %d values: array %d is written behind its end", isa, n, i)
				}
			}
		}
		err := Adam(k, make([]float32, 2), make([]float32, 1), nil, nil, AdamStep{})
		if !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%v: %v", isa, err)
		}
	}
}

// TestAttendedHead compares every instruction set with the Go code, on shapes with and without remainders, and checks
// that the memory between rows of the context is unchanged.
func TestAttendedHead(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	numbers := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	for _, shape := range [][3]int{{1, 1, 1}, {1, 7, 4}, {5, 5, 8}, {3, 16, 32}, {17, 17, 33}, {40, 40, 32},
		{1, 33, 64}, {66, 66, 20}} {
		a := AttendedHead{Queries: shape[0], Length: shape[1], Dim: shape[2], QStride: shape[2] + 3,
			KVStride: 2*shape[2] + 5, Scale: .3}
		nq, nk := a.Queries*a.QStride, a.Length*a.KVStride
		q, k, v, d := numbers(nq), numbers(nk), numbers(nk), numbers(nq)
		var bias []float32
		if a.Length%2 == 1 {
			bias = numbers(2*a.Length + 3)
		}
		var want [][]float32
		for _, isa := range slices.Backward(Available()) { // the Go code first
			kernel := cputest.KernelsOf(isa)
			p, context := make([]float32, a.Queries*a.PStride()), numbers(0)
			context = append(context, d...) // values between the rows must not change
			dq, dk, dv := slices.Clone(q), slices.Clone(k), slices.Clone(v)
			var scratch []float32
			if err := errors.Join(Attend(kernel, a, q, k, v, bias, p, context, &scratch),
				AttendBack(kernel, a, q, k, v, p, d, dq, dk, dv, &scratch)); err != nil {
				t.Fatal(err)
			}
			got := [][]float32{p, context, dq, dk, dv}
			if want == nil {
				want = got
			}
			for i := range got {
				for j, x := range got[i] {
					if y := want[i][j]; !(math.Abs(float64(x-y)) <= 2e-5*(1+math.Abs(float64(y)))) {
						t.Fatalf("%v, %v: array %d, value %d is %v, %v expected", isa, shape, i, j, x, y)
					}
				}
			}
		}
	}
	a := AttendedHead{Queries: 2, Length: 3, Dim: 4, QStride: 4, KVStride: 4}
	var scratch []float32
	for _, c := range []struct{ q, bias int }{{7, 0}, {8, 3}, {8, 6}} {
		err := Attend(cputest.KernelsOf(Available()[0]), a, make([]float32, c.q), make([]float32, 12),
			make([]float32, 12), make([]float32, c.bias), make([]float32, 32), make([]float32, 8), &scratch)
		if !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
