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

// Scored are the distributions of a score: of all pseudo-queries, or of a sample where pairs are many. A pseudo-query
// is not compared with itself.
type Scored struct {
	Weight       float64 `json:"weight,omitempty"` // of the cover
	Queries      int     `json:"queries"`          // pseudo-queries that were scored
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

// weight returns the weight of the cover, 0 if s is nil.
func (s *Scored) weight() float64 {
	if s == nil {
		return 0
	}
	return s.Weight
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

// candidate is a score that is compared, with the scores of the sampled pseudo-queries.
type candidate struct {
	score  Score
	scores scores
}

// candidates are the scores that are compared where that one is wanted; nil is the best.
func candidates(want *Score) (all []candidate) {
	list := []Score{{Metric: kernels.Cosine}}
	if want != nil && (want.Kind != Cover || want.Weight > 0) {
		list = append(list, *want)
	} else {
		for _, w := range coverWeights() {
			list = append(list, Score{Metric: kernels.Cosine, Kind: Cover, Weight: w})
		}
	}
	if want == nil {
		list = append(list, Score{Metric: kernels.Cosine, Kind: PseudoQuery})
	}
	for _, s := range list {
		all = append(all, candidate{score: s})
	}
	return all
}

// compares tells whether a score of that kind is compared unasked. One that searches the pseudo-queries needs them for
// most contexts: a question about a context without any is far from all pseudo-queries, and the comparison, which knows
// only contexts that have some, does not see that. In the demo 38 of 366 have some; see docs/adr/0018-gate.md.
// Questions that were extracted are nearer to each other than people's are to them
// (docs/adr/0020-extracted-questions.md).
func (in *Input) compares(k Kind) bool {
	return k != PseudoQuery || in.Provenance.Kind != "extracted" && 2*in.owners() >= in.Contexts.Rows
}

// owners counts the contexts that have pseudo-queries.
func (in *Input) owners() int {
	owners := slices.Clone(in.Owner)
	slices.Sort(owners)
	return len(slices.Compact(owners))
}

// weigh scores the pseudo-queries by the candidates, compares these, and keeps the distributions of the score that is
// wanted, or of the best.
func (in *Input) weigh(ctx context.Context, e engine.Interface, c *Calibration, p Policy, want *Score) error {
	all := candidates(want)
	groups, leftOut, err := in.leftOut(ctx, e)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(x candidate) bool { return want == nil && !in.compares(x.score.Kind) })
	r := &rater{in: in, sample: in.coverSample(), groups: groups, all: all}
	if err := r.rate(ctx, e); err != nil {
		return err
	}
	if groups != nil {
		if c.Candidates, err = compare(ctx, workersOf(e), c.Metric, all, p, in.Seed); err != nil {
			return err
		}
	}
	if in.choose(c, want, leftOut); len(c.Candidates) == 0 && want == nil {
		return nil // nothing to choose by: the similarity alone
	}
	for _, k := range c.kinds() {
		x := bestOf(k.kind, all, c.Candidates)
		// the cover is kept also where another score is better: it can still be had
		if x == nil || k.kind != Cover && c.Score != x.score.Name() {
			continue
		}
		if *k.of, err = r.keep(ctx, e, x); err != nil {
			return err
		}
		if k.kind == PseudoQuery {
			in.keepQuestions(c)
		}
	}
	return nil
}

// bestOf returns the best candidate of a kind, nil if there is no such candidate. If the best candidate overall is of
// this kind, it is returned without another comparison: the one-standard-error rule could pick a different winner among
// fewer candidates.
func bestOf(kind Kind, all []candidate, compared []Candidate) (best *candidate) {
	var some []int
	var of []Candidate
	for i := range all {
		if all[i].score.Kind != kind {
			continue
		}
		if some = append(some, i); len(compared) > 0 {
			of = append(of, compared[i])
		}
	}
	switch {
	case len(some) == 0:
		return nil
	case len(of) > 0:
		if i := winner(compared); all[i].score.Kind == kind {
			return &all[i]
		}
		return &all[some[winner(of)]]
	}
	for _, i := range some {
		if len(some) == 1 || all[i].score.Weight == unmeasuredWeight {
			best = &all[i]
		}
	}
	return best
}

// keepQuestions keeps the vectors of the pseudo-queries, for decisions.
func (in *Input) keepQuestions(c *Calibration) {
	c.QuestionContexts = make([]string, len(in.Owner))
	for j, o := range in.Owner {
		c.QuestionContexts[j] = in.ContextIDs[o]
	}
	c.questions = in.Queries
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
	c.Choice = fmt.Sprintf("%s: in %.1f %% of all pairs it puts a question above one whose own %s is left out", name,
		100*b.AUROC, leftOut)
	if best > 0 {
		c.Choice += fmt.Sprintf(", %s alone in %.1f %%", c.Metric, 100*c.Candidates[0].AUROC)
	}
	c.Choice += "; such pairs are the hardest to tell apart, and only choose the score"
}

// winner is the candidate with the best AUROC of those whose balanced accuracy is within a standard error of the best
// one's: between equals, the statistic that rests on all scores is the steadier. One that needs the pseudo-queries'
// vectors wins only where none of the simpler ones is among them (the one-standard-error rule of Breiman et al.,
// Classification and Regression Trees, 1984).
func winner(all []Candidate) (best int) {
	highest := slices.MaxFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Balanced, b.Balanced) })
	enough := highest.Balanced - (highest.High-highest.Low)/(2*1.96)
	best = -1
	for i, c := range all {
		if c.Balanced < enough {
			continue
		}
		switch {
		case best < 0, c.simple() && !all[best].simple(),
			c.simple() == all[best].simple() && c.AUROC > all[best].AUROC:
			best = i
		}
	}
	return best
}

// simple tells whether a decision by the score needs nothing but contexts and words.
func (c Candidate) simple() bool { return c.Score != string(PseudoQuery) }

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

func row(v engine.Vectors, i int) []float32 {
	stride := max(v.Stride, v.Dim)
	return v.Data[i*stride:][:v.Dim]
}

// biases returns the biases of a query, in the order of the calibration's contexts.
func (in *Input) biases(q *postings.Query, weight float64) kernels.Biases {
	b := q.Biases(weight)
	if in.Words.Rows == nil {
		return b
	}
	return b.Of(in.Words.Rows)
}

// compare finds out how well each score of the same questions tells those in scope from those whose group is left out.
func compare(ctx context.Context, run each, m kernels.Metric, all []candidate, p Policy, seed uint64) ([]Candidate,
	error) {
	cluster, n := clusters(all[0].scores.owner)
	size := make([]int, n)
	for _, k := range cluster {
		size[k]++
	}
	compared, right := make([]Candidate, len(all)), make([][]int, len(all))
	err := run.run(ctx, len(all), func(w int) error {
		compared[w], right[w] = all[w].decided(m, p, cluster, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	drawn := make([]float64, len(all)*candidateDraws)
	err = run.run(ctx, candidateDraws, func(task int) error {
		rng, weight, total := newDraws(seed, streamCandidates+uint64(task), n), make([]int32, n), 0
		rng.into(weight)
		for k, times := range weight {
			total += int(times) * 2 * size[k]
		}
		for w := range right {
			sum := 0
			for k, times := range weight {
				sum += int(times) * right[w][k]
			}
			drawn[w*candidateDraws+task] = float64(sum) / float64(total)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for w := range compared {
		d := drawn[w*candidateDraws:][:candidateDraws]
		slices.Sort(d)
		compared[w].Low, compared[w].High = ref.Quantile7(d, .025), ref.Quantile7(d, .975)
	}
	return compared, nil
}

// decided lets cut-offs of the other folds decide the questions of each: the shares, and of each of n clusters how many
// decisions are right.
func (x *candidate) decided(m kernels.Metric, p Policy, cluster []int32, n int) (c Candidate, right []int) {
	fold := func(i int) int { return int(cluster[i]) % candidateFolds }
	var cuts [candidateFolds]float64
	for f := range cuts {
		var fit []float64
		for i, v := range x.scores.of(p) {
			if fold(i) != f || n < 2*candidateFolds {
				fit = append(fit, v)
			}
		}
		slices.Sort(fit)
		cuts[f] = p.value(m, fit)
	}
	opens, kept := make([]int, n), make([]int, n)
	in, out := make([]float64, len(cluster)), make([]float64, len(cluster))
	for i, k := range cluster {
		s, cut := &x.scores, cuts[fold(i)]
		if in[i], out[i] = s.maximum[i], s.other[i]; m.Better(in[i], cut) {
			opens[k]++
		}
		if !m.Better(out[i], cut) {
			kept[k]++
		}
	}
	total := float64(len(cluster))
	right = make([]int, n)
	for k := range right {
		c.Opens += float64(opens[k]) / total
		c.KeepsOut += float64(kept[k]) / total
		right[k] = opens[k] + kept[k]
	}
	c.Score, c.Weight = x.score.Name(), x.score.Weight
	c.Balanced, c.AUROC = (c.Opens+c.KeepsOut)/2, auroc(m, in, out)
	return c, right
}
