package engine

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// squadSized is a distribution of the size of ../shared/data/squad16: 1,229,370 negatives.
func squadSized() DistributionInput {
	rng := rand.New(rand.NewPCG(1, 2))
	in := DistributionInput{Contexts: plain(rng, 646, 384), Queries: plain(rng, 1906, 384), Quantiles: table, Bins: 100}
	for q := range in.Queries.Rows {
		in.Owner = append(in.Owner, int32(q%646))
	}
	for c := range in.Contexts.Rows {
		in.Group = append(in.Group, int32(c/41))
	}
	return in
}

func BenchmarkDistribution(b *testing.B) {
	in := squadSized()
	for _, isa := range cpu.Available() {
		if isa == cpu.Go {
			continue // seconds
		}
		b.Run(isa.String(), func(b *testing.B) {
			e, err := New(Options{ISA: isa.String()})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := e.Distribution(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(646*1905*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpairs/s")
		})
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
