package engine

import (
	"context"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestBiasedErrors: bfloat16 rounds one half of the contexts down and the other up by almost all of the bound, so that
// all of the one are below the other by tile values, and above by canonical ones. Windows of the first recheck hold
// one half only.
func TestBiasedErrors(t *testing.T) {
	const n, step = 40, 0x1p-8 // of bfloat16 from 1/2 on
	in := DistributionInput{Quantiles: []float64{.25}, Metric: kernels.IP}
	for i := range n {
		noise := float32(i) * 1e-6 * step
		x := []float32{.625 + .49*step + noise, .25 + 8*step}
		if i%2 == 0 {
			x = []float32{.625 + .51*step + noise, .25}
		}
		in.Contexts.Data = append(in.Contexts.Data, x...)
		in.Queries.Data = append(in.Queries.Data, 1, 0x1p-6)
		in.Owner = append(in.Owner, int32(i))
	}
	in.Contexts.Rows, in.Contexts.Dim, in.Contexts.Stride = n, 2, 2
	in.Queries.Rows, in.Queries.Dim, in.Queries.Stride = n, 2, 2
	want, neg := refDistribution(in)
	for name, e := range boundedEngines(t) {
		in.DType = &e.dtype
		got, err := e.Distribution(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		bounds{}.agree(t, name, in, want, got, neg)
	}
}
