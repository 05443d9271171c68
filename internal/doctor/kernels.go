package doctor

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// kernelsAgree scores random vectors of awkward lengths with every instruction set of this machine. The
// reference must give the same bits.
func kernelsAgree(ctx context.Context, _ Options) []Check {
	var checks []Check
	for _, isa := range cpu.Available() {
		name := "kernels " + isa.String()
		n, err := compare(ctx, isa.String())
		if err != nil {
			checks = append(checks,
				failed(name, err, "set isa (SLUICE_ISA) to another instruction set, and report this")...)
			continue
		}
		checks = append(checks,
			Check{Name: name, Status: OK, Detail: fmt.Sprintf("%d scores are bit-equal to the reference", n)})
	}
	return checks
}

func compare(ctx context.Context, isa string) (n int, err error) {
	e, err := engine.New(engine.Options{ISA: isa, Threads: 1})
	if err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(2, 0))
	for _, dim := range []int{1, 7, 8, 9, 31, 33, 384} {
		const rows = 9
		a, b := random(rng, rows, dim), random(rng, rows, dim)
		copy(b.Data, a.Data[:dim]) // one pair of equal vectors
		clear(b.Data[dim : 2*dim]) // and a zero vector
		for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
			hits, err := e.TopK(ctx, a, b, metric, rows, nil)
			if err != nil {
				return n, err
			}
			for i, list := range hits {
				for _, h := range list {
					want := ref.Score(metric, a.Data[i*dim:(i+1)*dim], b.Data[h.Row*dim:(h.Row+1)*dim])
					if h.Score != want {
						return n,
							fmt.Errorf("%s of two vectors of %d: %v, the reference has %v", metric, dim, h.Score, want)
					}
					n++
				}
			}
		}
	}
	return n, nil
}

func random(rng *rand.Rand, rows, dim int) engine.Vectors {
	v := engine.Vectors{Data: make([]float32, rows*dim), Rows: rows, Dim: dim}
	for i := range v.Data {
		v.Data[i] = float32(rng.NormFloat64())
	}
	return v
}
