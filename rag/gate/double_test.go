package gate

import (
	"context"
	"sort"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// naive is an engine in forty lines: the definition of every operation, one pair after the other.
type naive struct{}

func row(v engine.Vectors, i int) []float32 {
	stride := max(v.Stride, v.Dim)
	return v.Data[i*stride : i*stride+v.Dim]
}

func (naive) Matrix(_ context.Context, out []float32, a, b engine.Vectors, m kernels.Metric) error {
	for i := range a.Rows {
		for j := range b.Rows {
			out[i*b.Rows+j] = float32(ref.Score(m, row(a, i), row(b, j)))
		}
	}
	return nil
}

func (naive) TopK(_ context.Context, q, c engine.Vectors, m kernels.Metric, k int, _ [][]engine.Bias) ([][]engine.Hit, error) {
	out := make([][]engine.Hit, q.Rows)
	for i := range out {
		for j := range c.Rows {
			out[i] = append(out[i], engine.Hit{Row: j, Score: ref.Score(m, row(q, i), row(c, j))})
		}
		sort.SliceStable(out[i], func(a, b int) bool { return m.Better(out[i][a].Score, out[i][b].Score) })
		out[i] = out[i][:min(k, len(out[i]))]
	}
	return out, nil
}

func (n naive) Max(ctx context.Context, q []float32, c engine.Vectors, m kernels.Metric, _ []engine.Bias) (engine.Hit, bool, error) {
	hits, err := n.TopK(ctx, engine.Vectors{Data: q, Rows: 1, Dim: len(q)}, c, m, 1, nil)
	if err != nil || len(hits[0]) == 0 {
		return engine.Hit{}, false, err
	}
	return hits[0][0], true, nil
}

func (n naive) AnyAbove(ctx context.Context, q []float32, c engine.Vectors, m kernels.Metric, b []engine.Bias, tau float64) (engine.Hit, bool, error) {
	best, ok, err := n.Max(ctx, q, c, m, b)
	return best, ok && m.Better(best.Score, tau), err
}

func (naive) Distribution(ctx context.Context, in engine.DistributionInput) (*engine.Distribution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &engine.Distribution{}
	var negative []float64
	for j := range in.Queries.Rows {
		best, other := in.Metric.Worst(), in.Metric.Worst()
		own := int(in.Owner[j])
		for i := range in.Contexts.Rows {
			s := ref.Score(in.Metric, row(in.Queries, j), row(in.Contexts, i))
			foreign := in.Group == nil && i != own || in.Group != nil && in.Group[i] != in.Group[own]
			if in.Metric.Better(s, best) {
				best = s
			}
			if foreign && in.Metric.Better(s, other) {
				other = s
			}
			if i == own {
				d.Positive = append(d.Positive, s)
			} else if in.Negatives.Kind == engine.NegativesAll || foreign {
				negative = append(negative, s)
			}
		}
		d.Best, d.BestOther = append(d.Best, best), append(d.BestOther, other)
	}
	d.PositiveSummary, d.NegativeSummary, d.Max = summary(d.Positive, in.Quantiles), summary(negative, in.Quantiles), summary(d.Best, in.Quantiles)
	if len(negative) > 0 {
		d.Separation = auroc(in.Metric, d.Positive, negative)
		d.NegativeHistogram = make([]int64, in.Bins)
		lo, hi := d.NegativeSummary.Min, d.NegativeSummary.Max
		for _, s := range negative {
			d.NegativeHistogram[max(min(int((s-lo)/(hi-lo+1e-300)*float64(in.Bins)), in.Bins-1), 0)]++
		}
	}
	return d, nil
}

func summary(v []float64, quantiles []float64) engine.Summary {
	if len(v) == 0 {
		return engine.Summary{Quantiles: make([]float64, len(quantiles))}
	}
	s := sorted(v)
	out := engine.Summary{N: int64(len(s)), Min: s[0], Max: s[len(s)-1], Mean: mean(v)}
	for _, p := range quantiles {
		out.Quantiles = append(out.Quantiles, Policy{p: p}.value(kernels.Cosine, s))
	}
	return out
}
