package gate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
)

// Sufficiency says what a base can do for a question.
type Sufficiency string

// The verdicts. The gate says Outside, the second question the others: whether the passages that a search finds answer.
const (
	Answers   Sufficiency = "answers"
	TopicOnly Sufficiency = "topic only"
	Outside   Sufficiency = "outside"
)

// The policies of the second question: that of a calibration that names none, and none at all.
const (
	DefaultSecond = "conformal:0.1"
	NoSecond      = "off"
)

// NoSpan stands for the score of a reader that finds no span.
const NoSpan = -20.

// CheckSecond returns an error for text that is not a policy of the second question; "" is DefaultSecond where that is
// possible.
func CheckSecond(policy string) error {
	if policy == "" || policy == NoSecond {
		return nil
	}
	_, err := parseSecond(policy)
	return err
}

func parseSecond(policy string) (*promised, error) {
	p, err := ParsePolicy(policy)
	if err == nil && p.promised == nil {
		err = fmt.Errorf("%w: %q of the second question (known: conformal:A, conformal:/B, conformal:A/B, each also "+
			"with :D behind it, and %s)", ErrPolicy, policy, NoSecond)
	}
	return p.promised, err
}

// WithSecond returns a copy of the calibration with another policy of the second question; "" keeps it.
func (c *Calibration) WithSecond(policy string) (*Calibration, error) {
	if policy == "" {
		return c, nil
	}
	n := *c
	if n.Second, n.SecondOff = nil, policy == NoSecond; n.SecondOff {
		return &n, nil
	}
	if c.Second == nil {
		return nil, fmt.Errorf("%w: the calibration has no second question; calibrate again", ErrPromise)
	}
	var err error
	n.Second, err = c.Second.WithPolicy(policy, c.Second.Promise.Seed)
	return &n, err
}

// Features tell whether passages answer a question.
type Features struct {
	Evidence float64  `json:"evidence"`         // quote.Support.Score
	Reader   *float64 `json:"reader,omitempty"` // the best span's score above the null answer's
	Reranker *float64 `json:"reranker,omitempty"`
	Model    *float64 `json:"model,omitempty"` // the language model's log odds that the passages answer
}

// row returns the features as an example of a regression has them.
func (f Features) row() []float64 {
	x := []float64{1, f.Evidence}
	for _, more := range []*float64{f.Reader, f.Reranker, f.Model} {
		if more != nil {
			x = append(x, *more)
		}
	}
	return x
}

// Asked is a question of a calibration with what its passages show, as a search finds them and as it finds them without
// the question's own context.
type Asked struct {
	With, Without Features
	Found         bool // the question's own context is among the passages
}

// Second is the second question of a calibration. Its score is a sum of the features, weighted by how well each alone
// tells questions from the same ones without their own context, so that nobody labels anything; the topic stays, the
// answer goes. The cut-off comes from other contexts.
type Second struct {
	Policy   string    `json:"policy"`             // conformal:A[/B][:D]
	Reader   string    `json:"reader,omitempty"`   // digest of the reader whose score counts
	Reranker string    `json:"reranker,omitempty"` // likewise
	Model    string    `json:"model,omitempty"`    // likewise, of the language model's file; without one its name
	Weights  []float64 `json:"weights"`            // of 1, the evidence, and the scores of reader, reranker and model
	Fitted   int       `json:"fitted_contexts"`    // that the weights come from
	Cutoff   float64   `json:"cutoff"`             // log odds; passages answer above it
	Promise  *Promise  `json:"promise"`
	// AUROC is of the questions that the cut-off comes from with their own context among the passages, against the same
	// without it.
	AUROC   float64   `json:"auroc"`
	Caught  float64   `json:"caught"`  // share of Without at or below the cut-off
	With    []float64 `json:"with"`    // their log odds, ascending, one question of each context
	Without []float64 `json:"without"` // the same without their own context
}

// Of the contexts with a question a third gives the weights, at least these.
const (
	leastFitted = 10
	leastSecond = 19 // contexts that a second question takes, with DefaultSecond
)

// NewSecond makes the second question of questions about different contexts, in a random order. policy is as
// ParsePolicy takes a conformal one; "" is DefaultSecond. The error is ErrPromise where there are too few, or where the
// passages look the same without the questions' own contexts.
func NewSecond(policy string, seed uint64, asked []Asked) (*Second, error) {
	policy = cmp.Or(policy, DefaultSecond)
	if len(asked) < leastSecond {
		return nil, fmt.Errorf("%w: the second question takes questions about %d contexts, there are %d", ErrPromise,
			leastSecond, len(asked))
	}
	n := max(leastFitted, len(asked)/3)
	var with, without [][]float64
	for _, a := range asked[:n] {
		if a.Found {
			with, without = append(with, a.With.row()), append(without, a.Without.row())
		}
	}
	s := &Second{Fitted: n, Weights: discriminant(with, without, len(asked[0].With.row()))}
	if s.Weights[1] == 0 {
		return nil, fmt.Errorf("%w: passages without the questions' own contexts look no worse", ErrPromise)
	}
	var found, lost []float64
	for _, a := range asked[n:] {
		with, without := s.Score(a.With), s.Score(a.Without)
		s.With, s.Without = append(s.With, with), append(s.Without, without)
		if a.Found {
			found, lost = append(found, with), append(lost, without)
		}
	}
	slices.Sort(s.With)
	slices.Sort(s.Without)
	s.AUROC = auroc(kernels.IP, found, lost)
	return s.WithPolicy(policy, seed)
}

// leastVariance is added to the variance of a feature, which may be 0.
const leastVariance = 1e-3

// discriminant returns the weights of a sum of features that is the log odds of the first rows against the second ones,
// as naive Bayes has it for normal distributions of one variance: the difference of the means over the variance.
// A feature that is not higher in the first rows gets none. The first of the n features is 1 in every row.
func discriminant(with, without [][]float64, n int) []float64 {
	w := make([]float64, n)
	for k := 1; k < n; k++ {
		high, above := moments(with, k)
		low, below := moments(without, k)
		if high > low {
			w[k] = (high - low) / ((above+below)/2 + leastVariance)
			w[0] -= w[k] * (high + low) / 2
		}
	}
	return w
}

// moments returns the mean and the variance of a feature; 0 without rows.
func moments(rows [][]float64, k int) (mean, variance float64) {
	n := float64(max(1, len(rows)))
	for _, x := range rows {
		mean += x[k] / n
	}
	for _, x := range rows {
		variance += (x[k] - mean) * (x[k] - mean) / n
	}
	return mean, variance
}

// WithPolicy returns the second question with another policy.
func (s *Second) WithPolicy(policy string, seed uint64) (*Second, error) {
	p, err := parseSecond(policy)
	if err != nil {
		return nil, err
	}
	n := *s
	n.Policy = policy
	few := "contexts beside those of the weights"
	cut, open, promise, err := p.cut(1, side{s.With, "calibration's", few},
		side{s.Without, "calibration's without their own context", few}, seed)
	switch {
	case err != nil:
		return nil, err
	case open > cut:
		return nil, fmt.Errorf("%w: both sides of the second question cannot hold on this base: %s takes a cut-off of "+
			"at most %.4f and one of at least %.4f", ErrPromise, policy, cut, open)
	}
	n.Promise, n.Cutoff = promise, cut
	above := sort.Search(len(s.Without), func(i int) bool { return s.Without[i] > cut })
	n.Caught = share(above, len(s.Without))
	return &n, nil
}

// Score returns the log odds that passages answer.
func (s *Second) Score(f Features) (sum float64) {
	for k, x := range f.row() {
		sum += s.Weights[k] * x
	}
	return sum
}

// Sentences returns what is promised, one sentence for each side.
func (s *Second) Sentences() []string {
	if s == nil {
		return nil
	}
	all := s.Promise.Sentences()
	for i, text := range all {
		text = strings.Replace(text, "are kept out", "get \"topic only\" from the second question", 1)
		all[i] = strings.Replace(text, "are let through", "get \"answers\"", 1)
	}
	return all
}

// Promises returns what holds of the verdicts in sentences: of the gate, of the second question, and of both together.
func (c *Calibration) Promises() []string {
	all := append(c.Sentences(), c.Second.Sentences()...)
	if c.Second == nil || c.Second.Promise.Closed == nil {
		return all
	}
	first := math.NaN()
	switch h := c.Holdout; {
	case c.Promise != nil && c.Promise.Closed != nil:
		first = c.Promise.Closed.Level
	case c.Promise == nil && h != nil && h.Contexts > 0:
		first = atMost(h.ContextsSkipped, h.Contexts, promiseConfidence)
	}
	if !finite(first) {
		return all
	}
	return append(all, fmt.Sprintf("together at most %.3g %% of questions like the calibration's get another verdict "+
		"than %q", 100*min(1, first+c.Second.Promise.Closed.Level), Answers))
}

// check refuses what NewSecond does not make.
func (s *Second) check() error {
	if s == nil {
		return nil
	}
	features := 2
	for _, digest := range []string{s.Reader, s.Reranker, s.Model} {
		if digest != "" {
			features++
		}
	}
	switch {
	case len(s.Weights) != features:
		return fmt.Errorf("second: %d weights of %d features", len(s.Weights), features)
	case len(s.With) == 0 || len(s.With) != len(s.Without) || !slices.IsSorted(s.With) || !slices.IsSorted(s.Without):
		return errors.New("second: the scores are not two sorted lists")
	}
	for _, x := range slices.Concat(s.Weights, s.With, s.Without, []float64{s.AUROC}) {
		if !finite(x) {
			return fmt.Errorf("second: a number is %v", x)
		}
	}
	seed := uint64(0)
	if s.Promise != nil {
		seed = s.Promise.Seed
	}
	if n, err := s.WithPolicy(s.Policy, seed); err != nil {
		return fmt.Errorf("second: %w", err)
	} else if n.Cutoff != s.Cutoff || s.Promise == nil {
		return fmt.Errorf("second: policy %s is a cut-off of %v, the artifact says %v", s.Policy, n.Cutoff, s.Cutoff)
	}
	return nil
}

// SecondDecision says whether passages answer a question.
type SecondDecision struct {
	Verdict Sufficiency `json:"verdict"` // Answers or TopicOnly
	Features
	Score  float64 `json:"score"` // log odds
	Cutoff float64 `json:"cutoff"`
	// PIn is the conformal p-value of "the passages are like those of a question of the calibration": the share of its
	// scores and this one that are not higher.
	PIn     float64 `json:"p_in"`
	Policy  string  `json:"policy"`
	Warning string  `json:"warning,omitempty"` // the promise has lapsed
}

// Second returns the calibration's second question; nil without one.
func (g *Gate) Second() *Second { return g.c.Second }

// Promises is Calibration.Promises, or NoPromise if the contexts are not the calibration's any more.
func (g *Gate) Promises() []string {
	all := g.c.Promises()
	if len(all) > 0 && g.stale+g.gone > 0 {
		return []string{NoPromise}
	}
	return all
}

// NoPromise is said in place of promises that were made for other contexts: since then some came or went, or a key
// reads a part of them.
const NoPromise = "no promise: the calibration is of other contexts than these"

// DecideSecond decides by features whether passages answer. They must be those of the second question.
func (g *Gate) DecideSecond(f Features) (SecondDecision, error) {
	s := g.c.Second
	if s == nil || len(f.row()) != len(s.Weights) {
		return SecondDecision{}, fmt.Errorf("%w: the calibration has no second question of these features", ErrMismatch)
	}
	d := SecondDecision{Verdict: TopicOnly, Features: f, Score: s.Score(f), Cutoff: s.Cutoff, Policy: s.Policy}
	if d.Score > s.Cutoff {
		d.Verdict = Answers
	}
	higher := len(s.With) - sort.Search(len(s.With), func(i int) bool { return s.With[i] > d.Score })
	d.PIn = share(1+len(s.With)-higher, 1+len(s.With))
	if g.stale+g.gone > 0 {
		d.Warning = fmt.Sprintf("the promise of %s has lapsed, because the contexts are not those of the calibration "+
			"any more; calibrate again", s.Policy)
	}
	return d, nil
}
