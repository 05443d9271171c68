package gate

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// rater scores sampled pseudo-queries by candidates.
type rater struct {
	in     *Input
	sample []int   // of the pseudo-queries, ascending
	groups []int32 // that are left out together, of the contexts, or with Counts of the pseudo-queries; nil: none are
	all    []candidate

	questions       [][]int32 // the pseudo-queries of each context, where a candidate goes by them
	asked, contexts normed    // pseudo-queries and contexts, there

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
	asks := false
	for i := range r.all {
		x := &r.all[i]
		x.scores = r.empty()
		asks = asks || x.score.Kind == PseudoQuery
	}
	if asks {
		r.questions = make([][]int32, in.Contexts.Rows)
		for j, o := range in.Owner {
			r.questions[o] = append(r.questions[o], int32(j))
		}
		if r.asked = withNorms(in.Queries); in.Counts == nil {
			r.contexts = withNorms(in.Contexts)
		}
	}
	n, m, d, from := in.Contexts.Rows, in.Queries.Rows, in.Queries.Dim, 0
	if !asks {
		m = 0
	}
	if in.Counts != nil {
		if r.rated(); !asks {
			return nil
		}
		n = 0
	}
	together := min(max(rateBlock/(n+m), 1), rateQuestions, len(r.sample))
	cosines, asked := make([]float32, together*n), make([]float32, together*m)
	for part := range slices.Chunk(r.sample, together) {
		queries := engine.Vectors{Rows: len(part), Dim: d, Data: make([]float32, 0, len(part)*d)}
		for _, j := range part {
			queries.Data = append(queries.Data, row(in.Queries, j)...)
		}
		off, err := 0., error(nil)
		if in.Counts == nil {
			off, err = similarities(ctx, e, cosines[:len(part)*n], queries, in.Contexts, kernels.F32)
		}
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
				s = &pairScores{in: in, covers: make([]float32, n)}
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
	return nil
}

// similarities writes the cosines of questions with rows, and returns the bound of their errors. An engine that has
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
		if r.in.Domains != nil {
			s.domain = append(s.domain, r.in.Domain[j])
		}
	}
	return s
}

// one fills in the scores of pseudo-query j, which is the sample's number at.
func (r *rater) one(j, at int, s *pairScores) error {
	if r.asked.norms != nil {
		s.contexts, s.norm = r.contexts, r.asked.norms[j]
	}
	own := r.in.Owner[j]
	if r.in.Counts == nil {
		if err := s.read(j); err != nil {
			return err
		}
		largest := 0.
		for i := range r.all {
			largest = max(largest, r.all[i].score.Weight)
		}
		s.find(int(own), r.groups, largest)
	}
	for i := range r.all {
		x := &r.all[i]
		if x.score.Kind == PseudoQuery {
			x.scores.positive[at] = r.asked.nearest(s.query, s.norm, r.questions[own], int32(j))
			all, other := r.nearestOf(s, j)
			if x.scores.maximum[at] = all; r.groups != nil {
				x.scores.other[at] = other
			}
			continue
		}
		if r.in.Counts != nil {
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

// groupOf returns the group of a pseudo-query's own context.
func (r *rater) groupOf(j int) int32 {
	if r.in.Counts != nil {
		return r.groups[j]
	}
	return r.groups[r.in.Owner[j]]
}

// nearestOf returns the largest cosines of pseudo-query j with another one, and with one whose context is of another
// group, if there are groups; −1 without any.
func (r *rater) nearestOf(s *pairScores, j int) (all, other float64) {
	own, top, topOther := int32(-1), float32(-2), float32(-2)
	if r.groups != nil {
		own = r.groupOf(j)
	}
	isOther := func(i int) bool { return own < 0 || r.groupOf(i) != own }
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

// keep returns the distributions of a candidate, with those of the general questions.
func (r *rater) keep(ctx context.Context, e engine.Interface, x *candidate) (*Scored, error) {
	s := &Scored{Weight: x.score.Weight, Queries: len(r.sample), scores: x.scores,
		Positive: tableOf(x.scores.positive), Maximum: tableOf(x.scores.maximum)}
	if r.groups != nil {
		s.MaximumOther = new(tableOf(x.scores.other))
	}
	var err error
	s.scores.general, err = r.general(ctx, e, x)
	return s, err
}

// general returns the best scores of the general questions; nil without their texts.
func (r *rater) general(ctx context.Context, e engine.Interface, x *candidate) ([]float64, error) {
	in := r.in
	if in.General.Rows == 0 || in.Words == nil || len(in.Words.General) != in.General.Rows {
		return nil, nil
	}
	if in.Counts != nil && x.score.Kind != PseudoQuery {
		return in.Counts.generalOf(x.score.Weight), nil
	}
	contexts := in.Contexts
	var bias []engine.Biases
	if x.score.Kind == PseudoQuery {
		contexts = in.Queries
	} else {
		bias = make([]engine.Biases, in.General.Rows)
		for i, text := range in.Words.General {
			q, err := in.Words.Index.Query(text, postings.Scoring{Kind: postings.Cover})
			if err != nil {
				return nil, err
			}
			bias[i] = in.biases(q, x.score.Weight)
		}
	}
	return bests(ctx, e, in.General, contexts, in.Metric, bias)
}

// indexRow returns the row of the index that a context is.
func (in *Input) indexRow(i int) int {
	if in.Words.Rows == nil {
		return i
	}
	return in.Words.Rows[i]
}
