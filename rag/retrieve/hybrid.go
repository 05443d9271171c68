package retrieve

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// bounds are the worst and the best score of a query's contexts.
type bounds struct{ worst, best float64 }

// normalised is a score between its bounds, 0 the worst and 1 the best; where all are equal, 1.
func (b bounds) normalised(x float64) float64 {
	if b.width() == 0 {
		return 1
	}
	return (x - b.worst) / (b.best - b.worst)
}

// width is how far the bounds lie apart. It is 0 where rounding alone can have made the difference: sums of the same
// terms in another order would otherwise be spread over the whole of 0 to 1.
func (b bounds) width() float64 {
	const rounding = 1e-9 // of the larger bound
	width := math.Abs(b.best - b.worst)
	if width <= rounding*max(math.Abs(b.best), math.Abs(b.worst)) {
		return 0
	}
	return width
}

// mixed is a query of a search that goes by vectors and words.
type mixed struct {
	i             int // of the query
	words         *postings.Query
	dense, sparse bounds
	ascending     bool // dense scores are distances
}

// hybrid fuses dense and sparse scores.
func (s *search) hybrid(ctx context.Context) error {
	queries := make([]*mixed, s.q.len())
	for i := range queries {
		words, err := s.words(i, postings.BM25)
		if err != nil {
			return err
		}
		queries[i] = &mixed{i: i, ascending: s.Metric.Ascending(), words: words}
		t := &s.lists[i].Taken
		t.Ranking, t.Metric, t.Fusion = string(Hybrid), s.Metric.String(), s.o.Fusion
		s.takeWords(t, postings.BM25, words)
		if s.o.Fusion != RRF {
			t.Weight = new(s.o.Weight)
		}
		if s.o.Fusion != MinMax {
			t.TopN = s.o.topN()
		}
	}
	space := newSpace(s.Engine, s.Contexts, s.Metric)
	if s.o.Fusion != MinMax {
		return s.fuseTop(ctx, space, queries)
	}
	for group := range s.groups(all(len(queries))) {
		if err := s.minMax(ctx, space, queries[group[0]:group[0]+len(group)], s.some(group)); err != nil {
			return err
		}
	}
	return nil
}

// minMax ranks by (1 − w)·sparse + w·dense, normalised over all contexts, without scoring them all: that order is the
// one of dense + α·sparse with α = (1 − w)/w · width(dense)/width(sparse), which the engine searches exactly.
func (s *search) minMax(ctx context.Context, space *space, queries []*mixed, vectors engine.Vectors) error {
	best, err := space.best(ctx, vectors)
	if err != nil {
		return err
	}
	worst, err := space.worst(ctx, vectors)
	if err != nil {
		return err
	}
	w := s.o.Weight
	biases := make([]engine.Biases, len(queries))
	for i, m := range queries {
		m.dense = bounds{worst[i], best[i]}
		if m.sparse, err = s.sparseBounds(ctx, m.words); err != nil {
			return err
		}
		if m.sparse.best == 0 {
			s.lists[m.i].Taken.Reason = noWords
		}
		if alpha := m.alpha(w); alpha > 0 {
			biases[i] = m.words.Biases(alpha)
		}
	}
	if w == 0 {
		return s.wordsAlone(ctx, space, queries)
	}
	hits, err := space.topK(ctx, vectors, s.k, biases)
	if err != nil {
		return err
	}
	for i, m := range queries {
		s.lists[m.i].Results = s.Contexts.results(hits[i], func(x float64) float64 { return m.score(x, w) })
		s.explainMixed(space, m, w)
	}
	return nil
}

// alpha is what a sparse score counts beside a dense one.
func (m *mixed) alpha(w float64) float64 {
	width := m.dense.width()
	width = cmp.Or(width, 1) // all are equally far: words alone rank
	if w == 0 || m.sparse.width() == 0 {
		return 0
	}
	return (1 - w) / w * width / m.sparse.width()
}

// score is the fused score of a hit of dense + α·sparse: the same line, moved.
func (m *mixed) score(hit, w float64) float64 {
	moved := hit - m.dense.worst
	if m.ascending {
		moved = -moved
	}
	width, rest := m.dense.width(), 0.
	if width == 0 {
		width, rest = 1, w // where all are equal, each is the best
	}
	switch {
	case m.sparse.best == 0:
	case m.sparse.width() == 0:
		rest += 1 - w
	default:
		rest -= (1 - w) * m.sparse.worst / m.sparse.width()
	}
	return w*moved/width + rest
}

// sparseScore is a sparse score between its bounds; where no context has a word, 0.
func (m *mixed) sparseScore(x float64) float64 {
	if m.sparse.best == 0 {
		return 0
	}
	return m.sparse.normalised(x)
}

// wordsAlone is minMax with a weight of 0: contexts without a word come last, by their rows.
func (s *search) wordsAlone(ctx context.Context, space *space, queries []*mixed) error {
	allowed := s.Contexts.allowed()
	for _, m := range queries {
		hits, err := m.words.TopK(ctx, s.k, allowed)
		if err != nil {
			return err
		}
		found := make(map[int]bool, len(hits))
		for _, h := range hits {
			found[h.Row] = true
		}
		s.Contexts.each(func(row int) bool {
			if len(hits) < s.k && !found[row] {
				hits = append(hits, kernels.Hit{Row: row})
			}
			return len(hits) < s.k
		})
		s.lists[m.i].Results = s.Contexts.results(hits, m.sparseScore)
		s.explainMixed(space, m, 0)
	}
	return nil
}

// sparseBounds are the bounds of a query's sparse scores over all contexts that are searched.
func (s *search) sparseBounds(ctx context.Context, words *postings.Query) (bounds, error) {
	hits, err := words.TopK(ctx, 1, s.Contexts.allowed())
	if err != nil || len(hits) == 0 {
		return bounds{}, err
	}
	b := bounds{hits[0].Score, hits[0].Score}
	s.Contexts.each(func(row int) bool { // as a rule one of the first has none of the words
		b.worst = min(b.worst, words.Score(row))
		return b.worst > 0
	})
	return b, ctx.Err()
}

// explainMixed fills in the parts of a list's scores.
func (s *search) explainMixed(space *space, m *mixed, w float64) {
	if !s.o.Explain {
		return
	}
	list := s.lists[m.i].Results
	for n := range list {
		row := list[n].Row
		dense, sparse := space.score(s.q.Vectors.Row(m.i), row), m.words.Score(row)
		list[n].Parts = &Parts{
			Dense: new(dense), DenseNormalised: new(m.dense.normalised(dense)),
			Sparse: new(sparse), SparseNormalised: new(m.sparseScore(sparse)),
			Weight: new(w), Rule: string(s.o.Fusion), Terms: has(m.words, row),
		}
	}
}

// fuseTop fuses the best of a dense and a sparse search, by their normalised scores or by their ranks.
func (s *search) fuseTop(ctx context.Context, space *space, queries []*mixed) error {
	dense, err := space.topK(ctx, s.q.Vectors, s.o.topN(), nil)
	if err != nil {
		return err
	}
	allowed := s.Contexts.allowed()
	for i, m := range queries {
		sparse, err := m.words.TopK(ctx, s.o.topN(), allowed)
		if err != nil {
			return err
		}
		if len(sparse) == 0 {
			s.lists[i].Taken.Reason = noWords
		}
		list := fuse(dense[i], sparse, s.o)
		for n := range list {
			list[n].ID = s.Contexts.IDs[list[n].Row]
			if list[n].Parts.Weight = s.lists[i].Taken.Weight; s.o.Explain {
				list[n].Parts.Terms = has(m.words, list[n].Row)
			} else {
				list[n].Parts = nil
			}
		}
		s.lists[i].Results = list[:min(s.k, len(list))]
	}
	return nil
}

// fuse is the ranking of two lists of hits, better first.
func fuse(dense, sparse []kernels.Hit, o Options) []Result {
	list, place := []Result{}, map[int]int{}
	w := o.Weight
	add := func(hits []kernels.Hit, share float64, set func(*Parts, int, float64, float64)) {
		if len(hits) == 0 {
			return
		}
		b := bounds{hits[len(hits)-1].Score, hits[0].Score}
		for n, h := range hits {
			p, seen := place[h.Row]
			if !seen {
				p = len(list)
				place[h.Row] = p
				list = append(list, Result{Row: h.Row, Parts: &Parts{Rule: string(o.Fusion)}})
			}
			normalised := b.normalised(h.Score)
			set(list[p].Parts, n+1, h.Score, normalised)
			if o.Fusion == RRF {
				list[p].Score += 1 / float64(rrfConstant+n+1)
			} else {
				list[p].Score += share * normalised
			}
		}
	}
	add(dense, w, func(p *Parts, rank int, score, normalised float64) {
		p.Dense, p.DenseRank = new(score), rank
		if o.Fusion == MinMaxTopN {
			p.DenseNormalised = new(normalised)
		}
	})
	add(sparse, 1-w, func(p *Parts, rank int, score, normalised float64) {
		p.Sparse, p.SparseRank = new(score), rank
		if o.Fusion == MinMaxTopN {
			p.SparseNormalised = new(normalised)
		}
	})
	slices.SortFunc(list, func(a, b Result) int { return cmp.Or(cmp.Compare(b.Score, a.Score), a.Row-b.Row) })
	return list
}
