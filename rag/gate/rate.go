package gate

import (
	"cmp"
	"context"
	"slices"

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
}

// rateBlock is how many numbers a block of similarities holds at most.
const rateBlock = 16 << 20

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
	for part := range slices.Chunk(r.sample, min(max(rateBlock/(n+m), 1), 256)) {
		queries := engine.Vectors{Rows: len(part), Dim: d, Data: make([]float32, 0, len(part)*d)}
		for _, j := range part {
			queries.Data = append(queries.Data, row(in.Queries, j)...)
		}
		cosines, asked := make([]float32, len(part)*n), make([]float32, len(part)*m)
		if err := e.Matrix(ctx, cosines, queries, in.Contexts, in.Metric); err != nil {
			return err
		}
		if asks {
			if err := e.Matrix(ctx, asked, queries, in.Queries, in.Metric); err != nil {
				return err
			}
		}
		err := workersOf(e).run(ctx, len(part), func(i int) error {
			return r.one(part[i], from+i, cosines[i*n:][:n], asked[i*m:][:m])
		})
		if err != nil {
			return err
		}
		from += len(part)
	}
	if regression >= 0 {
		r.regress(&r.all[regression])
	}
	return nil
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

// one fills in the scores of pseudo-query j, which is the sample's number at, from its similarities with the contexts
// and with all pseudo-queries.
func (r *rater) one(j, at int, cosines, asked []float32) error {
	s := pairScores{in: r.in, query: row(r.in.Queries, j), cosines: cosines}
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
			r.features(&s, j, at)
			continue
		case PseudoQuery:
			x.scores.positive[at] = r.asked.nearest(s.query, s.norm, r.questions[own], int32(j))
			x.scores.maximum[at] = r.nearestOf(s.query, asked, j, -1)
			if r.groups != nil {
				x.scores.other[at] = r.nearestOf(s.query, asked, j, r.groups[own])
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

// nearestOf is the largest cosine of pseudo-query j with another one, whose context is not of a group; −1 without any.
func (r *rater) nearestOf(query, asked []float32, j int, without int32) float64 {
	allowed := func(i int) bool { return i != j && (without < 0 || r.groups[r.in.Owner[i]] != without) }
	near, best := float32(-2), -1.
	for i, c := range asked {
		if c > near && allowed(i) {
			near = c
		}
	}
	for i, c := range asked {
		if c >= near-slack && allowed(i) {
			best = max(best, ref.Score(kernels.Cosine, query, row(r.in.Queries, i)))
		}
	}
	return best
}

// features fills in those of pseudo-query j.
func (r *rater) features(s *pairScores, j, at int) {
	type found struct{ cosine, asked, bm25, cover float64 }
	known := map[int]found{} // the contexts of two lists are mostly the same
	of := func(rows []int) Features {
		f := none()
		for _, i := range rows {
			x, ok := known[i]
			if !ok {
				x.cosine = r.contexts.cosine(i, s.query, s.norm)
				x.asked = r.asked.nearest(s.query, s.norm, r.questions[i], int32(j))
				x.cover, x.bm25 = s.words.scores(r.in.indexRow(i))
				known[i] = x
			}
			f.take(x.cosine, x.asked, x.bm25, x.cover)
		}
		return f
	}
	own := r.in.Owner[j]
	s.weigh(featureWeight)
	r.own[at], r.best[at] = of([]int{int(own)}), of(s.top(nil, -1))
	r.other[at] = of(s.top(r.groups, r.groups[own]))
}

// regress finds the regression of all, and one without each fold of the contexts.
func (r *rater) regress(x *candidate) {
	cluster, n := clusters(x.scores.owner)
	scored := func(m Model) scores {
		s := r.empty()
		for i := range r.sample {
			s.positive[i], s.maximum[i], s.other[i] = m.Probability(r.own[i]), m.Probability(r.best[i]),
				m.Probability(r.other[i])
		}
		return s
	}
	model := func(fold int) Model {
		var inside, outside []Features
		for i := range r.sample {
			if int(cluster[i])%candidateFolds != fold || n < 2*candidateFolds {
				inside, outside = append(inside, r.best[i]), append(outside, r.other[i])
			}
		}
		return fit(inside, outside)
	}
	x.folds = new([candidateFolds]scores)
	for f := range x.folds {
		x.folds[f] = scored(model(f))
	}
	m := model(-1)
	x.model, x.scores = &m, scored(m)
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

// pairScores scores one pseudo-query: nearly, from its cosines and covers, and exactly, as a decision does.
type pairScores struct {
	in              *Input
	query           []float32
	cosines, covers []float32
	words           *words
	weight          float64
	bias            *postings.Biases // nil without weight

	own  pairScore
	near []pairScore // the contexts that can be the best at some weight

	contexts normed  // without norms where nothing needs them
	norm     float64 // of the query, beside them
}

// pairScore is a context's similarity.
type pairScore struct {
	context    int
	other      bool // it is of another group than the query's own context
	known      bool
	similarity float64 // canonical, once it is known
}

// slack is above the error of cosines and covers in float32, times the largest weight or 1.
const slack = 1e-5

// find looks for the contexts that can be the best ones, of all or of those of other groups, at any weight up to a
// largest one: covers are not negative, so that a context whose similarity with the largest weight's cover is below the
// best similarity alone is best at none.
func (s *pairScores) find(own int, groups []int32, largest float64) {
	s.own.context = own
	nearest := float32(-2)
	for i, c := range s.cosines {
		if c > nearest && (groups == nil || groups[i] != groups[own]) {
			nearest = c
		}
	}
	all := nearest // the query's own group may be nearer, or not
	if groups != nil {
		all = slices.Max(s.cosines)
	}
	weight, less := float32(largest), 2*float32(max(largest, 1)*slack)
	for i, c := range s.cosines {
		v := c + weight*s.covers[i]
		if v < nearest-less {
			continue
		}
		if other := groups != nil && groups[i] != groups[own]; other || v >= all-less {
			s.near = append(s.near, pairScore{context: i, other: other})
		}
	}
}

// read reads the words of pseudo-query j.
func (s *pairScores) read(j int) (err error) {
	if s.covers = make([]float32, len(s.cosines)); s.in.Words == nil {
		return nil
	}
	if s.words, err = wordsOf(s.in.Words.Index, s.in.Words.Queries[j]); err != nil {
		return err
	}
	return s.in.biases(s.words.cover, 1).Read(kernels.RowBlock{Number: -1, Len: len(s.cosines)}, s.covers)
}

func (s *pairScores) weigh(weight float64) {
	if s.weight, s.bias = weight, nil; weight > 0 {
		s.bias = s.words.cover.Biases(weight)
	}
}

func (s *pairScores) similarity(context int) float64 {
	if s.in.Metric == kernels.Cosine && s.contexts.norms != nil {
		return s.contexts.cosine(context, s.query, s.norm)
	}
	return ref.Score(s.in.Metric, s.query, row(s.in.Contexts, context))
}

// exact is the score of a context, with the bits of engine.TopK.
func (s *pairScores) exact(p *pairScore) float64 {
	if !p.known {
		p.known, p.similarity = true, s.similarity(p.context)
	}
	if s.bias == nil {
		return p.similarity
	}
	return s.in.Metric.Biased(p.similarity, float64(s.bias.At(s.in.indexRow(p.context))))
}

// best is the largest exact score of all contexts, or of those of other groups; −1 without any.
func (s *pairScores) best(other bool) float64 {
	near, weight, less := float32(-2), float32(s.weight), float32(max(s.weight, 1)*slack)
	for i := range s.near {
		if p := &s.near[i]; p.other || !other {
			near = max(near, s.cosines[p.context]+weight*s.covers[p.context])
		}
	}
	best := -1.
	for i := range s.near {
		p := &s.near[i]
		if (p.other || !other) && s.cosines[p.context]+weight*s.covers[p.context] >= near-less {
			best = max(best, s.exact(p))
		}
	}
	return best
}

// top are the featureRows contexts with the largest exact scores that are not in a group, ties to the lower row.
func (s *pairScores) top(groups []int32, without int32) []int {
	var near [featureRows]float32 // the largest so far, descending
	count, weight := 0, float32(s.weight)
	for i, c := range s.cosines {
		v := c + weight*s.covers[i]
		if count == featureRows && v <= near[count-1] || groups != nil && groups[i] == without {
			continue
		}
		at := min(count, featureRows-1)
		for ; at > 0 && near[at-1] < v; at-- {
			near[at] = near[at-1]
		}
		near[at], count = v, min(count+1, featureRows)
	}
	if count == 0 {
		return nil
	}
	var rows []int
	exact := map[int]float64{}
	for i, c := range s.cosines {
		if v := c + weight*s.covers[i]; v >= near[count-1]-slack && (groups == nil || groups[i] != without) {
			rows, exact[i] = append(rows, i), s.exact(&pairScore{context: i})
		}
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(exact[b], exact[a]) })
	return rows[:min(len(rows), featureRows)]
}
