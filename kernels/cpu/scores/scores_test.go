package scores_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/scores"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// TestScoresEqualReference compares every bit for every metric × instruction set × unusual shape, and checks that
// nothing is written outside the output.
func TestScoresEqualReference(t *testing.T) {
	dims := []int{1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 65, 384}
	counts := [][2]int{{0, 0}, {0, 3}, {3, 0}, {1, 1}, {1, 9}, {9, 1}, {4, 4}, {5, 6}, {8, 3}, {11, 13}}
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, dim := range dims {
			for _, count := range counts {
				a := cputest.WithNorms(cputest.Guarded(rng, count[0], dim, dim+rng.IntN(4)))
				b := cputest.WithNorms(cputest.Guarded(rng, count[1], dim, dim+rng.IntN(4)))
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
	for _, m := range cputest.Metrics {
		out := make([]float64, (a.N+2)*stride)
		for i := range out {
			out[i] = guard
		}
		if err := Block(k, m, out[stride:], stride, a, b); err != nil {
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
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, dim := range []int{1, 7, 8, 9, 33, 100} {
			r := cputest.Guarded(rng, 6, dim, dim+2)
			out := make([]float64, 8)
			out[6] = -1
			if err := Norms(k, out, r); err != nil {
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
			if row, err := NonFinite(k, r); row != -1 || err != nil {
				t.Errorf("dim %d: finite rows between canaries: row %d, %v", dim, row, err)
			}
			for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				bad, col := rng.IntN(r.N), rng.IntN(dim)
				old := r.Row(bad)[col]
				r.Row(bad)[col] = float32(x)
				if row, err := NonFinite(k, r); row != bad || err != nil {
					t.Errorf("dim %d: %v in row %d, found in %d, %v", dim, x, bad, row, err)
				}
				r.Row(bad)[col] = old
			}
		}
	})
}

// TestContractionIsOff includes pairs whose squares of differences, fused with the sum, have different bits.
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
	a, b = cputest.WithNorms(a), cputest.WithNorms(b)
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) { checkScores(t, k, a, b) })
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
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		v := Rows{Data: make([]float32, 12), N: 3, Dim: 4, Stride: 4}
		out := make([]float64, 9)
		for name, err := range map[string]error{
			"short data":   Block(k, kernels.IP, out, 3, v, Rows{Data: v.Data[:11], N: 3, Dim: 4, Stride: 4}),
			"stride < dim": Block(k, kernels.IP, out, 3, Rows{Data: v.Data, N: 3, Dim: 4, Stride: 3}, v),
			"dims differ":  Block(k, kernels.IP, out, 3, v, Rows{Data: v.Data, N: 3, Dim: 3, Stride: 4}),
			"short out":    Block(k, kernels.IP, out[:8], 3, v, v),
			"out stride":   Block(k, kernels.IP, out, 2, v, v),
			"no norms":     Block(k, kernels.Cosine, out, 3, v, v),
			"norms out":    Norms(k, out[:2], v),
			"norms data":   Norms(k, out, Rows{Data: v.Data[:3], N: 1, Dim: 4, Stride: 4}),
		} {
			if !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := Block(k, 7, out, 3, v, v); !errors.Is(err, kernels.ErrMetric) {
			t.Errorf("metric 7: %v", err)
		}
		if _, err := NonFinite(k, Rows{N: 1, Dim: 4, Stride: 4}); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("finite without data: %v", err)
		}
	})
}

// TestKernelsAllocateNothing checks that the Go side of a call does not allocate on the heap.
func TestKernelsAllocateNothing(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(7, 8))
		a, out := cputest.WithNorms(cputest.Guarded(rng, 5, 40, 40)), make([]float64, 25)
		if n := testing.AllocsPerRun(20, func() { _ = Block(k, kernels.Cosine, out, 5, a, a) }); n != 0 {
			t.Errorf("Scores allocates %v times", n)
		}
		if n := testing.AllocsPerRun(20, func() { _, _ = NonFinite(k, a) }); n != 0 {
			t.Errorf("NonFinite allocates %v times", n)
		}
	})
}

func TestName(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		isa := k.ISA()
		switch isa {
		case AVXVNNI:
			isa = AVX2
		case AVX512VNNI, AMX:
			isa = AVX512
		case DotProd, I8MM, BF16:
			isa = NEON
		}
		if !strings.HasSuffix(Name(k), "_f32_"+isa.String()) && k.ISA() != Go {
			t.Errorf("name %q", Name(k))
		}
	})
}
