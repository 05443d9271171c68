package engine

import (
	"context"
	"math/rand/v2"
	"path/filepath"
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
			for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16x3, kernels.I16} {
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

// BenchmarkPrepared compares plain vectors with a prepared set: making and loading it, and a distribution of few
// queries against many contexts, where checking and packing the contexts is a large part.
func BenchmarkPrepared(b *testing.B) {
	rng, ctx := rand.New(rand.NewPCG(1, 3)), context.Background()
	c, q := plain(rng, 100_000, 384), plain(rng, 200, 384)
	e, err := open(Options{})
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "set")
	set, err := e.Prepare(ctx, c, kernels.Cosine, SetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer set.Close()
	if err := set.Save(ctx, path); err != nil {
		b.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"prepare": func() error { _, err := e.Prepare(ctx, c, kernels.Cosine, SetOptions{}); return err },
		"no index": func() error {
			_, err := e.Prepare(ctx, c, kernels.Cosine, SetOptions{NoIndex: true})
			return err
		},
		"load": func() error { _, err := e.Load(ctx, path, c, SetOptions{}); return err },
		"plain/200": func() error {
			_,
				err := e.Distribution(ctx, setInput(kernels.Cosine, NegativesAll, q, c))
			return err
		},
		"prepared/200": func() error {
			_, err := e.Distribution(ctx, setInput(kernels.Cosine, NegativesAll, q, set.Vectors()))
			return err
		},
		"plain/top10":    func() error { _, err := e.TopK(ctx, q, c, kernels.Cosine, 10, nil); return err },
		"prepared/top10": func() error { _, err := e.TopK(ctx, q, set.Vectors(), kernels.Cosine, 10, nil); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
