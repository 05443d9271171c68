package encoder_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

func normal(rng *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * scale)
	}
	return v
}

// between returns a slice of n values with canaries on both sides; broken reports whether one was overwritten.
func between(n int) (v []float32, broken func() bool) {
	const fence = 24
	all := make([]float32, n+2*fence)
	for i := range all {
		all[i] = cputest.Canary
	}
	return all[fence : fence+n : fence+n], func() bool {
		for i, x := range all {
			if (i < fence || i >= fence+n) && math.Float32bits(x) != math.Float32bits(cputest.Canary) {
				return true
			}
		}
		return false
	}
}

func largestError(got, want []float32) (d float64) {
	for i := range got {
		if e := math.Abs(float64(got[i]) - float64(want[i])); !(e <= d) {
			d = e
		}
	}
	return d
}

// forEachProduct is cputest.ForEachISA plus AMX's products in emulation and Winograd's.
func forEachProduct(t *testing.T, test func(t *testing.T, k Kernels)) {
	cputest.ForEachISA(t, test)
	for _, name := range []string{EmulatedAMX, AVX2.String() + Winograd, AVX512VNNI.String() + Winograd} {
		t.Run(name, func(t *testing.T) {
			k, err := Open(name)
			if err != nil {
				t.Skipf("SKIP: %v", err)
			}
			test(t, k)
		})
	}
}

// multiply is Linear with the scratch that it needs.
func multiply(k Kernels, l *Linear) error {
	l.Scratch = nil
	if l.Codes == nil {
		l.Scratch = make([]float32, LinearScratch(k, l.X.N, l.X.Dim))
	}
	return l.Compute(k)
}

func weightsOf(t *testing.T, k Kernels, w []float32, out, in int) *Weights {
	t.Helper()
	p, err := PackWeights(k, nil, Rows{Data: w, N: out, Dim: in, Stride: in})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Compares every activation, with and without bias and residual, for shapes around the sizes of blocks, panels and
// slices, with float64.
func TestLinear(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(1, 2))
		for i, shape := range [][3]int{{1, 1, 1}, {2, 7, 3}, {3, 8, 33}, {5, 31, 31}, {13, 64, 32}, {12, 257, 40},
			{25, 520, 97}, {600, 16, 9}, {4, 1536, 64}, {16, 32, 16}, {17, 63, 48}, {33, 65, 32}, {257, 40, 33},
			{48, 600, 70}} {
			rows, in, out := shape[0], shape[1], shape[2]
			x, w, bias := normal(rng, rows*(in+3), 1), normal(rng, in*out, .5/math.Sqrt(float64(in))),
				normal(rng, out, 1)
			stride := out + i%3
			l := Linear{X: Rows{Data: x, N: rows, Dim: in, Stride: in + 3}, Stride: stride,
				Activation: Activation(i % 5)}
			if i%2 == 0 {
				l.Bias, l.Residual = bias, normal(rng, rows*stride, 1)
			}
			size := (rows-1)*stride + out
			want := make([]float32, size)
			reference := l
			reference.Weights, reference.Y = weightsOf(t, cputest.PlainGo, w, out, in), want
			reference.Last = reference.Weights.Panels()
			if err := multiply(cputest.PlainGo, &reference); err != nil {
				t.Fatal(err)
			}
			y, broken := between(size)
			l.Y, l.Weights = y, weightsOf(t, k, w, out, in)
			for part := range l.Weights.Panels() { // any split of the panels
				l.First, l.Last = part, part+1
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
			}
			for r := range rows - 1 { // values between the rows must not change
				for c := out; c < stride; c++ {
					if math.Float32bits(y[r*stride+c]) != math.Float32bits(cputest.Canary) {
						t.Fatalf("%v: value %d behind row %d was written", shape, c, r)
					}
					y[r*stride+c] = want[r*stride+c]
				}
			}
			if d := largestError(y, want); !(d < 4e-6) || broken() {
				t.Errorf("%v, activation %d: error %g, written outside: %v", shape, l.Activation, d, broken())
			}
		}
	})
}

// Compares products of codes with the same products in Go, and both with float64 products of the values themselves.
func TestLinearCodes(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(11, 12))
		for i, shape := range [][3]int{{1, 1, 1}, {2, 31, 3}, {3, 33, 33}, {5, 96, 31}, {13, 64, 32}, {7, 800, 40},
			{7, 1536, 70}, {30, 384, 129}, {16, 800, 16}, {33, 1600, 31}, {530, 32, 17}} {
			rows, in, out := shape[0], shape[1], shape[2]
			x := Rows{Data: normal(rng, rows*(in+3), 1), N: rows, Dim: in, Stride: in + 3}
			w := Rows{Data: normal(rng, in*out, 1/math.Sqrt(float64(in))), N: out, Dim: in, Stride: in}
			exact, coded := make([]float32, rows*out), make([]float32, rows*out)
			l := Linear{X: x, Bias: normal(rng, out, 1), Activation: Activation(i % 3), Stride: out}
			bfloat16 := k.String() == AMX.String() || k.String() == EmulatedAMX
			for _, to := range [][]float32{exact, coded} {
				ref, pack, weights := l, PackWeights, w
				switch {
				case &to[0] == &exact[0]:
				case bfloat16:
					ref.X.Data, weights.Data = bfloat16s(x.Data), bfloat16s(w.Data)
				default:
					ref.X, ref.Codes, pack = Rows{}, encoded(t, cputest.PlainGo, x), PackCodes
				}
				ref.Y, ref.Weights = to, cputest.Must(pack(cputest.PlainGo, nil, weights))
				ref.Last = ref.Weights.Panels()
				if err := multiply(cputest.PlainGo, &ref); err != nil {
					t.Fatal(err)
				}
			}
			y, broken := between(rows * out)
			l.X, l.Codes, l.Y, l.Weights = Rows{}, encoded(t, k, x), y, cputest.Must(PackCodes(k, nil, w))
			for part := range l.Weights.Panels() {
				l.First, l.Last = part, part+1
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
			}
			if d := largestError(y, coded); !(d < 4e-6) || broken() {
				t.Errorf("%v: %g from the products of the codes, written outside: %v", shape, d, broken())
			}
			if d := largestError(y, exact); !(d < .05) || d == 0 && in > 1 {
				t.Errorf("%v: %g from the products of the values", shape, d)
			}
		}
	})
}

func encoded(t *testing.T, k Kernels, x Rows) *Codes {
	t.Helper()
	c := &Codes{}
	if err := Encode(k, c, x); err != nil {
		t.Fatal(err)
	}
	return c
}

// Codes belong to the products of an instruction set: others reject them, and Encode replaces them.
func TestCodesOfAnother(t *testing.T) {
	words, err := Open(AVX2.String())
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	x := Rows{Data: normal(rand.New(rand.NewPCG(13, 14)), 3*64, 1), N: 3, Dim: 64, Stride: 64}
	codes := encoded(t, cputest.PlainGo, x)
	w := cputest.Must(PackCodes(words, nil, x))
	l := Linear{Codes: codes, Weights: w, Y: make([]float32, 9), Stride: 3, Last: w.Panels()}
	if err := multiply(words, &l); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("codes of another instruction set: %v", err)
	}
	if err := Encode(words, codes, x); err != nil {
		t.Fatal(err)
	}
	if err := multiply(words, &l); err != nil {
		t.Error(err)
	}
}

// Inputs that are not finite, zeros and denormals: rows that are not finite stay so, the others have finite outputs.
func TestCodesOfOddValues(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		w := cputest.Must(PackCodes(k, nil, Rows{Data: []float32{1, 1, 1, 1}, N: 1, Dim: 4, Stride: 4}))
		for _, test := range []struct {
			x      []float32
			finite bool
			want   float64
		}{
			{[]float32{0, 0, 0, 0}, true, 0},
			{[]float32{1e-40, 0, -1e-39, 0}, true, 0},
			{[]float32{127, -127, 63, 1}, true, 64},
			{[]float32{1, nan, 2, 3}, false, 0},
			{[]float32{1, 2, 3, inf}, false, 0},
			{[]float32{-inf, 2, 3, 4}, false, 0},
		} {
			y := make([]float32, 1)
			l := Linear{Codes: encoded(t, k, Rows{Data: test.x, N: 1, Dim: 4, Stride: 4}), Weights: w, Y: y, Stride: 1,
				Last: w.Panels()}
			if err := multiply(k, &l); err != nil {
				t.Fatal(err)
			}
			got := float64(y[0])
			if finite := got-got == 0; finite != test.finite || finite && math.Abs(got-test.want) > 1e-4 {
				t.Errorf("%v gives %g", test.x, got)
			}
		}
	})
}

// A NaN weight makes its output NaN.
func TestCodesOfDamagedWeights(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			w := make([]float32, 40)
			w[35] = float32(bad)
			weights, y := cputest.Must(PackCodes(k, nil, Rows{Data: w, N: 1, Dim: 40, Stride: 40})), make([]float32, 1)
			ones := Rows{Data: slices.Repeat([]float32{1}, 40), N: 1, Dim: 40, Stride: 40}
			l := Linear{Codes: encoded(t, k, ones), Weights: weights, Y: y, Stride: 1, Last: weights.Panels()}
			if err := multiply(k, &l); err != nil || y[0]-y[0] == 0 {
				t.Errorf("a weight of %g gives %g, %v", bad, y[0], err)
			}
		}
	})
}

// A row's bits do not depend on the other rows, nor on how the panels are split.
func TestLinearRowsAreIndependent(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(3, 4))
		const rows, in, out = 301, 300, 70
		x, w := weightsOf(t, k, normal(rng, in*out, 1), out, in), normal(rng, rows*in, 1)
		l := Linear{X: Rows{Data: w, N: rows, Dim: in, Stride: in}, Weights: x, Activation: GELU, Stride: out,
			Y: make([]float32, rows*out), Last: x.Panels()}
		if err := multiply(k, &l); err != nil {
			t.Fatal(err)
		}
		for r := range rows {
			alone := l
			alone.X, alone.Y = l.X.Slice(r, r+1), make([]float32, out)
			for p := range x.Panels() {
				alone.First, alone.Last = p, p+1
				if err := multiply(k, &alone); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(alone.Y, l.Y[r*out:(r+1)*out]) {
				t.Fatalf("row %d alone has other bits", r)
			}
		}
	})
}

// The activations over their whole range, where the error of their approximation is largest, and at the ends.
func TestActivations(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		one := weightsOf(t, k, []float32{1}, 1, 1)
		var x []float32
		for v := -12.0; v <= 12; v += 1.0 / 512 {
			x = append(x, float32(v))
		}
		x = append(x, 0, 1e-30, -1e-30, 1e4, -1e4, 0.049, 0.051, -0.05)
		for a := NoActivation; a <= Tanh; a++ {
			y := make([]float32, len(x))
			l := Linear{X: Rows{Data: x, N: len(x), Dim: 1, Stride: 1}, Weights: one, Activation: a, Y: y, Stride: 1,
				Last: 1}
			if err := multiply(k, &l); err != nil {
				t.Fatal(err)
			}
			for i, v := range x {
				want := activated(float64(v), a)
				if d := math.Abs(float64(y[i]) - want); !(d <= 1.5e-6*max(1, math.Abs(want))) {
					t.Fatalf("activation %d of %g: %g, not %g", a, v, y[i], want)
				}
			}
		}
	})
}

// activated returns an activation by its definition.
func activated(x float64, a Activation) float64 {
	switch a {
	case GELU:
		return x / 2 * (1 + math.Erf(x/math.Sqrt2))
	case GELUTanh: // Hendrycks and Gimpel 2016, section 2
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+.044715*x*x*x)))
	case ReLU:
		return max(x, 0)
	case Tanh:
		return math.Tanh(x)
	}
	return x
}

func TestLayerNorm(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(5, 6))
		for _, dim := range []int{1, 3, 8, 16, 33, 384, 769} {
			const n = 3
			x := normal(rng, n*dim, 3)
			for i := range x {
				x[i] += 5
			}
			scale, shift := normal(rng, dim, 1), normal(rng, dim, 1)
			want := slices.Clone(x)
			cputest.Must(0, LayerNorm(cputest.PlainGo, want, n, dim, dim, scale, shift, 1e-5))
			got, broken := between(len(x))
			copy(got, x)
			if err := LayerNorm(k, got, n, dim, dim, scale, shift, 1e-5); err != nil {
				t.Fatal(err)
			}
			if d := largestError(got, want); !(d < 6e-6) || broken() {
				t.Errorf("dim %d: error %g, written outside: %v", dim, d, broken())
			}
		}
	})
}

func TestEncoderKernelsRefuse(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		w := weightsOf(t, k, make([]float32, 6), 2, 3)
		x := Rows{Data: make([]float32, 6), N: 2, Dim: 3, Stride: 3}
		good := Linear{X: x, Weights: w, Y: make([]float32, 4), Stride: 2, Last: w.Panels()}
		for name, change := range map[string]func(*Linear){
			"short output": func(l *Linear) { l.Y = l.Y[:3] },
			"stride":       func(l *Linear) { l.Stride = 1 },
			"inputs":       func(l *Linear) { l.X.Dim = 2 },
			"panels":       func(l *Linear) { l.Last++ },
			"bias":         func(l *Linear) { l.Bias = make([]float32, 1) },
			"residual":     func(l *Linear) { l.Residual = make([]float32, 3) },
			"activation":   func(l *Linear) { l.Activation = 9 },
		} {
			bad := good
			change(&bad)
			if err := multiply(k, &bad); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if need := LinearScratch(k, 2, 3); need > 0 {
			good.Scratch = make([]float32, need-1)
			if err := good.Compute(k); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("scratch: %v", err)
			}
		}
		if err := LayerNorm(k, make([]float32, 5), 2, 3, 3, make([]float32, 3), make([]float32, 3), 1); !errors.Is(err,
			kernels.ErrShape) {
			t.Error(err)
		}
		a := attentionOf(rand.New(rand.NewPCG(1, 1)), k, 2, 4, []int{3, 2}, true, false)
		for i, change := range []func(*Attention){
			func(a *Attention) { a.Last++ },
			func(a *Attention) { a.Far-- },
			func(a *Attention) { a.Scratch = a.Scratch[1:] },
			func(a *Attention) { a.QKV = a.QKV[1:] },
			func(a *Attention) { a.Y = a.Y[1:] },
			func(a *Attention) { a.Starts = []int64{0, 3, 1} },
			func(a *Attention) { a.LastHead++ },
		} {
			bad := *a
			change(&bad)
			if err := bad.Compute(k); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("attention %d: %v", i, err)
			}
		}
	})
}

func ExampleLinear() {
	k, _ := Open("scalar")
	w, _ := PackWeights(k, nil, Rows{Data: []float32{1, 0, 0, 2}, N: 2, Dim: 2, Stride: 2})
	y := make([]float32, 2)
	l := Linear{X: Rows{Data: []float32{3, 4}, N: 1, Dim: 2, Stride: 2}, Weights: w, Bias: []float32{1, 1}, Y: y,
		Stride: 2, Last: w.Panels()}
	_ = l.Compute(k)
	fmt.Println(y)
	// Output: [4 9]
}
