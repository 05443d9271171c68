package retrieve

import (
	"context"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// What cover and share count beside the cosine at a weight of one half. They were found on the questions of squad16
// with all-MiniLM-L6-v2, and hold on those of xquad-de (docs/retrieval.md has the neighbours of this point).
const (
	coverWeight = .75
	shareWeight = .5
)

const autoRanking = "cosine+cover+share"

// auto ranks by the best measured way that the contexts and the options allow.
func (s *search) auto(ctx context.Context) error {
	given := s.o.Metric != StoreMetric
	switch {
	case s.Contexts.Words == nil:
		return s.dense(ctx, all(s.q.len()), "there is no index of words")
	case given && s.Metric != kernels.Cosine, s.Metric == kernels.IP:
		if err := s.hybrid(ctx); err != nil {
			return err
		}
		for i := range s.lists {
			if t := &s.lists[i].Taken; t.Reason == "" {
				t.Reason = "vectors are compared by " + s.Metric.String()
			}
		}
		return nil
	}
	s.Metric = kernels.Cosine
	space := newSpace(s.Engine, s.Contexts, s.Metric)
	for group := range s.groups(all(s.q.len())) {
		if err := s.covered(ctx, space, group); err != nil {
			return err
		}
	}
	return nil
}

// covered ranks some of the queries.
func (s *search) covered(ctx context.Context, space *space, queries []int) error {
	biases, w := make([]engine.Biases, len(queries)), s.o.Weight
	parts := make([]*covered, len(queries))
	for n, i := range queries {
		q, err := s.coveredQuery(i)
		if err != nil {
			return err
		}
		if parts[n] = q; q.found && w > 0 {
			biases[n] = postings.Sum(postings.Part{Query: q.cover, Weight: (1 - w) / w * coverWeight},
				postings.Part{Query: q.bm25, Weight: (1 - w) / w * q.share(shareWeight)})
		}
	}
	if w == 0 {
		return s.coverAlone(ctx, space, parts)
	}
	hits, err := space.topK(ctx, s.some(queries), s.k, biases)
	if err != nil {
		return err
	}
	for n, q := range parts {
		s.lists[q.i].Results = s.Contexts.results(hits[n], func(x float64) float64 { return w * x })
		s.explainCovered(space, q, w)
	}
	return nil
}

// coveredQuery analyses query i and says what is taken for it.
func (s *search) coveredQuery(i int) (*covered, error) {
	cover, err := s.words(i, postings.Cover)
	if err != nil {
		return nil, err
	}
	bm25, err := s.words(i, postings.BM25)
	if err != nil {
		return nil, err
	}
	found := cover.Any(s.Contexts.allowed())
	t := &s.lists[i].Taken
	s.takeWords(t, postings.BM25, bm25)
	t.Sparse, t.Metric, t.Weight = "", s.Metric.String(), new(s.o.Weight)
	if t.Ranking = autoRanking; !found {
		t.Ranking, t.Reason = string(Dense), noWords
	}
	return &covered{i, cover, bm25, found}, nil
}

// covered is a query of auto.
type covered struct {
	i           int
	cover, bm25 *postings.Query
	found       bool // some context has a word of it
}

// share divides a number by the maximum of BM25 for the query; 0 for a query without words.
func (q *covered) share(x float64) float64 {
	if ideal := q.bm25.Ideal(); ideal > 0 {
		return x / ideal
	}
	return 0
}

// coverAlone is auto with a weight of 0: every context that has a word is scored.
func (s *search) coverAlone(ctx context.Context, space *space, queries []*covered) error {
	allowed := s.Contexts.allowed()
	for _, q := range queries {
		hits, err := q.cover.TopK(ctx, s.Contexts.count(), allowed)
		if err != nil {
			return err
		}
		for j := range hits {
			row := hits[j].Row
			hits[j].Score = coverWeight*q.cover.Score(row) + q.share(shareWeight)*q.bm25.Score(row)
		}
		sortHits(kernels.Cosine, hits)
		s.lists[q.i].Results = s.Contexts.results(hits[:min(s.k, len(hits))], same)
		s.explainCovered(space, q, 0)
	}
	return nil
}

// explainCovered fills in the parts of a list's scores.
func (s *search) explainCovered(space *space, q *covered, w float64) {
	if !s.o.Explain {
		return
	}
	list := s.lists[q.i].Results
	for n := range list {
		row := list[n].Row
		bm25 := q.bm25.Score(row)
		list[n].Parts = &Parts{
			Dense: new(space.score(s.q.Vectors.Row(q.i), row)), Sparse: new(bm25), Cover: new(q.cover.Score(row)),
			Share: new(q.share(bm25)), Weight: new(w), Rule: "w·dense + (1 − w)·(¾·cover + ½·share)",
			Terms: has(q.cover, row),
		}
	}
}
