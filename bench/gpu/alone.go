package gpu

import (
	"context"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// owned prepares contexts on the GPU, and assigns queries to them in turn.
func (r *Report) owned(ctx context.Context, contexts engine.Vectors, queries int) ([]int32, *engine.Set, error) {
	owner := make([]int32, queries)
	for i := range owner {
		owner[i] = int32(i % contexts.Rows)
	}
	set, err := r.gpu.Prepare(ctx, contexts, kernels.Cosine, engine.SetOptions{NoIndex: true})
	return owner, set, err
}

// alone runs a distribution on the GPU only, for numbers of pairs that take a CPU minutes or hours: in intervals, in
// formats of eight bits as well, or exact. Cold sends everything in each call; warm finds the contexts there. What is
// compared is that both agree.
func (r *Report) alone(ctx context.Context, interval bool, contexts, queries engine.Vectors) error {
	owner, set, err := r.owned(ctx, contexts, queries.Rows)
	if err != nil {
		return err
	}
	defer set.Close()
	has := func(t kernels.DType) bool { return r.Costs.GPU.Tiles[t.String()] > 0 }
	formats := []kernels.DType{kernels.F32}
	if has(kernels.BF16x3) {
		formats[0] = kernels.BF16x3
	}
	for _, t := range []kernels.DType{kernels.I8, kernels.FP8} {
		if interval && has(t) {
			formats = append(formats, t)
		}
	}
	for _, t := range formats {
		if err := r.aloneIn(ctx, t, interval, owner, set, contexts, queries); err != nil {
			return err
		}
	}
	return nil
}

// aloneIn is alone in one format.
func (r *Report) aloneIn(ctx context.Context, dtype kernels.DType, interval bool, owner []int32, set *engine.Set,
	contexts, queries engine.Vectors) error {
	row := Row{Workload: Pairs, Format: dtype.String(), Device: onGPU, Contexts: contexts.Rows, Queries: queries.Rows,
		Dim: contexts.Dim}
	if interval {
		row.Workload = Interval
	}
	run := func(c engine.Vectors) func() (any, error) {
		return func() (any, error) {
			return r.gpu.Distribution(ctx, engine.DistributionInput{Contexts: c, Queries: queries, Owner: owner,
				Metric: kernels.Cosine, Quantiles: []float64{.05, .25, .5, .75, .95}, DType: &dtype,
				Interval: interval})
		}
	}
	coldRow, warmRow := row, row
	width := int64(4*row.Dim + 8)
	coldRow.State, coldRow.Bytes = cold, int64(row.Contexts+row.Queries)*width
	warmRow.State, warmRow.Bytes = warm, int64(row.Queries)*width
	return r.turns(ctx, []side{{coldRow, run(contexts)}, {warmRow, run(set.Vectors())}}, func(first, other any) bool {
		a, b := first.(*engine.Distribution), other.(*engine.Distribution)
		return cmp.Equal(a.Positive, b.Positive)
	})
}
