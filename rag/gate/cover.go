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

// Words holds the texts of a calibration's vectors, for scores that combine words with similarity.
type Words struct {
	Index   *postings.Index
	Rows    []int    // rows of the contexts in Index, ascending; nil: the same rows
	Queries []string // texts of the pseudo-queries
	General []string // texts of the general questions
}

// Scored holds the distributions of a score over all pseudo-queries, or over a sample if there are too many pairs. A
// pseudo-query is not compared with itself.
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
	DomainFile   string  `json:"domain_file,omitempty"`
	GeneralFile  string  `json:"general_file,omitempty"`

	scores scores
}

// Candidate is a score that the calibration compared. Each pseudo-query counts once as in scope, and once as out of
// scope with its own topic or cluster left out of the contexts. The comparison uses five-fold cross-validation over the
// contexts.
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

func coverWeights() []float64 { return []float64{.25, .5, .75, 1} }

// unmeasuredWeight is the weight of the cover if a score with words is requested and there are too few contexts to
// compare weights.
const unmeasuredWeight = .5

const (
	coverPairs     = 100_000_000 // limit of scored pairs, unless that leaves fewer than
	coverQueries   = 1000        // pseudo-queries
	candidateFolds = 5
	candidateDraws = 1000
)

// candidate is a score to compare, with the scores of the sampled pseudo-queries.
type candidate struct {
	score  Score
	scores scores
}

// candidates returns the scores to compare if want is requested; nil requests the best score.
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

// compares reports whether scores of a kind are compared by default. A score that searches the pseudo-queries needs
// them for most contexts: a question about a context without any is far from all pseudo-queries, and the comparison,
// which knows only contexts that have some, does not see that (docs/adr/0018-gate.md). Extracted questions are excluded
// because they are nearer to each other than questions of people are to them (docs/adr/0020-extracted-questions.md).
func (in *Input) compares(k Kind) bool {
	return k != PseudoQuery || in.Provenance.Kind != "extracted" && 2*in.owners() >= in.Contexts.Rows
}

// owners counts the contexts that have pseudo-queries.
func (in *Input) owners() int {
	owners := slices.Clone(in.Owner)
	slices.Sort(owners)
	return len(slices.Compact(owners))
}

// weigh scores the pseudo-queries by each candidate, compares the candidates, and keeps the distributions of the
// requested score, or else of the best one.
func (in *Input) weigh(ctx context.Context, e engine.Interface, c *Calibration, p Policy, want *Score) error {
	all := candidates(want)
	groups, leftOut, err := in.leftOut(ctx, e)
	if err != nil {
		return err
	}
	if in.Counts != nil {
		groups = in.Counts.LeftOut
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
		return nil // too few contexts to compare scores: use the similarity alone
	}
	for _, k := range c.kinds() {
		x := bestOf(k.kind, all, c.Candidates)
		// the cover is kept even if another score is better, so that it can be selected later
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

// choose sets the calibration's score and the reason for it.
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

// winner returns the candidate with the best AUROC among those whose balanced accuracy is within one standard error of
// the highest. AUROC breaks the tie because it depends on all scores and so varies less. A candidate that needs the
// vectors of the pseudo-queries wins only if no simpler candidate is within that range (the one-standard-error rule of
// Breiman et al., Classification and Regression Trees, 1984).
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

// simple reports whether a decision by the score needs only contexts and words.
func (c Candidate) simple() bool { return c.Score != string(PseudoQuery) }

// coverSample returns the indices of the pseudo-queries to score, ascending: all, unless there are too many pairs.
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

// compare measures how well each score separates questions in scope from the same questions with their group left out.
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

// decided decides the questions of each fold with the cut-off of the other folds. It returns the shares of right
// decisions and, for each of n clusters, the number of right decisions.
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
