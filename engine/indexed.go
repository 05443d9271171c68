package engine

import (
	"context"

	"github.com/sluice-rag/sluice/kernels"
)

// Indexed is the engine with an index: over the very vectors that x was made from, and in its metric,
// TopK, Max and AnyAbove are answered by x; all else by the engine itself. Results are the same, but for
// AnyAbove's witness, which is any row above. Nothing may be appended to x or deleted from it any more.
func (e *Engine) Indexed(x *Index) Interface { return &indexed{e, x} }

type indexed struct {
	*Engine
	index *Index
}

func (i *indexed) TopK(ctx context.Context, q, c Vectors, metric kernels.Metric, k int, bias []Biases) ([][]Hit, error) {
	if i.index.x.Over(c, metric) {
		return i.index.TopK(ctx, q, k, bias)
	}
	return i.Engine.TopK(ctx, q, c, metric, k, bias)
}

func (i *indexed) Max(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases) (best Hit, ok bool, err error) {
	if i.index.x.Over(c, metric) {
		return i.index.Max(ctx, q, bias)
	}
	return i.Engine.Max(ctx, q, c, metric, bias)
}

func (i *indexed) AnyAbove(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases, tau float64) (witness Hit, above bool, err error) {
	if i.index.x.Over(c, metric) {
		return i.index.AnyAbove(ctx, q, bias, tau)
	}
	return i.Engine.AnyAbove(ctx, q, c, metric, bias, tau)
}
