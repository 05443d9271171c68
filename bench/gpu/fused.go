package gpu

import (
	"context"
	"math"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// cublasLt is the name of cuBLASLt in rows.
const cublasLt = "cublaslt"

// fused compares a bounded distribution in bfloat16, which stores no product, with cuBLASLt's product of the same
// vectors, which stores all of them. The results checked are the first products, and the distribution against itself.
func (r *Report) fused(ctx context.Context, contexts, queries engine.Vectors) error {
	if c := r.device.Info().Capability; c[0] < 8 {
		r.note("fused is left out: compute capability %d.%d has no bfloat16 products", c[0], c[1])
		return nil
	}
	owner, set, err := r.owned(ctx, contexts, queries.Rows)
	if err != nil {
		return err
	}
	defer set.Close()
	format := kernels.BF16
	row := Row{Workload: Fused, Format: format.String(), Device: onGPU, State: warm, Contexts: contexts.Rows,
		Queries: queries.Rows, Dim: contexts.Dim, Bytes: int64(queries.Rows) * int64(4*contexts.Dim+8)}
	sides := []side{{row, func() (any, error) {
		return r.gpu.Distribution(ctx, engine.DistributionInput{Contexts: set.Vectors(), Queries: queries, Owner: owner,
			Metric: kernels.Cosine, Quantiles: []float64{.05, .25, .5, .75, .95}, DType: &format, Interval: true})
	}}}
	if r.gemm != nil {
		p, err := r.gemm.prepare(r.device, contexts, queries)
		if err != nil {
			return err
		}
		defer p.close()
		row.Impl, row.Bytes = cublasLt, 0
		sides = append(sides, side{row, func() (any, error) { return p.run() }})
	}
	return r.turns(ctx, sides, func(first, other any) bool {
		switch got := other.(type) {
		case multiplied:
			return got.near(contexts, queries)
		case *engine.Distribution:
			return cmp.Equal(first.(*engine.Distribution).Positive, got.Positive)
		}
		return false
	})
}

// multiplied holds the times of a run of cuBLASLt on the device, and the products of the first context.
type multiplied struct {
	took  float64
	first []float32
}

func (m multiplied) seconds() float64 { return m.took }

// near reports whether the products agree with the vectors to within the rounding of factors and results in bfloat16.
func (m multiplied) near(contexts, queries engine.Vectors) bool {
	a := contexts.Data[:contexts.Dim]
	for i, got := range m.first {
		b := queries.Data[i*queries.Dim : (i+1)*queries.Dim]
		var sum, aa, bb float64
		for j := range a {
			sum += float64(a[j]) * float64(b[j])
			aa += float64(a[j]) * float64(a[j])
			bb += float64(b[j]) * float64(b[j])
		}
		if !(math.Abs(float64(got)-sum) <= .02*math.Sqrt(aa*bb)) {
			return false
		}
	}
	return len(m.first) > 0
}

// toBF16 rounds to nearest, ties to even.
func toBF16(x float32) uint16 {
	u := math.Float32bits(x)
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

func fromBF16(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }
