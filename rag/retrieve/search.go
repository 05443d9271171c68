package retrieve

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Source holds the engine and the contexts of a search.
type Source struct {
	Engine   engine.Interface
	Contexts Contexts
	Metric   kernels.Metric // of the contexts, unless Options.Metric names another
	// Rerank scores contexts, given by their ids, for a query, from 0 to 1. It is needed only for Options.Rerank.
	Rerank func(ctx context.Context, query string, ids []string) ([]float64, error)
	// Nearest holds the nearest contexts of each query by Metric, best first, if an earlier search found them: as many
	// as the function Nearest returns, or all contexts. If it is nil, they are searched.
	Nearest   [][]engine.Hit
	Questions *Questions // of PseudoQuery; else it may be nil
}

// Nearest reports whether Search ranks the nearest contexts in the metric, and how many of them it needs. words says
// whether the contexts have an index of words.
func Nearest(o Options, metric kernels.Metric, words bool) (k int, ok bool) {
	if o.metric(metric) != metric || len(o.Where) > 0 {
		return 0, false
	}
	return o.candidates(), o.Mode == Dense || o.Mode == Auto && !words
}

// Search ranks the contexts for each query and returns the best ones, in the order of the queries. A list is shorter
// than Options.K if there are fewer contexts or, in the modes BM25 and TFIDF, fewer contexts with words of the query.
// Lists are empty if there are no contexts or the filter selects none. Besides the errors of Options.Check it returns
// ErrNoWords, and kernels.ErrShape if the sizes of queries or ids do not match.
func Search(ctx context.Context, src Source, q Queries, o Options) ([]List, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := src.fits(q, o); err != nil {
		return nil, err
	}
	s := &search{Source: src, q: q, o: o, k: o.candidates()}
	s.Metric = o.metric(src.Metric)
	s.begin()
	if src.Contexts.count() == 0 {
		for i := range s.lists {
			s.lists[i].Taken.Reason = "there are no contexts to search"
		}
		return s.lists, ctx.Err()
	}
	if err := s.rankDistinct(ctx); err != nil {
		return nil, fmt.Errorf("retrieve: %w", err)
	}
	for i := range s.lists {
		if err := s.choose(ctx, i); err != nil {
			return nil, fmt.Errorf("retrieve: %w", err)
		}
	}
	return s.lists, nil
}

// begin makes the lists without results.
func (s *search) begin() {
	s.lists = make([]List, s.q.len())
	for i := range s.lists {
		s.lists[i] = List{Results: []Result{},
			Taken: Taken{Mode: s.o.Mode, Ranking: string(s.o.Mode), Where: s.o.Where.String(),
				Contexts: s.Contexts.count()}}
	}
}

func (src Source) fits(q Queries, o Options) error {
	c := src.Contexts
	switch {
	case len(c.IDs) != c.Vectors.Rows:
		return fmt.Errorf("retrieve: %w: %d ids for %d contexts", kernels.ErrShape, len(c.IDs), c.Vectors.Rows)
	case o.Vectors() && q.Vectors.Rows != q.len():
		return fmt.Errorf("retrieve: %w: %d vectors for %d queries", kernels.ErrShape, q.Vectors.Rows, q.len())
	case o.Mode == PseudoQuery && src.Questions == nil:
		return fmt.Errorf("%w: mode %s", ErrNoQuestions, o.Mode)
	case c.Words == nil && !slices.Contains([]Mode{Auto, Dense, PseudoQuery}, o.Mode):
		return fmt.Errorf("%w: mode %s", ErrNoWords, o.Mode)
	case o.Mode != Dense && c.Words != nil && len(q.Texts) != q.len(), o.Rerank > 0 && len(q.Texts) != q.len():
		return fmt.Errorf("retrieve: %w: %d texts for %d queries", kernels.ErrShape, len(q.Texts), q.len())
	case src.Nearest != nil && len(src.Nearest) != q.len():
		return fmt.Errorf("retrieve: %w: nearest contexts of %d queries, there are %d", kernels.ErrShape,
			len(src.Nearest), q.len())
	case o.Rerank > 0 && src.Rerank == nil:
		return fmt.Errorf("%w: there is no reranker", ErrOption)
	}
	return nil
}

// search is one call of Search.
type search struct {
	Source
	q     Queries
	o     Options
	k     int // candidates
	lists []List
}

// rank fills the lists with k candidates each.
func (s *search) rank(ctx context.Context) error {
	switch s.o.Mode {
	case Dense:
		return s.dense(ctx, all(s.q.len()), "")
	case BM25:
		return s.sparse(ctx, postings.BM25)
	case TFIDF:
		return s.sparse(ctx, postings.TFIDF)
	case Hybrid:
		return s.hybrid(ctx)
	case PseudoQuery:
		return s.asked(ctx)
	}
	return s.auto(ctx)
}

// all returns the indices 0 to n−1.
func all(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// some returns the vectors of the queries with the given indices.
func (s *search) some(queries []int) engine.Vectors {
	if len(queries) == s.q.Vectors.Rows {
		return s.q.Vectors
	}
	v := engine.Vectors{Rows: len(queries), Dim: s.q.Vectors.Dim}
	for _, i := range queries {
		v.Data = append(v.Data, s.q.Vectors.Row(i)...)
	}
	return v
}

// dense ranks the contexts for some of the queries by their vectors.
func (s *search) dense(ctx context.Context, queries []int, reason string) error {
	if len(queries) == 0 {
		return nil
	}
	hits, err := s.nearest(ctx, queries)
	if err != nil {
		return err
	}
	for j, i := range queries {
		s.byVectors(i, Dense, s.Metric.String(), reason, hits[j])
	}
	return nil
}

// byVectors fills in the list of query i, whose contexts are ranked by their vectors.
func (s *search) byVectors(i int, ranking Mode, rule, reason string, hits []engine.Hit) {
	list := &s.lists[i]
	t := &list.Taken
	t.Ranking, t.Reason, t.Metric, t.Ascending = string(ranking), reason, s.Metric.String(), s.Metric.Ascending()
	list.Results = s.Contexts.results(hits, same)
	for n := range list.Results {
		if r := &list.Results[n]; s.o.Explain {
			r.Parts = &Parts{Dense: new(r.Score), DenseRank: n + 1, Rule: rule}
		}
	}
}

// nearest returns the contexts nearest to some of the queries.
func (s *search) nearest(ctx context.Context, queries []int) ([][]engine.Hit, error) {
	if s.Nearest == nil {
		return newSpace(s.Engine, s.Contexts, s.Metric).topK(ctx, s.some(queries), s.k, nil)
	}
	hits := make([][]engine.Hit, len(queries))
	for j, i := range queries {
		hits[j] = s.Nearest[i][:min(s.k, len(s.Nearest[i]))]
	}
	return hits, nil
}

func same(x float64) float64 { return x }

// sparse ranks the contexts by the words of the queries.
func (s *search) sparse(ctx context.Context, kind postings.Kind) error {
	allowed := s.Contexts.allowed()
	for i := range s.lists {
		words, err := s.words(i, kind)
		if err != nil {
			return err
		}
		hits, err := words.TopK(ctx, s.k, allowed)
		if err != nil {
			return err
		}
		list := &s.lists[i]
		s.takeWords(&list.Taken, kind, words)
		if len(hits) == 0 {
			list.Taken.Reason = noWords
		}
		list.Results = s.Contexts.results(hits, same)
		if s.o.Explain {
			for n := range list.Results {
				r := &list.Results[n]
				r.Parts = &Parts{Sparse: new(r.Score), SparseRank: n + 1, Rule: string(kind), Terms: has(words, r.Row)}
			}
		}
	}
	return nil
}

// noWords is the reason for a fallback from words to vectors.
const noWords = "no context has a word of the query"

// takeWords records in t how words are scored.
func (s *search) takeWords(t *Taken, kind postings.Kind, q *postings.Query) {
	t.Sparse = kind
	if kind == postings.BM25 {
		t.K1, t.B = new(s.o.K1), new(s.o.B)
	}
	if s.o.Explain {
		t.Terms = q.Terms()
	}
}

// words analyses the text of query i for a kind of scoring.
func (s *search) words(i int, kind postings.Kind) (*postings.Query, error) {
	return s.Contexts.Words.Query(s.q.Texts[i], s.o.scoring(kind))
}

// has returns the terms of a query that a context contains.
func has(words *postings.Query, row int) (terms []postings.Term) {
	for _, t := range words.Terms() {
		if t.DF > 0 && words.Has(t.Text, row) {
			terms = append(terms, t)
		}
	}
	return terms
}

// biasBytes approximately limits the memory for the biases of queries that are searched together.
const biasBytes = 256 << 20

// groups cuts queries into groups whose biases fit in biasBytes.
func (s *search) groups(queries []int) iter.Seq[[]int] {
	return slices.Chunk(queries, max(1, biasBytes/(4*max(1, s.Contexts.Vectors.Rows))))
}
