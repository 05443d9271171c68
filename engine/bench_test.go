package engine

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// BenchmarkDistribution has the sizes of the W1 and of a twentieth of its W2.
func BenchmarkDistribution(b *testing.B) {
	for name, n := range map[string]int{"W1": 1700, "W2by20": 4472} {
		in := mixture(n, 384)
		pairs := float64(n) * float64(3*n-3)
		for _, isa := range cpu.Available() {
			e, err := open(Options{ISA: isa.String()})
			if err != nil {
				b.Fatal(err)
			}
			for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16x3} {
				if isa == cpu.Go || isa == cpu.Scalar || !e.r.Has(dtype) || isa == cpu.AMX && dtype == kernels.F32 {
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
	e, err := open(Options{})
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
