package statistics

import (
	"context"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// summary summarises one score per query, with that query's context: ref.Summarise in pieces, so that ctx is checked
// between them.
func (j *job) summary(ctx context.Context, scores []float64, contexts []int32) (distribution.Summary, error) {
	s := j.noSummary()
	if len(scores) == 0 {
		return s, ctx.Err()
	}
	x0, s1, s2 := scores[0], 0., 0.
	low, high := noPair, noPair
	err := workers.Over(ctx, len(scores), func(from, to int) {
		for q := from; q < to; q++ {
			d := scores[q] - x0
			s1 += d
			s2 += float64(d * d)
			p := ref.Pair{Query: int32(q), Context: contexts[q], Score: scores[q]}
			if q == 0 || p.Score < low.Score {
				low = p
			}
			if q == 0 || p.Score > high.Score {
				high = p
			}
		}
	})
	if err != nil {
		return s, err
	}
	sorted := slices.Clone(scores) // as far as quantiles are read
	var ranks []int
	for _, r := range j.order(int64(len(scores))) {
		ranks = append(ranks, int(r))
	}
	if err := selectRanks(ctx, sorted, ranks); err != nil {
		return s, err
	}
	s.N = int64(len(scores))
	s.Mean, s.Std = ref.Moments(s.N, x0, s1, s2)
	for i, p := range j.in.Quantiles {
		s.Quantiles[i] = ref.Quantile7(sorted, p)
	}
	setExtremes(&s, low, high)
	return s, nil
}

// noSummary returns the summary of an empty distribution, with room for the quantiles.
func (j *job) noSummary() distribution.Summary {
	s := distribution.Summary{Quantiles: make([]float64, len(j.in.Quantiles))}
	setExtremes(&s, noPair, noPair)
	if j.in.Interval {
		s.Low, s.High = s.Quantiles, s.Quantiles
	}
	return s
}

func setExtremes(s *distribution.Summary, low, high ref.Pair) {
	s.Min, s.MinQuery, s.MinContext = low.Score, low.Query, low.Context
	s.Max, s.MaxQuery, s.MaxContext = high.Score, high.Query, high.Context
}

// before orders pairs with equal scores.
func before(a, b ref.Pair) bool {
	if a.Query != b.Query {
		return a.Query < b.Query
	}
	return a.Context < b.Context
}

// lower keeps the lowest pair and higher the highest one; a Context of −1 means that there is no pair yet.
func lower(p *ref.Pair, x ref.Pair) {
	if x.Context >= 0 && (p.Context < 0 || x.Score < p.Score || x.Score == p.Score && before(x, *p)) {
		*p = x
	}
}

func higher(p *ref.Pair, x ref.Pair) {
	if x.Context >= 0 && (p.Context < 0 || x.Score > p.Score || x.Score == p.Score && before(x, *p)) {
		*p = x
	}
}

var noPair = ref.Pair{Query: -1, Context: -1}

// ascendingFrom returns the rows [from, to).
func ascendingFrom(from, to int) []int32 {
	rows := make([]int32, to-from)
	for i := range rows {
		rows[i] = int32(from + i)
	}
	return rows
}
