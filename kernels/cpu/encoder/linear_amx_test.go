package encoder_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// emulatedAMX returns the kernels with AMX's products emulated.
func emulatedAMX(t *testing.T) Kernels {
	t.Helper()
	k, err := Open(EmulatedAMX)
	if errors.Is(err, kernels.ErrISA) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil || k.String() != EmulatedAMX {
		t.Fatal(k, err)
	}
	return k
}

// wide draws values of very different magnitudes: both signs, zeros, denormals, and many that round to 0 beside the
// largest of their span.
func wide(rng *rand.Rand, n, lowest, highest int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Ldexp(rng.NormFloat64(), lowest+rng.IntN(highest-lowest+1)))
		if rng.IntN(20) == 0 {
			v[i] = 0
		}
	}
	return v
}

func exact(x float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(x)) }

// digitsOf returns the integers of a span of inputs, each as three signed 8-bit digits, the highest first, and the
// step.
func digitsOf(x []float32) (digits [][3]int64, step float32) {
	const most = 8355000
	var top float32
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	var scale float32
	if top > 1e-30 {
		scale, step = most/top, top/most
	}
	for _, v := range x {
		n := int64(math.RoundToEven(float64(v * scale)))
		low := int64(int8(n))
		middle := int64(int8((n - low) >> 8))
		digits = append(digits, [3]int64{(n - low - middle<<8) >> 16, middle, low})
	}
	return digits, step
}

// digitProduct adds six of the nine products of each pair of digits, times both steps, to sum.
func digitProduct(sum float32, x, w []float32) float32 {
	a, step := digitsOf(x)
	b, scale := digitsOf(w)
	var sums [3]int64
	for k := range a {
		for i := range 3 {
			for j := range 3 - i {
				sums[i+j] += a[k][i] * b[k][j]
			}
		}
	}
	low := float64(float32(sums[1]<<8 + sums[2]))
	total := float32(float64(sums[0])*65536 + low) // both terms and their sum are exact in float64
	last := exact(total * (65536 * scale))
	v, _ := last.Add(last.Mul(last, exact(step)), exact(sum)).Float32()
	return v
}

// Compares the emulated products with their definition in exact integers, bit for bit, for inputs around 1 and for
// inputs that round to 0. A sum of 0 may have either sign, because big.Float has its own rules.
func TestEmulatedTilesAreExact(t *testing.T) {
	k, rng := emulatedAMX(t), rand.New(rand.NewPCG(15, 1))
	for _, sizes := range [][2]int{{-3, 3}, {-70, -40}, {-140, 20}} {
		for _, in := range []int{1, 63, 64, 90, 128, 129, 384} {
			const rows, out, span = 3, 35, 128
			x, w := wide(rng, rows*in, sizes[0], sizes[1]), wide(rng, out*in, sizes[0], sizes[1])
			l := Linear{X: Rows{Data: x, N: rows, Dim: in, Stride: in}, Weights: weightsOf(t, k, w, out, in),
				Y: make([]float32, rows*out), Stride: out, Last: 2}
			if err := multiply(k, &l); err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				for o := range out {
					var want float32
					for from := 0; from < in; from += span {
						to := min(from+span, in)
						want = digitProduct(want, x[i*in+from:i*in+to], w[o*in+from:o*in+to])
					}
					if got := l.Y[i*out+o]; got != want {
						t.Fatalf("sizes 2^%v, %d inputs: output %d of row %d is %b, not %b", sizes, in, o, i, got, want)
					}
				}
			}
		}
	}
}

// bfloat16s returns the values rounded to bfloat16, to nearest even.
func bfloat16s(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		bits := math.Float32bits(v)
		y[i] = math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
	}
	return y
}

func flushed(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

// tileProduct returns the result of TDPBF16PS for an element sum: the products of up to 32 bfloat16, in separate chains
// of the even and the odd elements, are added to it. Values below 2⁻¹²⁶ count as 0.
func tileProduct(sum float32, a, b []float32) float32 {
	rounded := func(x *big.Float) float32 {
		v, _ := x.Float32()
		return flushed(v)
	}
	var chains [2]float32
	for k := range a {
		p := new(big.Float).Mul(exact(flushed(a[k])), exact(flushed(b[k])))
		chains[k%2] = rounded(p.Add(p, exact(chains[k%2])))
	}
	both := exact(rounded(new(big.Float).Add(exact(chains[0]), exact(chains[1]))))
	return rounded(both.Add(both, exact(sum)))
}

// Compares the emulated bfloat16 products with the instruction's definition in exact arithmetic, bit for bit, for
// numbers around 1 and for numbers that underflow.
func TestEmulatedCodesAreExact(t *testing.T) {
	k, rng := emulatedAMX(t), rand.New(rand.NewPCG(15, 3))
	for _, sizes := range [][2]int{{-3, 3}, {-70, -40}, {-140, 20}} {
		for _, in := range []int{1, 31, 32, 90, 384, 400} {
			const rows, out, slice = 3, 35, 384
			x, w := wide(rng, rows*in, sizes[0], sizes[1]), wide(rng, out*in, sizes[0], sizes[1])
			packed := cputest.Must(PackCodes(k, nil, Rows{Data: w, N: out, Dim: in, Stride: in}))
			l := Linear{Codes: encoded(t, k, Rows{Data: x, N: rows, Dim: in, Stride: in}), Weights: packed,
				Y: make([]float32, rows*out), Stride: out, Last: packed.Panels()}
			if err := multiply(k, &l); err != nil {
				t.Fatal(err)
			}
			x, w = bfloat16s(x), bfloat16s(w)
			for i := range rows {
				for o := range out {
					depth := in
					if in > slice {
						depth = (in/2 + 31) / 32 * 32
					}
					var want, sum float32
					for from := 0; from < in; from += 32 {
						if from == depth {
							want, sum = sum, 0
						}
						to := min(from+32, in)
						sum = tileProduct(sum, x[i*in+from:i*in+to], w[o*in+from:o*in+to])
					}
					if want += sum; l.Y[i*out+o] != want {
						t.Fatalf("sizes 2^%v, %d inputs: output %d of row %d is %b, not %b", sizes, in, o, i,
							l.Y[i*out+o], want)
					}
				}
			}
		}
	}
}

// Codes of 8 bits give the same bits with AVX-512 as with AVX2.
func TestCodesOfAVX512AreThoseOfAVX2(t *testing.T) {
	var all [2]Kernels
	for i, isa := range []ISA{AVX512, AVX2} {
		var err error
		if all[i], err = Open(isa.String()); err != nil {
			t.Skipf("SKIP: %v", err)
		}
	}
	compareProducts(t, all[0], all[1], true, normal)
}

// On a machine with AMX, its instructions give the same bits as their emulation, for all inputs.
func TestTilesAreThoseOfTheEmulation(t *testing.T) {
	emulated := emulatedAMX(t)
	amx, err := Open(AMX.String())
	if err != nil {
		t.Skipf("SKIP: the instructions themselves are not tested: %v", err)
	}
	for _, draw := range []func(*rand.Rand, int, float64) []float32{normal,
		func(rng *rand.Rand, n int, _ float64) []float32 { return wide(rng, n, -70, -40) },
		func(rng *rand.Rand, n int, _ float64) []float32 { return wide(rng, n, -149, 60) }} {
		for _, coded := range []bool{false, true} {
			compareProducts(t, amx, emulated, coded, draw)
		}
	}
}

// compareProducts fails if two sets of kernels give different bits for the same product.
func compareProducts(t *testing.T, a, b Kernels, coded bool, draw func(*rand.Rand, int, float64) []float32) {
	t.Helper()
	rng := rand.New(rand.NewPCG(15, 2))
	for i, shape := range [][3]int{{1, 1, 1}, {2, 33, 7}, {15, 96, 16}, {16, 384, 48}, {17, 800, 33}, {32, 1536, 64},
		{45, 1600, 100}, {128, 64, 31}, {129, 300, 32}, {515, 200, 40}} {
		rows, in, out := shape[0], shape[1], shape[2]
		x := Rows{Data: draw(rng, rows*(in+5), 1), N: rows, Dim: in, Stride: in + 5}
		w := Rows{Data: draw(rng, out*in, .1), N: out, Dim: in, Stride: in}
		l := Linear{X: x, Stride: out, Activation: Activation(i % 5)}
		if i%3 > 0 {
			l.Bias, l.Residual = normal(rng, out, 1), normal(rng, rows*out, 1)
		}
		var results [2][]float32
		for at, k := range []Kernels{a, b} {
			p, pack := l, PackWeights
			if coded {
				p.X, p.Codes, pack = Rows{}, encoded(t, k, x), PackCodes
			}
			p.Weights, p.Y = cputest.Must(pack(k, nil, w)), make([]float32, rows*out)
			p.Last = p.Weights.Panels()
			if err := multiply(k, &p); err != nil {
				t.Fatal(err)
			}
			results[at] = p.Y
		}
		for at, v := range results[0] {
			other := results[1][at]
			if math.Float32bits(v) != math.Float32bits(other) && (v == v || other == other) {
				t.Fatalf("%v, codes %v: output %d is %b with %v and %b with %v", shape, coded, at, v, a, other, b)
			}
		}
	}
}
