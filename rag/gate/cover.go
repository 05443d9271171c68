package gate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Words are the texts behind a calibration's vectors, for scores that weigh words beside them.
type Words struct {
	Index   *postings.Index
	Rows    []int    // of the contexts in the index, ascending; nil: the same
	Queries []string // texts of the pseudo-queries
	General []string // texts of the general questions
}

// Cover are the distributions of similarity + Weight·cover: of all pseudo-queries, or of a sample where pairs are many.
type Cover struct {
	Weight       float64 `json:"weight"`
	Queries      int     `json:"queries"` // pseudo-queries that were scored
	Positive     Stats   `json:"positive"`
	Maximum      Stats   `json:"maximum"`
	MaximumOther *Stats  `json:"maximum_other,omitempty"` // over the contexts of other topics or clusters
	PositiveFile string  `json:"positive_file"`
	MaximumFile  string  `json:"maximum_file"`
	OtherFile    string  `json:"maximum_other_file,omitempty"`
	OwnerFile    string  `json:"owner_file"`
	GeneralFile  string  `json:"general_file,omitempty"`

	scores scores
}

// Candidate is a score that the calibration compared, by its pseudo-queries: in scope as they are, out of scope with
// their own topic or cluster away. The cut-off of each fifth of the contexts comes from the other four.
type Candidate struct {
	Score    string  `json:"score"`
	Weight   float64 `json:"weight,omitempty"` // of the cover
	Opens    float64 `json:"opens"`            // share of the questions in scope
	KeepsOut float64 `json:"keeps_out"`        // share of the others
	Balanced float64 `json:"balanced_accuracy"`
	Low      float64 `json:"low"` // 95 % interval of Balanced, from contexts drawn with replacement
	High     float64 `json:"high"`
	AUROC    float64 `json:"auroc"`
}

// coverWeights are compared.
func coverWeights() []float64 { return []float64{.25, .5, .75, 1} }

// unmeasuredWeight is taken where a score with words is asked for and there are too few contexts to compare weights by.
const unmeasuredWeight = .5

const (
	coverPairs     = 100_000_000 // that are scored at most, if that leaves
	coverQueries   = 1000        // pseudo-queries
	candidateFolds = 5
	candidateDraws = 1000
)

// weigh scores the pseudo-queries by similarity and words, compares the candidates, and keeps the distributions of the
// weight that is wanted, or of the best.
func (in *Input) weigh(ctx context.Context, e engine.Interface, c *Calibration, p Policy, want *Score) error {
	weights := append([]float64{0}, coverWeights()...)
	if want != nil && want.Weight > 0 {
		weights = []float64{0, want.Weight}
	}
	groups, leftOut, err := in.leftOut(ctx, e)
	if err != nil {
		return err
	}
	sample := in.coverSample()
	scored := make([]scores, len(weights))
	for w := range scored {
		s := &scored[w]
		s.positive, s.maximum, s.owner = make([]float64, len(sample)), make([]float64, len(sample)),
			make([]int32, len(sample))
		if groups != nil {
			s.other = make([]float64, len(sample))
		}
		for i, j := range sample {
			s.owner[i] = in.Owner[j]
		}
	}
	if err := in.coverScores(ctx, e, sample, weights, groups, scored); err != nil {
		return err
	}
	if groups != nil {
		if c.Candidates, err = compare(ctx, workersOf(e), c.Metric, scored, p, in.Seed); err != nil {
			return err
		}
		for w, weight := range weights {
			c.Candidates[w].Score, c.Candidates[w].Weight = Score{Metric: c.Metric, Cover: weight > 0}.Name(), weight
		}
	}
	if in.choose(c, want, leftOut); len(c.Candidates) == 0 && want == nil {
		return nil // nothing to choose by: the similarity alone
	}
	best := slices.Index(weights, unmeasuredWeight) // also where the similarity is better: the score can still be had
	switch {
	case len(c.Candidates) > 0:
		best = 1 + winner(c.Candidates[1:])
	case len(weights) == 2:
		best = 1 // the one that was asked for
	}
	chosen := &scored[best]
	c.Cover = &Cover{Weight: weights[best], Queries: len(sample), scores: *chosen,
		Positive: tableOf(chosen.positive), Maximum: tableOf(chosen.maximum)}
	if groups != nil {
		t := tableOf(chosen.other)
		c.Cover.MaximumOther = &t
	}
	c.Cover.scores.general, err = in.generalCover(ctx, e, weights[best])
	return err
}

// choose sets the calibration's score and says why.
func (in *Input) choose(c *Calibration, want *Score, leftOut string) {
	switch {
	case want != nil:
		c.Score, c.Choice = want.Name(), "asked for"
		return
	case len(c.Candidates) == 0:
		c.Choice = "similarity alone: " + leftOut
		return
	}
	best := winner(c.Candidates)
	b := c.Candidates[best]
	c.Score = b.Score
	name := b.Score
	if b.Weight > 0 {
		name = fmt.Sprintf("%s with weight %g", b.Score, b.Weight)
	}
	if best == 0 {
		name += " alone"
	}
	c.Choice = fmt.Sprintf("%s: balanced accuracy %.4f (%.4f to %.4f), AUROC %.4f on questions whose %s is left out",
		name, b.Balanced, b.Low, b.High, b.AUROC, leftOut)
	if best > 0 {
		c.Choice += fmt.Sprintf("; %s alone has %.4f, %.4f", c.Metric, c.Candidates[0].Balanced, c.Candidates[0].AUROC)
	}
}

// winner is the candidate with the best AUROC of those whose balanced accuracy is within a standard error of the best
// one's: between equals, the statistic that rests on all scores is the steadier.
func winner(all []Candidate) (best int) {
	highest := slices.MaxFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Balanced, b.Balanced) })
	least := highest.Balanced - (highest.High-highest.Low)/(2*1.96)
	best = -1
	for i, c := range all {
		if c.Balanced >= least && (best < 0 || c.AUROC > all[best].AUROC) {
			best = i
		}
	}
	return best
}

// coverSample are the pseudo-queries that are scored, ascending: all, unless pairs are too many.
func (in *Input) coverSample() []int {
	n := min(in.Queries.Rows, max(coverPairs/in.Contexts.Rows, coverQueries))
	all := make([]int, in.Queries.Rows)
	for i := range all {
		all[i] = i
	}
	if n < len(all) {
		rand.New(rand.NewPCG(in.Seed, streamCover)).Shuffle(len(all),
			func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:n]
		slices.Sort(all)
	}
	return all
}

// coverBlock is how many numbers a block of cosines holds at most.
const coverBlock = 16 << 20

// coverScores fills in the scores of each weight: of the sampled pseudo-queries with their own context, and the best
// over all contexts and over those of other groups.
func (in *Input) coverScores(ctx context.Context, e engine.Interface, sample []int, weights []float64, groups []int32,
	out []scores) error {
	n, d, from := in.Contexts.Rows, in.Queries.Dim, 0
	for part := range slices.Chunk(sample, min(max(coverBlock/n, 1), 256)) {
		queries := engine.Vectors{Rows: len(part), Dim: d, Data: make([]float32, 0, len(part)*d)}
		for _, j := range part {
			queries.Data = append(queries.Data, row(in.Queries, j)...)
		}
		cosines := make([]float32, len(part)*n)
		if err := e.Matrix(ctx, cosines, queries, in.Contexts, in.Metric); err != nil {
			return err
		}
		err := workersOf(e).run(ctx, len(part), func(i int) error {
			return in.coverScore(part[i], from+i, cosines[i*n:][:n], weights, groups, out)
		})
		if err != nil {
			return err
		}
		from += len(part)
	}
	return nil
}

// coverScore fills in the scores of pseudo-query j, which is the sample's number at.
func (in *Input) coverScore(j, at int, cosines []float32, weights []float64, groups []int32, out []scores) error {
	q, err := in.Words.Index.Query(in.Words.Queries[j], postings.Scoring{Kind: postings.Cover})
	if err != nil {
		return err
	}
	s := pairScores{in: in, query: row(in.Queries, j), cosines: cosines, covers: make([]float32, len(cosines))}
	if err := in.biases(q, 1).Read(kernels.RowBlock{Number: -1, Len: len(cosines)}, s.covers); err != nil {
		return err
	}
	own := int(in.Owner[j])
	s.find(own, groups, slices.Max(weights))
	for w, weight := range weights {
		s.weigh(q, weight)
		out[w].positive[at] = s.exact(&s.own)
		out[w].maximum[at] = s.best(false)
		if groups != nil {
			out[w].other[at] = s.best(true)
		}
	}
	return nil
}

func row(v engine.Vectors, i int) []float32 {
	stride := max(v.Stride, v.Dim)
	return v.Data[i*stride:][:v.Dim]
}

// biases are those of a query by the calibration's contexts.
func (in *Input) biases(q *postings.Query, weight float64) kernels.Biases {
	b := q.Biases(weight)
	if in.Words.Rows == nil {
		return b
	}
	return b.Of(in.Words.Rows)
}

// pairScores scores one pseudo-query: nearly, from its cosines and covers, and exactly, as a decision does.
type pairScores struct {
	in              *Input
	query           []float32
	cosines, covers []float32
	weight          float64
	bias            *postings.Biases // nil without weight

	own  pairScore
	near []pairScore // the contexts that can be the best at some weight
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

func (s *pairScores) weigh(q *postings.Query, weight float64) {
	s.weight, s.bias = weight, nil
	if weight > 0 {
		s.bias = q.Biases(weight)
	}
}

// exact is the score of a context, with the bits of engine.TopK.
func (s *pairScores) exact(p *pairScore) float64 {
	if !p.known {
		p.known, p.similarity = true, ref.Score(s.in.Metric, s.query, row(s.in.Contexts, p.context))
	}
	if s.bias == nil {
		return p.similarity
	}
	at := p.context
	if s.in.Words.Rows != nil {
		at = s.in.Words.Rows[at]
	}
	return s.in.Metric.Biased(p.similarity, float64(s.bias.At(at)))
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

// generalCover are the best scores of the general questions.
func (in *Input) generalCover(ctx context.Context, e engine.Interface, weight float64) ([]float64, error) {
	if in.General.Rows == 0 || len(in.Words.General) != in.General.Rows {
		return nil, nil
	}
	bias := make([]engine.Biases, in.General.Rows)
	for i, text := range in.Words.General {
		q, err := in.Words.Index.Query(text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			return nil, err
		}
		bias[i] = in.biases(q, weight)
	}
	hits, err := e.TopK(ctx, in.General, in.Contexts, in.Metric, 1, bias)
	if err != nil {
		return nil, err
	}
	best := make([]float64, len(hits))
	for i, h := range hits {
		best[i] = h[0].Score
	}
	return best, nil
}

// compare finds out how well each score of the same questions tells those in scope from those whose group is left out.
func compare(ctx context.Context, run each, m kernels.Metric, scored []scores, p Policy, seed uint64) ([]Candidate,
	error) {
	cluster, n := clusters(scored[0].owner)
	size := make([]int, n)
	for _, k := range cluster {
		size[k]++
	}
	candidates, right := make([]Candidate, len(scored)), make([][]int, len(scored))
	for w := range scored {
		candidates[w], right[w] = scored[w].decided(m, p, cluster, n)
	}
	drawn := make([]float64, len(scored)*candidateDraws)
	err := run.run(ctx, candidateDraws, func(task int) error {
		rng, weight, all := newDraws(seed, streamCandidates+uint64(task), n), make([]int32, n), 0
		rng.into(weight)
		for k, times := range weight {
			all += int(times) * 2 * size[k]
		}
		for w := range right {
			sum := 0
			for k, times := range weight {
				sum += int(times) * right[w][k]
			}
			drawn[w*candidateDraws+task] = float64(sum) / float64(all)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for w := range candidates {
		d := drawn[w*candidateDraws:][:candidateDraws]
		slices.Sort(d)
		candidates[w].Low, candidates[w].High = ref.Quantile7(d, .025), ref.Quantile7(d, .975)
	}
	return candidates, nil
}

// decided lets cut-offs of the other folds decide the questions of each: the shares, and of each of n clusters how many
// decisions are right.
func (s *scores) decided(m kernels.Metric, p Policy, cluster []int32, n int) (c Candidate, right []int) {
	fold := func(i int) int { return int(cluster[i]) % candidateFolds }
	var cuts [candidateFolds]float64
	for f := range cuts {
		var fit []float64
		for i, x := range s.of(p) {
			if fold(i) != f || n < 2*candidateFolds {
				fit = append(fit, x)
			}
		}
		slices.Sort(fit)
		cuts[f] = p.value(m, fit)
	}
	opens, kept := make([]int, n), make([]int, n)
	for i := range s.maximum {
		k, cut := cluster[i], cuts[fold(i)]
		if m.Better(s.maximum[i], cut) {
			opens[k]++
		}
		if !m.Better(s.other[i], cut) {
			kept[k]++
		}
	}
	total := float64(len(s.maximum))
	right = make([]int, n)
	for k := range right {
		c.Opens += float64(opens[k]) / total
		c.KeepsOut += float64(kept[k]) / total
		right[k] = opens[k] + kept[k]
	}
	c.Balanced, c.AUROC = (c.Opens+c.KeepsOut)/2, auroc(m, s.maximum, s.other)
	return c, right
}
