package cpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

var metrics = []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}

func forEachISA(t *testing.T, test func(t *testing.T, k Kernels)) {
	for _, isa := range []ISA{Scalar, AVX2, AVX512, AVX512VNNI, AMX, Go} {
		t.Run(isa.String(), func(t *testing.T) {
			k, err := Open(isa.String())
			if errors.Is(err, kernels.ErrISA) {
				t.Skipf("SKIP: %v", err)
			}
			if err != nil || k.ISA() != isa {
				t.Fatalf("Open: %v, %v", k.ISA(), err)
			}
			test(t, k)
		})
	}
}

// canary surrounds the vectors, fills the gaps between them, and must not show in any result.
var canary = math.Float32frombits(0x7fc0beef)

// guarded makes rows that begin at an odd offset, between NaN canaries, and end where the slice ends.
func guarded(rng *rand.Rand, n, dim, stride int) Rows {
	const before = 5
	size := 0
	if n > 0 {
		size = (n-1)*stride + dim
	}
	data := make([]float32, before+size+16)
	for i := range data {
		data[i] = canary
	}
	r := Rows{Data: data[before : before+size : before+size], N: n, Dim: dim, Stride: stride}
	for i := range n {
		kind := rng.IntN(7)
		for k := range r.Row(i) {
			r.Row(i)[k] = nasty(rng, kind)
		}
	}
	return r
}

func nasty(rng *rand.Rand, kind int) float32 {
	x := float32(rng.NormFloat64())
	switch kind {
	case 0:
		return 0
	case 1:
		return []float32{math.MaxFloat32, -math.MaxFloat32}[rng.IntN(2)]
	case 2:
		return x * 4 * math.SmallestNonzeroFloat32
	case 3:
		return x * float32(math.Pow(2, float64(rng.IntN(240)-120)))
	}
	return x
}

func withNorms(r Rows) Rows {
	for i := range r.N {
		r.Norms = append(r.Norms, ref.Norm(r.Row(i)))
	}
	return r
}

// TestScoresEqualReference: every metric × instruction set × nasty shape, every bit, and not one
// value beside the output.
func TestScoresEqualReference(t *testing.T) {
	dims := []int{1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 65, 384}
	counts := [][2]int{{0, 0}, {0, 3}, {3, 0}, {1, 1}, {1, 9}, {9, 1}, {4, 4}, {5, 6}, {8, 3}, {11, 13}}
	forEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, dim := range dims {
			for _, count := range counts {
				a := withNorms(guarded(rng, count[0], dim, dim+rng.IntN(4)))
				b := withNorms(guarded(rng, count[1], dim, dim+rng.IntN(4)))
				checkScores(t, k, a, b)
				checkScores(t, k, a, a)
			}
		}
	})
}

func checkScores(t *testing.T, k Kernels, a, b Rows) {
	t.Helper()
	const guard = -12345.5
	stride := b.N + 3
	for _, m := range metrics {
		out := make([]float64, (a.N+2)*stride)
		for i := range out {
			out[i] = guard
		}
		if err := k.Scores(m, out[stride:], stride, a, b); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			want, row, col := float64(guard), i/stride-1, i%stride
			if row >= 0 && row < a.N && col < b.N {
				want = ref.Score(m, a.Row(row), b.Row(col))
			}
			if math.Float64bits(out[i]) != math.Float64bits(want) {
				t.Fatalf("%s dim %d, %d×%d: out[%d][%d] = %v, want %v", m, a.Dim, a.N, b.N, row, col, out[i], want)
			}
		}
	}
}

func TestNormsAndFinite(t *testing.T) {
	forEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, dim := range []int{1, 7, 8, 9, 33, 100} {
			r := guarded(rng, 6, dim, dim+2)
			out := make([]float64, 8)
			out[6] = -1
			if err := k.Norms(out, r); err != nil {
				t.Fatal(err)
			}
			for i := range r.N {
				if want := ref.Norm(r.Row(i)); out[i] != want {
					t.Errorf("dim %d: norm %d = %v, want %v", dim, i, out[i], want)
				}
			}
			if out[6] != -1 {
				t.Error("wrote behind the norms")
			}
			if row, err := k.NonFinite(r); row != -1 || err != nil {
				t.Errorf("dim %d: finite rows between canaries: row %d, %v", dim, row, err)
			}
			for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				bad, col := rng.IntN(r.N), rng.IntN(dim)
				old := r.Row(bad)[col]
				r.Row(bad)[col] = float32(x)
				if row, err := k.NonFinite(r); row != bad || err != nil {
					t.Errorf("dim %d: %v in row %d, found in %d, %v", dim, x, bad, row, err)
				}
				r.Row(bad)[col] = old
			}
		}
	})
}

// TestContractionIsOff: among these pairs are some whose squares of differences, fused with the sum,
// give other bits.
func TestContractionIsOff(t *testing.T) {
	const n, dim = 50, 64
	rng := rand.New(rand.NewPCG(5, 6))
	a := Rows{Data: make([]float32, n*dim), N: n, Dim: dim, Stride: dim}
	b := Rows{Data: make([]float32, n*dim), N: n, Dim: dim, Stride: dim}
	for i := range a.Data {
		a.Data[i], b.Data[i] = rng.Float32(), rng.Float32()*1e-9
	}
	telling := 0
	for i := range n {
		if fusedDistance(a.Row(i), b.Row(i)) != ref.Distance(a.Row(i), b.Row(i)) {
			telling++
		}
	}
	if telling == 0 {
		t.Fatal("these vectors cannot tell the difference")
	}
	forEachISA(t, func(t *testing.T, k Kernels) { checkScores(t, k, withNorms(a), withNorms(b)) })
}

func fusedDistance(a, b []float32) float64 {
	var lane [8]float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		lane[i%8] = math.FMA(d, d, lane[i%8])
	}
	return math.Sqrt(((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7])))
}

func TestBadArguments(t *testing.T) {
	forEachISA(t, func(t *testing.T, k Kernels) {
		v := Rows{Data: make([]float32, 12), N: 3, Dim: 4, Stride: 4}
		out := make([]float64, 9)
		for name, err := range map[string]error{
			"short data":   k.Scores(kernels.IP, out, 3, v, Rows{Data: v.Data[:11], N: 3, Dim: 4, Stride: 4}),
			"stride < dim": k.Scores(kernels.IP, out, 3, Rows{Data: v.Data, N: 3, Dim: 4, Stride: 3}, v),
			"dims differ":  k.Scores(kernels.IP, out, 3, v, Rows{Data: v.Data, N: 3, Dim: 3, Stride: 4}),
			"short out":    k.Scores(kernels.IP, out[:8], 3, v, v),
			"out stride":   k.Scores(kernels.IP, out, 2, v, v),
			"no norms":     k.Scores(kernels.Cosine, out, 3, v, v),
			"norms out":    k.Norms(out[:2], v),
			"norms data":   k.Norms(out, Rows{Data: v.Data[:3], N: 1, Dim: 4, Stride: 4}),
		} {
			if !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := k.Scores(7, out, 3, v, v); !errors.Is(err, kernels.ErrMetric) {
			t.Errorf("metric 7: %v", err)
		}
		if _, err := k.NonFinite(Rows{N: 1, Dim: 4, Stride: 4}); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("finite without data: %v", err)
		}
	})
}

func TestOpen(t *testing.T) {
	best, err := Open("")
	if err != nil || best.ISA() != Available()[0] {
		t.Fatalf("best: %v, %v", best.ISA(), err)
	}
	if _, err := Open("sse9"); !errors.Is(err, kernels.ErrISA) || !strings.Contains(err.Error(), Available()[0].String()) {
		t.Errorf("an unknown instruction set: %v", err)
	}
	for _, isa := range []ISA{Scalar, AVX2, AVX512, AVX512VNNI, AMX, Go} {
		k, err := Open(isa.String())
		if has := fmt.Sprint(Available()); (err == nil) != strings.Contains(has, isa.String()) {
			t.Errorf("%s of %s: %v", isa, has, err)
		}
		if err == nil && !strings.HasSuffix(k.Name(), "_f32_"+min(isa, AVX512).String()) && isa != Go {
			t.Errorf("name %q", k.Name())
		}
	}
}

// TestKernelsAllocateNothing: the Go side of a call stays off the heap as well.
func TestKernelsAllocateNothing(t *testing.T) {
	forEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(7, 8))
		a, out := withNorms(guarded(rng, 5, 40, 40)), make([]float64, 25)
		if n := testing.AllocsPerRun(20, func() { _ = k.Scores(kernels.Cosine, out, 5, a, a) }); n != 0 {
			t.Errorf("Scores allocates %v times", n)
		}
		if n := testing.AllocsPerRun(20, func() { _, _ = k.NonFinite(a) }); n != 0 {
			t.Errorf("NonFinite allocates %v times", n)
		}
	})
}
