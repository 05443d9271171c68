package scores_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/scores"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// TestPairsEqualReference compares every bit, for lists of any length, and checks that nothing is written beyond the
// list's end.
func TestPairsEqualReference(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(21, 2))
		for _, dim := range []int{1, 7, 8, 9, 15, 16, 17, 33, 384} {
			a := cputest.WithNorms(cputest.Guarded(rng, 11, dim, dim+rng.IntN(3)))
			b := cputest.WithNorms(cputest.Guarded(rng, 6, dim, dim+rng.IntN(3)))
			for _, m := range cputest.Metrics {
				for n := range 11 {
					rowsA, rowsB, out := make([]int32, n), make([]int32, n), make([]float64, n+1)
					for i := range n {
						rowsA[i], rowsB[i] = rng.Int32N(11), rng.Int32N(6)
					}
					out[n] = -7
					if err := Pairs(k, m, out, a, rowsA, b, rowsB); err != nil {
						t.Fatal(err)
					}
					for i := range n {
						if want := ref.Score(m, a.Row(int(rowsA[i])),
							b.Row(int(rowsB[i]))); math.Float64bits(out[i]) != math.Float64bits(want) {
							t.Fatalf("%s dim %d, pair %d of %d: %v, want %v", m, dim, i, n, out[i], want)
						}
					}
					if out[n] != -7 {
						t.Fatalf("%s dim %d: wrote behind the scores of %d pairs", m, dim, n)
					}
				}
			}
			factor, sum, want := make([]float64, 11), make([]int64, dim), make([]int64, dim)
			list := []int32{3, 0, 3, 10}
			for i := range factor {
				if factor[i] = 2*rng.Float64() - 1; a.Norms[i] > 0 {
					factor[i] /= a.Norms[i]
				}
			}
			if err := Sum(k, sum, a, factor, list); err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				for i, x := range a.Row(int(r)) {
					want[i] += int64(math.RoundToEven(float64(factor[r]*float64(x)) / SumUnit))
				}
			}
			for i := range sum {
				if sum[i] != want[i] {
					t.Fatalf("dim %d: sum[%d] = %v, want %v", dim, i, sum[i], want[i])
				}
			}
		}
	})
}

// TestEstimates checks float32 accuracy, and that nothing is written beyond the list's end.
func TestEstimates(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(23, 2))
		for _, dim := range []int{1, 7, 8, 31, 32, 33, 384} {
			a, b := cputest.RandomRows(rng, 7, dim), cputest.RandomRows(rng, 5, dim)
			rowsA, rowsB, out := []int32{6, 0, 3, 3, 1}, []int32{0, 4, 2, 1, 4}, make([]float32, 6)
			for _, m := range cputest.Metrics {
				out[5] = -7
				if err := Estimate(k, m, out, a, rowsA, b, rowsB); err != nil {
					t.Fatal(err)
				}
				for i := range rowsA {
					x, y := a.Row(int(rowsA[i])), b.Row(int(rowsB[i]))
					want := ref.Dot(x, y)
					if m == kernels.L2 {
						want = ref.Distance(x, y) * ref.Distance(x, y)
					}
					if bound := 1e-6 * float64(dim) * (1 + math.Abs(want)); math.Abs(float64(out[i])-want) > bound {
						t.Errorf("%s dim %d, pair %d: %v, want %v within %v", m, dim, i, out[i], want, bound)
					}
				}
				if out[5] != -7 {
					t.Errorf("%s dim %d: wrote behind the end", m, dim)
				}
			}
		}
		r := cputest.RandomRows(rng, 2, 4)
		for _, rows := range []int32{-1, 2} {
			if err := Estimate(k, kernels.IP, make([]float32, 1), r, []int32{rows}, r,
				[]int32{0}); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("row %d of 2: %v", rows, err)
			}
		}
	})
}

func TestPairsRefuse(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(22, 2))
		a, b := cputest.WithNorms(cputest.Guarded(rng, 3, 4, 4)), cputest.WithNorms(cputest.Guarded(rng, 2, 4, 4))
		bare, other, out := b, cputest.WithNorms(cputest.Guarded(rng, 2, 5, 5)), make([]float64, 2)
		bare.Norms = nil
		for name, c := range map[string]struct{ err, want error }{
			"row of a":     {Pairs(k, kernels.IP, out, a, []int32{0, 3}, b, []int32{0, 1}), kernels.ErrShape},
			"row of b":     {Pairs(k, kernels.IP, out, a, []int32{0, 1}, b, []int32{0, -1}), kernels.ErrShape},
			"lists":        {Pairs(k, kernels.IP, out, a, []int32{0, 1}, b, []int32{0}), kernels.ErrShape},
			"dimensions":   {Pairs(k, kernels.IP, out, a, []int32{0}, other, []int32{0}), kernels.ErrShape},
			"room":         {Pairs(k, kernels.IP, out[:1], a, []int32{0, 1}, b, []int32{0, 1}), kernels.ErrShape},
			"norms":        {Pairs(k, kernels.Cosine, out, a, []int32{0}, bare, []int32{0}), kernels.ErrShape},
			"metric":       {Pairs(k, 7, out, a, nil, b, nil), kernels.ErrMetric},
			"sum's row":    {Sum(k, make([]int64, 4), a, make([]float64, 3), []int32{3}), kernels.ErrShape},
			"sum's room":   {Sum(k, make([]int64, 3), a, make([]float64, 3), nil), kernels.ErrShape},
			"sum's factor": {Sum(k, make([]int64, 4), a, make([]float64, 2), nil), kernels.ErrShape},
			"sum's length": {Sum(k, make([]int64, 4), a, make([]float64, 3), make([]int32, SumRows+1)),
				kernels.ErrShape},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", name, c.err, c.want)
			}
		}
	})
}

func BenchmarkPairs(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	a, c := Rows{N: 1700, Dim: 384, Stride: 384}, Rows{N: 5100, Dim: 384, Stride: 384}
	for _, r := range []*Rows{&a, &c} {
		for range r.N * r.Dim {
			r.Data = append(r.Data, float32(rng.NormFloat64()))
		}
		*r = cputest.WithNorms(*r)
	}
	const n = 1 << 14
	rowsA, rowsB, out := make([]int32, n), make([]int32, n), make([]float64, n)
	for i := range n {
		rowsA[i], rowsB[i] = rng.Int32N(1700), rng.Int32N(5100)
	}
	for _, isa := range Available() {
		if isa == Go {
			continue
		}
		b.Run(isa.String(), func(b *testing.B) {
			for b.Loop() {
				if err := Pairs(cputest.KernelsOf(isa), kernels.Cosine, out, a, rowsA, c, rowsB); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/n, "ns/pair")
		})
	}
}

// TestPairsOfOneRow: without a list, all pairs use a's only row.
func TestPairsOfOneRow(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(43, 1))
		for _, dim := range []int{1, 8, 9, 100} {
			q := cputest.WithNorms(cputest.Guarded(rng, 1, dim, dim))
			c := cputest.WithNorms(cputest.Guarded(rng, 20, dim, dim+3))
			rows, out := []int32{19, 3, 3, 0}, []float64{0, 0, 0, 0, -7}
			for _, m := range cputest.Metrics {
				if err := Pairs(k, m, out, q, nil, c, rows); err != nil {
					t.Fatal(err)
				}
				for i, row := range rows {
					want := make([]float64, 1)
					if err := Block(k, m, want, 1, q, c.Slice(int(row), int(row)+1)); err != nil || out[i] != want[0] {
						t.Errorf("%s row %d: %v, want %v, %v", m, row, out[i], want[0], err)
					}
				}
			}
			if out[4] != -7 {
				t.Error("wrote behind the scores")
			}
			if err := Pairs(k, kernels.IP, out, c, nil, c, rows); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("no list for many rows: %v", err)
			}
			for _, bad := range []int32{-1, 20} {
				if err := Pairs(k, kernels.IP, out, q, nil, c, []int32{bad}); !errors.Is(err, kernels.ErrShape) {
					t.Errorf("row %d: %v", bad, err)
				}
			}
		}
	})
}
