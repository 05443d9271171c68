package gate

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// rater scores sampled pseudo-queries by candidates.
type rater struct {
	in     *Input
	sample []int   // of the pseudo-queries, ascending
	groups []int32 // of the contexts, that are left out together; nil: none are
	all    []candidate

	questions       [][]int32 // the pseudo-queries of each context, where a candidate goes by them
	asked, contexts normed    // pseudo-queries and contexts, there
	// features of the sampled pseudo-queries, where a candidate goes by them: by their own context alone, by all
	// contexts, and by those of other groups
	own, best, other []Features

	free sync.Pool // of *pairScores
}

// Of a block of similarities: how many numbers it holds, and how many questions it is of, at most.
const (
	rateBlock     = 16 << 20
	rateQuestions = 512
)

// rate fills in the scores of all candidates.
func (r *rater) rate(ctx context.Context, e engine.Interface) error {
	in := r.in
	asks, regression := false, -1
	for i := range r.all {
		x := &r.all[i]
		x.scores = r.empty()
		if asks = asks || x.score.questions(); x.score.Kind == Logistic {
			regression = i
			r.own, r.best, r.other = make([]Features, len(r.sample)), make([]Features, len(r.sample)),
				make([]Features, len(r.sample))
		}
	}
	if asks {
		r.questions = make([][]int32, in.Contexts.Rows)
		for j, o := range in.Owner {
			r.questions[o] = append(r.questions[o], int32(j))
		}
		r.asked, r.contexts = withNorms(in.Queries), withNorms(in.Contexts)
	}
	n, m, d, from := in.Contexts.Rows, in.Queries.Rows, in.Queries.Dim, 0
	if !asks {
		m = 0
	}
	together := min(max(rateBlock/(n+m), 1), rateQuestions, len(r.sample))
	cosines, asked := make([]float32, together*n), make([]float32, together*m)
	for part := range slices.Chunk(r.sample, together) {
		queries := engine.Vectors{Rows: len(part), Dim: d, Data: make([]float32, 0, len(part)*d)}
		for _, j := range part {
			queries.Data = append(queries.Data, row(in.Queries, j)...)
		}
		off, err := similarities(ctx, e, cosines[:len(part)*n], queries, in.Contexts, kernels.F32)
		askedOff := 0.
		if err == nil && asks {
			askedOff, err = similarities(ctx, e, asked[:len(part)*m], queries, in.Queries, kernels.I8, kernels.BF16,
				kernels.F32)
		}
		if err != nil {
			return err
		}
		err = workersOf(e).run(ctx, len(part), func(i int) error {
			s, ok := r.free.Get().(*pairScores)
			if !ok {
				s = &pairScores{in: in, covers: make([]float32, n), ranks: make([]float64, n)}
			}
			defer r.free.Put(s)
			s.query, s.cosines, s.asked, s.off = row(in.Queries, part[i]), cosines[i*n:][:n], asked[i*m:][:m], off
			s.askedSlack = float32(2*askedOff + 0x1p-20)
			return r.one(part[i], from+i, s)
		})
		if err != nil {
			return err
		}
		from += len(part)
	}
	if regression >= 0 {
		return r.regress(ctx, workersOf(e), &r.all[regression])
	}
	return nil
}

// similarities writes the cosines of questions with rows, and tells what they are off by at most. An engine that has
// bounded products, of one of the types, need not compute each one's canonical value.
func similarities(ctx context.Context, e engine.Interface, out []float32, questions, rows engine.Vectors,
	types ...kernels.DType) (off float64, err error) {
	fast, ok := e.(interface {
		BoundedMatrix(ctx context.Context, out []float32, stride int, a, b engine.Vectors, metric kernels.Metric,
			dtype kernels.DType) (bound float64, err error)
	})
	for _, dtype := range types {
		if !ok {
			break
		}
		off, err = fast.BoundedMatrix(ctx, out, rows.Rows, questions, rows, kernels.Cosine, dtype)
		if !errors.Is(err, kernels.ErrISA) {
			return off, err
		}
	}
	return 0x1p-25, e.Matrix(ctx, out, questions, rows, kernels.Cosine)
}

func (r *rater) empty() scores {
	s := scores{positive: make([]float64, len(r.sample)), maximum: make([]float64, len(r.sample)),
		owner: make([]int32, len(r.sample))}
	if r.groups != nil {
		s.other = make([]float64, len(r.sample))
	}
	for i, j := range r.sample {
		s.owner[i] = r.in.Owner[j]
	}
	return s
}

// one fills in the scores of pseudo-query j, which is the sample's number at.
func (r *rater) one(j, at int, s *pairScores) error {
	if r.contexts.norms != nil {
		s.contexts, s.norm = r.contexts, r.asked.norms[j]
	}
	if err := s.read(j); err != nil {
		return err
	}
	own := r.in.Owner[j]
	largest := 0.
	for i := range r.all {
		largest = max(largest, r.all[i].score.Weight)
	}
	s.find(int(own), r.groups, largest)
	for i := range r.all {
		x := &r.all[i]
		switch x.score.Kind {
		case Logistic:
			r.features(s, j, at)
			continue
		case PseudoQuery:
			x.scores.positive[at] = r.asked.nearest(s.query, s.norm, r.questions[own], int32(j))
			all, other := r.nearestOf(s, j)
			if x.scores.maximum[at] = all; r.groups != nil {
				x.scores.other[at] = other
			}
			continue
		}
		s.weigh(x.score.Weight)
		x.scores.positive[at] = s.exact(&s.own)
		x.scores.maximum[at] = s.best(false)
		if r.groups != nil {
			x.scores.other[at] = s.best(true)
		}
	}
	return nil
}

// nearestOf are the largest cosines of pseudo-query j with another one, and with one whose context is of another group,
// if there are groups; −1 without any.
func (r *rater) nearestOf(s *pairScores, j int) (all, other float64) {
	own, top, topOther := int32(-1), float32(-2), float32(-2)
	if r.groups != nil {
		own = r.groups[r.in.Owner[j]]
	}
	isOther := func(i int) bool { return own < 0 || r.groups[r.in.Owner[i]] != own }
	s.rows = s.rows[:0] // those that can be one of both
	for i, c := range s.asked {
		if c < topOther-s.askedSlack || i == j {
			continue
		}
		s.rows = append(s.rows, i)
		if top = max(top, c); c > topOther && isOther(i) {
			topOther = c
		}
	}
	all, other = -1, -1
	for _, i := range s.rows {
		c := s.asked[i]
		best, out := c >= top-s.askedSlack, c >= topOther-s.askedSlack && isOther(i)
		if !best && !out {
			continue
		}
		exact := r.asked.cosine(i, s.query, s.norm)
		if all = max(all, exact); out {
			other = max(other, exact)
		}
	}
	return all, other
}

// features fills in those of pseudo-query j.
func (r *rater) features(s *pairScores, j, at int) {
	own := r.in.Owner[j]
	s.weigh(featureWeight)
	r.own[at] = r.featuresOf(s, j, []int{int(own)})
	all, others := s.top(r.groups, r.groups[own])
	r.best[at], r.other[at] = r.featuresOf(s, j, all), r.featuresOf(s, j, others)
}

// featuresOf are those by some contexts. Each is the largest of a value over these, so that a value is computed only
// where it can be the largest one.
func (r *rater) featuresOf(s *pairScores, j int, rows []int) Features {
	f, top, asked, slack := none(), none(), float32(-2), s.slack(1)
	for _, i := range rows {
		top.take(float64(s.cosines[i]), -1, 0, float64(s.covers[i]))
		f.BM25 = max(f.BM25, s.bm25(i))
		for _, q := range r.questions[i] {
			if int(q) != j {
				asked = max(asked, s.asked[q])
			}
		}
	}
	for _, i := range rows {
		cosine, cover := s.cosines[i], s.covers[i]
		whole, shared := cosine >= float32(top.Maximum)-slack, cover >= float32(top.Cover)-slack
		if joint := min(cosine, cover) >= float32(top.Joint)-slack; whole || shared || joint {
			f.take(s.similarity(i), -1, 0, s.words.cover.Score(r.in.indexRow(i)))
		}
		for _, q := range r.questions[i] {
			if int(q) != j && s.asked[q] >= asked-s.askedSlack {
				f.PseudoQuery = max(f.PseudoQuery, r.asked.cosine(int(q), s.query, s.norm))
			}
		}
	}
	return f
}

// regress finds the regression of all, and one without each fold of the contexts.
func (r *rater) regress(ctx context.Context, run each, x *candidate) error {
	cluster, n := clusters(x.scores.owner)
	scored := func(m Model) scores {
		s := r.empty()
		for i := range r.sample {
			s.positive[i], s.maximum[i], s.other[i] = m.Probability(r.own[i]), m.Probability(r.best[i]),
				m.Probability(r.other[i])
		}
		return s
	}
	model := func(fold int, start Model) Model {
		all := make([]example, 0, 2*len(r.sample))
		for i := range r.sample {
			if int(cluster[i])%candidateFolds != fold || n < 2*candidateFolds {
				all = append(all, example{r.best[i].row(), true}, example{r.other[i].row(), false})
			}
		}
		return fit(all, start)
	}
	m := model(-1, Model{})
	x.model, x.scores, x.folds = &m, scored(m), new([candidateFolds]scores)
	return run.run(ctx, candidateFolds, func(f int) error {
		x.folds[f] = scored(model(f, m))
		return nil
	})
}

// keep are the distributions of a candidate, with those of the general questions.
func (r *rater) keep(ctx context.Context, e engine.Interface, x *candidate) (*Scored, error) {
	s := &Scored{Weight: x.score.Weight, Model: x.model, Queries: len(r.sample), scores: x.scores,
		Positive: tableOf(x.scores.positive), Maximum: tableOf(x.scores.maximum)}
	if r.groups != nil {
		t := tableOf(x.scores.other)
		s.MaximumOther = &t
	}
	var err error
	s.scores.general, err = r.general(ctx, e, x)
	return s, err
}

// general are the best scores of the general questions; nil without their texts.
func (r *rater) general(ctx context.Context, e engine.Interface, x *candidate) ([]float64, error) {
	in := r.in
	if in.General.Rows == 0 || in.Words == nil || len(in.Words.General) != in.General.Rows {
		return nil, nil
	}
	contexts, rows, weight := in.Contexts, 1, x.score.Weight
	var bias []engine.Biases
	switch x.score.Kind {
	case PseudoQuery:
		contexts = in.Queries
	case Logistic:
		rows, weight = featureRows, featureWeight
		fallthrough
	default:
		bias = make([]engine.Biases, in.General.Rows)
		for i, text := range in.Words.General {
			q, err := in.Words.Index.Query(text, postings.Scoring{Kind: postings.Cover})
			if err != nil {
				return nil, err
			}
			bias[i] = in.biases(q, weight)
		}
	}
	hits, err := e.TopK(ctx, in.General, contexts, in.Metric, rows, bias)
	if err != nil {
		return nil, err
	}
	best := make([]float64, len(hits))
	for i, h := range hits {
		if best[i] = h[0].Score; x.score.Kind != Logistic {
			continue
		}
		w, err := wordsOf(in.Words.Index, in.Words.General[i])
		if err != nil {
			return nil, err
		}
		f, query := none(), row(in.General, i)
		norm := ref.Norm(query)
		for _, hit := range h {
			cover, bm25 := w.scores(in.indexRow(hit.Row))
			f.take(r.contexts.cosine(hit.Row, query, norm),
				r.asked.nearest(query, norm, r.questions[hit.Row], -1), bm25, cover)
		}
		best[i] = x.model.Probability(f)
	}
	return best, nil
}

// indexRow is the row of the index that a context is.
func (in *Input) indexRow(i int) int {
	if in.Words.Rows == nil {
		return i
	}
	return in.Words.Rows[i]
}
