package retrieve

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// sortHits puts hits in order: the better score first, then the lower row.
func sortHits(metric kernels.Metric, hits []kernels.Hit) {
	slices.SortFunc(hits, func(a, b kernels.Hit) int {
		order := cmp.Compare(b.Score, a.Score)
		if metric.Ascending() {
			order = -order
		}
		return cmp.Or(order, a.Row-b.Row)
	})
}

// choose takes the results of query i out of its candidates.
func (s *search) choose(ctx context.Context, i int) error {
	list := &s.lists[i]
	if s.o.Rerank > 0 && len(list.Results) > 0 {
		if err := s.rerank(ctx, i); err != nil {
			return err
		}
	}
	if s.o.MMR > 0 {
		if err := s.diversify(ctx, list); err != nil {
			return err
		}
	}
	list.Results = list.Results[:min(s.o.K, len(list.Results))]
	return nil
}

// rerank orders the candidates by the cross-encoder's score; equal ones stay in their order.
func (s *search) rerank(ctx context.Context, i int) error {
	list := &s.lists[i]
	ids := make([]string, len(list.Results))
	for n, r := range list.Results {
		ids[n] = r.ID
	}
	scores, err := s.Rerank(ctx, s.q.Texts[i], ids)
	if err != nil {
		return err
	}
	if len(scores) != len(ids) {
		return fmt.Errorf("%w: %d scores of the reranker for %d contexts", kernels.ErrShape, len(scores), len(ids))
	}
	for n := range list.Results {
		r := &list.Results[n]
		if r.Parts != nil {
			r.Parts.Fused, r.Parts.Reranker = new(r.Score), new(scores[n])
		}
		r.Score = scores[n]
	}
	slices.SortStableFunc(list.Results, func(a, b Result) int { return cmp.Compare(b.Score, a.Score) })
	list.Taken.Reranked, list.Taken.Ascending = len(ids), false
	return nil
}

// diversify chooses one candidate after the other: that with the highest λ·relevance − (1 − λ)·similarity. Relevance is
// its score between the worst and the best of the candidates, similarity its cosine with the nearest that was chosen.
// Scores stay what they were, so they need not descend.
func (s *search) diversify(ctx context.Context, list *List) error {
	list.Taken.MMR = s.o.MMR
	rest := list.Results
	if len(rest) == 0 {
		return nil
	}
	plain, lambda := s.Contexts.plain(), s.o.MMR
	b := bounds{rest[0].Score, rest[0].Score}
	for _, r := range rest {
		b = bounds{min(b.worst, r.Score), max(b.best, r.Score)}
	}
	if list.Taken.Ascending {
		b = bounds{b.best, b.worst}
	}
	var chosen []Result
	similar := make([]float64, len(rest))
	for len(chosen) < s.o.K && len(rest) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		best, value := 0, 0.
		for n, r := range rest {
			v := lambda*b.normalised(r.Score) - (1-lambda)*similar[n]
			if n == 0 || v > value {
				best, value = n, v
			}
		}
		r := rest[best]
		if r.Parts != nil {
			r.Parts.Relevance = new(b.normalised(r.Score))
			if len(chosen) > 0 {
				r.Parts.Similarity = new(similar[best])
			}
		}
		chosen = append(chosen, r)
		rest, similar = slices.Delete(rest, best, best+1), slices.Delete(similar, best, best+1)
		for n := range rest {
			cosine := ref.Score(kernels.Cosine, plain.Row(r.Row), plain.Row(rest[n].Row))
			if len(chosen) == 1 || cosine > similar[n] {
				similar[n] = cosine
			}
		}
	}
	list.Results = chosen
	return nil
}
