package gate

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
)

// Grade says in a word what a calibration is worth.
type Grade string

// The grades.
const (
	GradeGood    Grade = "good"
	GradeFair    Grade = "fair"
	GradeWeak    Grade = "weak"
	GradeLittle  Grade = "too little" // evidence for any of the above
	GradeUnknown Grade = "unknown"    // what is kept out: there are no questions to tell by
)

// Evidence is what a calibration rests on, and how good its gate is by that. What it keeps out is estimated by the
// pseudo-queries with the contexts of their own topic away, as MaximumOther has it, where chunks have topics. Documents
// of one base are often about the same things, so where there are no topics it is estimated by general questions that
// have nothing to do with the base.
type Evidence struct {
	Contexts int `json:"contexts"` // that have pseudo-queries: what the cut-off is drawn from
	Least    int `json:"least"`    // contexts below which the policy's statistic is little more than one score
	Enough   int `json:"enough"`   // contexts from which its interval is bounded at both ends; 0: by none (min, max)
	InScope  int `json:"in_scope"` // questions that the base answers: held out, if there is a hold-out
	Opens    int `json:"opens"`    // of InScope
	Others   int `json:"others"`   // questions of other topics, or general ones
	KeptOut  int `json:"kept_out"` // of Others

	Grade    Grade    `json:"grade"`
	Verdict  string   `json:"verdict"`            // a sentence
	Warnings []string `json:"warnings,omitempty"` // sentences that belong beside every decision
}

// What the grades ask for.
const (
	goodShare = .9 // of the questions of other topics, kept out
	fairShare = .7
	openShare = .7 // of the questions in scope, which open
	minOthers = 10 // questions of other topics that a grade needs
	minSample = 5  // contexts, whatever the statistic
	minTail   = 20 // contexts, for an extreme
	wideShare = .25
)

// ErrThreshold is a threshold with which the gate decides nothing.
var ErrThreshold = errors.New("gate: the threshold leaves nothing to decide")

// CheckThreshold refuses thresholds that no policy of the metric leaves a decision with.
func CheckThreshold(m kernels.Metric, t float64) error {
	if m == kernels.Cosine && math.Abs(t) > 2 {
		return fmt.Errorf("%w: T = %g, but cosines lie between -1 and 1", ErrThreshold, t)
	}
	return nil
}

// checkCutoff refuses a threshold that puts the cut-off outside of all scores that were seen.
func (c *Calibration) checkCutoff() error {
	if c.Threshold == 0 { // the statistic of a distribution lies within it
		return nil
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range c.seen() {
		if s != nil && s.N > 0 {
			low, high = min(low, s.Min), max(high, s.Max)
		}
	}
	way := ""
	switch {
	case c.Cutoff > high:
		way = "above"
	case c.Cutoff < low:
		way = "below"
	default:
		return nil
	}
	opens := "always be open"
	if way == "above" != c.Metric.Ascending() {
		opens = "never open"
	}
	tight, loose := c.PolicyValue-high, c.PolicyValue-low
	if c.Metric.Ascending() {
		tight, loose = low-c.PolicyValue, high-c.PolicyValue
	}
	return fmt.Errorf("%w: T = %g puts the cut-off at %.4f, %s all scores of the calibration (%.4f to %.4f): the gate "+
		"would %s; T between %.4f and %.4f makes a difference", ErrThreshold, c.Threshold, c.Cutoff, way, low, high,
		opens, tight, loose)
}

// seen returns the tables of the scores that were seen.
func (c *Calibration) seen() []*Stats {
	positive, maximum, other := c.tables()
	if c.Chosen() != nil {
		return []*Stats{positive, maximum, other}
	}
	return []*Stats{positive, &c.Negative, maximum, other}
}

// bounds says from how many independent values on each end of an interval of the statistic is bounded by them: the
// smallest of n values lies below the p-quantile but for a probability of (1−p)ⁿ, which must not exceed half of what
// the level leaves. 0 is never.
func (p Policy) bounds(m kernels.Metric, level float64) (low, high int) {
	if p.mean {
		return 2 * minSample, 2 * minSample
	}
	from := func(p float64) int {
		if p <= 0 || p >= 1 {
			return 0
		}
		return int(math.Ceil(math.Log((1-level)/2) / math.Log(1-p)))
	}
	q := p.quantile(m)
	if q <= 0 {
		return 0, 1
	}
	if q >= 1 {
		return 1, 0
	}
	return from(q), from(1 - q)
}

// least is from how many values on the statistic is more than a single one.
func (p Policy) least(m kernels.Metric) int {
	if p.promised != nil { // too few are refused
		return minSample
	}
	q := p.quantile(m)
	tail := min(q, 1-q)
	switch {
	case p.mean:
		return minSample
	case tail <= 0:
		return minTail
	}
	return max(minSample, int(math.Ceil(1/tail-1e-9)))
}

// weigh fills in the evidence, once policy, cut-off, interval and hold-out are there.
func (c *Calibration) weigh(p Policy) {
	e := Evidence{Contexts: c.Queries.Sampled, Least: p.least(c.Metric)}
	if owner := c.lists().owner; owner != nil {
		_, e.Contexts = clusters(owner)
	}
	low, high := p.bounds(c.Metric, bootstrapLevel)
	if e.Enough = max(low, high); low == 0 || high == 0 {
		e.Enough = 0
	}
	c.Bootstrap.LowOpen = c.Bootstrap.Resamples > 0 && (low == 0 || e.Contexts < low)
	c.Bootstrap.HighOpen = c.Bootstrap.Resamples > 0 && (high == 0 || e.Contexts < high)
	others, _ := c.others()
	e.Others = len(others)
	e.KeptOut = e.Others - above(c.Metric, others, c.Cutoff)
	e.InScope, e.Opens = len(c.lists().maximum), above(c.Metric, c.lists().maximum, c.Cutoff)
	if h := c.Holdout; h != nil && h.InScope > 0 {
		e.InScope, e.Opens = h.InScope, h.Retrieved
	}
	e.Grade = e.grade()
	e.conclude(c)
	c.Evidence = e
}

// others returns the scores of questions that the gate should keep out, and what these are.
func (c *Calibration) others() (scores []float64, what string) {
	if c.byTopic() {
		return c.lists().other, "questions of other topics"
	}
	return c.lists().general, c.General.Words()
}

// Groups holds the questions of a calibration by what the gate should do with them, each with its best score over the
// contexts.
type Groups struct {
	Own      []float64 // the questions about the base's own contexts, for which the gate should open
	Others   []float64 // about other topics; empty if there are none to compare with
	ByTopic  bool      // Others are the own questions without the contexts of their topic
	Passages int       // that the own questions are about; 0 if that is not known
}

// Groups returns the questions of the calibration. positive, their scores with their own contexts, stands in where the
// calibration did not keep the best score of each. The caller must not modify the lists.
func (c *Calibration) Groups(positive []float64) Groups {
	all := c.lists()
	g := Groups{Own: all.maximum, ByTopic: c.byTopic()}
	g.Others, _ = c.others()
	if c.Chosen() != nil {
		positive = all.positive
	}
	if len(positive) == 0 || len(g.Own) == 0 {
		g.Own, g.Others, g.ByTopic = positive, nil, false
	}
	if len(all.owner) > 0 {
		_, g.Passages = clusters(all.owner)
	}
	return g
}

// byTopic reports whether questions of other topics are to be had.
func (c *Calibration) byTopic() bool { return c.Corpus.Topics && len(c.lists().other) > 0 }

func (e *Evidence) grade() Grade {
	kept := share(e.KeptOut, e.Others)
	switch {
	case e.Contexts < e.Least:
		return GradeLittle
	case e.InScope > 0 && share(e.Opens, e.InScope) < openShare:
		return GradeWeak
	case e.Others == 0:
		return GradeUnknown
	case e.Others < minOthers:
		return GradeLittle
	case kept >= goodShare:
		return GradeGood
	case kept >= fairShare:
		return GradeFair
	}
	return GradeWeak
}

const adviceQuestions = "write more questions (--sample), or use a larger model (--model)"

// conclude writes the verdict and the warnings.
func (e *Evidence) conclude(c *Calibration) {
	_, what := c.others()
	s := "it is not known what it keeps out"
	if e.Others > 0 {
		s = fmt.Sprintf("keeps out %d of %d %s", e.KeptOut, e.Others, what)
	}
	if e.InScope > 0 {
		s += fmt.Sprintf(", opens for %d of %d that the store answers", e.Opens, e.InScope)
	}
	switch e.Grade {
	case GradeLittle:
		little := e.little(c)
		e.Verdict = s + ": too little to rely on: " + little
		e.Warnings = append(e.Warnings, "the gate rests on too little: "+little)
	case GradeUnknown:
		e.Verdict = s
	case GradeWeak:
		e.Verdict = s + ": weak; " + adviceQuestions
		e.Warnings = append(e.Warnings, "the gate is weak: it "+s+"; "+adviceQuestions)
	default:
		e.Verdict = fmt.Sprintf("%s: %s", s, e.Grade)
	}
	e.doubt(c)
}

// little says what there is too little of, and what helps.
func (e *Evidence) little(c *Calibration) string {
	what := fmt.Sprintf("questions about %s, %s needs %d", plural(e.Contexts, "context"), c.Policy, e.Least)
	switch {
	case e.Contexts >= e.Least:
		return fmt.Sprintf("%s of other topics, it takes %d; %s", plural(e.Others, "question"), minOthers,
			adviceQuestions)
	case c.Corpus.Contexts < e.Least:
		return fmt.Sprintf("%s; the store has %d: add documents, or do without a gate, 'ask --gate open'", what,
			c.Corpus.Contexts)
	}
	return what + "; " + adviceQuestions
}

// doubt warns of an interval within which the gate would be another one.
func (e *Evidence) doubt(c *Calibration) {
	b := c.Bootstrap
	if b.Resamples == 0 || e.Grade == GradeLittle || e.Others == 0 {
		return
	}
	others, what := c.others()
	ends := [2]int{}
	for i, p := range []float64{b.Low, b.High} {
		ends[i] = e.Others - above(c.Metric, others, cutoff(c.Metric, p, c.Threshold))
	}
	if least, most := min(ends[0], ends[1]), max(ends[0], ends[1]); share(most-least, e.Others) > wideShare {
		e.Warnings = append(e.Warnings, fmt.Sprintf("the cut-off is uncertain: within its interval (%.4f to %.4f) the "+
			"gate keeps out from %d to %d of %d %s; write more questions (--sample)",
			cutoff(c.Metric, b.Low, c.Threshold), cutoff(c.Metric, b.High, c.Threshold), least, most, e.Others, what))
	}
}

// IntervalText returns the interval of P in words: what its contexts do not bound is said.
func (c *Calibration) IntervalText() string {
	b, e := c.Bootstrap, c.Evidence
	level := fmt.Sprintf("%.0f %% interval", 100*b.Level)
	takes := func(end string) string {
		if e.Enough == 0 {
			return fmt.Sprintf("; no number of contexts gives it %s", end)
		}
		return fmt.Sprintf("; it takes %d contexts for %s, there are %d", e.Enough, end, e.Contexts)
	}
	switch {
	case b.Resamples == 0:
		return ""
	case b.LowOpen && b.HighOpen:
		return "no " + level + takes("one")
	case b.LowOpen:
		return fmt.Sprintf("%s up to %.4f%s", level, b.High, takes("a lower end"))
	case b.HighOpen:
		return fmt.Sprintf("%s from %.4f%s", level, b.Low, takes("an upper end"))
	}
	return fmt.Sprintf("%s %.4f to %.4f", level, b.Low, b.High)
}

// NarrowInterval is how wide the interval of a policy's value may be, in the units of the score, for a calibration that
// finds out by itself how many questions it takes: the gate of such a one opens for 93.6 to 97.5 % of squad16's
// questions instead of 95 % (docs/adr/0019-evidence.md).
const NarrowInterval = .075

// IntervalWidth returns the width of the interval of P, infinite where one of its ends is open.
func (c *Calibration) IntervalWidth() float64 {
	if b := c.Bootstrap; b.Resamples > 0 && !b.LowOpen && !b.HighOpen {
		return b.High - b.Low
	}
	return math.Inf(1)
}

// SampleText says about how many contexts there are questions, and why about no more, where nobody said how many: ""
// where somebody did.
func (c *Calibration) SampleText() string {
	q := c.Queries
	asked := cmp.Or(q.Sample, q.Sampled)
	width := fmt.Sprintf("the interval is %.4f wide", c.IntervalWidth())
	if math.IsInf(c.IntervalWidth(), 1) {
		width = "the interval has an open end"
	}
	s := fmt.Sprintf("%d of %d contexts were asked about", asked, c.Corpus.Contexts)
	switch q.Ended {
	case "all":
		return "all contexts were asked about"
	case "interval":
		return fmt.Sprintf("%s: %s, %g is narrow enough; --sample N or all asks about more", s, width, NarrowInterval)
	case "contexts":
		return fmt.Sprintf("%s, the most unless --sample says more: %s, %g was wanted", s, width, NarrowInterval)
	case "time", "few":
		return fmt.Sprintf("%s in the time that it takes at most: %s, %g was wanted; 'sluice calibrate' goes on from "+
			"here", s, width, NarrowInterval)
	}
	return ""
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
