package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// mixture is n contexts around 64 centres and three pseudo-queries of each, with cosines of .5 to .9 to it.
func mixture(n, dim int) DistributionInput {
	rng := rand.New(rand.NewPCG(7, uint64(dim)))
	unit := func(v []float32, length float64) {
		norm := 0.
		for k := range v {
			v[k] = float32(rng.NormFloat64())
			norm += float64(v[k]) * float64(v[k])
		}
		for k := range v {
			v[k] *= float32(length / math.Sqrt(norm))
		}
	}
	around := func(to, centre []float32, share float64) {
		unit(to, math.Sqrt(1-share*share))
		for k := range to {
			to[k] += float32(share) * centre[k]
		}
	}
	in := DistributionInput{Quantiles: table, Owner: make([]int32, 3*n), Contexts: Vectors{Data: make([]float32, n*dim), Rows: n, Dim: dim},
		Queries: Vectors{Data: make([]float32, 3*n*dim), Rows: 3 * n, Dim: dim}}
	centres := make([]float32, 64*dim)
	for z := range 64 {
		unit(centres[z*dim:(z+1)*dim], 1)
	}
	for i := range n {
		c := in.Contexts.Data[i*dim : (i+1)*dim]
		around(c, centres[rng.IntN(64)*dim:][:dim], .6)
		for j := 3 * i; j < 3*i+3; j++ {
			around(in.Queries.Data[j*dim:(j+1)*dim], c, .5+.4*rng.Float64())
			in.Owner[j] = int32(i)
		}
	}
	return in
}

// BenchmarkDistribution has the sizes of the W1 and of a twentieth of its W2.
func BenchmarkDistribution(b *testing.B) {
	for name, n := range map[string]int{"W1": 1700, "W2by20": 4472} {
		in := mixture(n, 384)
		pairs := float64(n) * float64(3*n-3)
		for _, isa := range cpu.Available() {
			e, err := New(Options{ISA: isa.String()})
			if err != nil {
				b.Fatal(err)
			}
			for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16x3} {
				if isa == cpu.Go || isa == cpu.Scalar || !e.kernels.Has(dtype) || isa == cpu.AMX && dtype == kernels.F32 {
					continue // seconds, or the same kernels as another
				}
				in.DType = &dtype
				b.Run(name+"/"+isa.String()+"/"+dtype.String(), func(b *testing.B) {
					for b.Loop() {
						if _, err := e.Distribution(context.Background(), in); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(pairs*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpairs/s")
				})
			}
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	c, q := plain(rng, 100_000, 384), plain(rng, 64, 384)
	e, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("max", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := e.Max(context.Background(), q.Data[:384], c, kernels.Cosine, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("top10x64", func(b *testing.B) {
		for b.Loop() {
			if _, err := e.TopK(context.Background(), q, c, kernels.Cosine, 10, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
