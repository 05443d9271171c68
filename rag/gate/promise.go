package gate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
)

// conformalPrefix begins the names of policies whose cut-off keeps a promise (split conformal prediction: Vovk,
// Gammerman, Shafer, Algorithmic Learning in a Random World, 2005; Papadopoulos et al., ECML 2002):
//
//	conformal:A      P(closed | a question like the calibration's) ≤ A
//	conformal:/B     P(open | a question like those to be kept out) ≤ B
//	conformal:A/B    both
//	…:D              with confidence 1 − D over calibrations, instead of on average over them
const conformalPrefix = "conformal:"

// ErrPromise means that a promise cannot be made: there are too few questions, or both sides do not hold together.
var ErrPromise = errors.New("gate: the promise cannot be made")

// promised are the levels of a policy of the conformal kind; 0 is not asked for.
type promised struct{ closed, open, delta float64 }

// parsePromised reads what follows conformalPrefix.
func parsePromised(s string) (p promised, ok bool) {
	levels, delta, confident := strings.Cut(s, ":")
	closed, open, both := strings.Cut(levels, "/")
	for _, x := range []struct {
		text  string
		asked bool
		to    *float64
	}{{closed, closed != "" || !both, &p.closed}, {open, both, &p.open}, {delta, confident, &p.delta}} {
		if !x.asked {
			continue
		}
		v, err := strconv.ParseFloat(x.text, 64)
		if err != nil || !(v > 0 && v < 1) || strings.Trim(x.text, "0123456789.") != "" {
			return p, false
		}
		*x.to = v
	}
	return p, true
}

// Promise is what holds for decisions by a conformal cut-off, whatever the distribution of the scores: a question that
// is exchangeable with those of the calibration, one of each context, is decided wrongly with a probability of at most
// Level. It holds as long as the contexts do not change.
type Promise struct {
	Closed *Bound `json:"closed,omitempty"` // of a question like the calibration's
	Open   *Bound `json:"open,omitempty"`   // of a question like those to be kept out
	Seed   uint64 `json:"seed"`             // of which question of each context counts
}

// Bound is one side of a Promise.
type Bound struct {
	Level      float64 `json:"at_most"`
	Confidence float64 `json:"confidence,omitempty"` // over calibrations; 0: Level holds on average over them
	Of         int     `json:"of"`                   // scores that the cut-off comes from
	Rank       int     `json:"rank"`                 // the cut-off is at the score of this rank, from the wrong side
	Questions  string  `json:"questions"`            // whose scores these are
}

// Sentences returns the promise in words, one sentence for each side.
func (p *Promise) Sentences() (list []string) {
	if p == nil {
		return nil
	}
	for _, x := range []struct {
		*Bound
		wrong string
	}{{p.Closed, "are kept out"}, {p.Open, "are let through"}} {
		if x.Bound == nil {
			continue
		}
		s := fmt.Sprintf("at most %.3g %% of questions like the %s %s, on average over calibrations", 100*x.Level,
			x.Questions, x.wrong)
		if x.Confidence > 0 {
			s = fmt.Sprintf("with %.3g %% confidence, at most %.3g %% of questions like the %s %s", 100*x.Confidence,
				100*x.Level, x.Questions, x.wrong)
		}
		list = append(list, fmt.Sprintf("%s (the score at rank %d of %d)", s, x.Rank, x.Of))
	}
	return list
}

// rankOf returns the rank k of the score that the cut-off is put at, counted from the side where decisions are wrong,
// so that a new score is beyond it with a probability of at most level: ⌊level·(n+1)⌋ on average over calibrations.
// With confidence 1 − delta over calibrations k is the largest number for which Beta(k, n+1−k), the distribution of
// that probability over calibrations, exceeds level with a probability of at most delta (Vovk, Conditional validity of
// inductive conformal predictors, 2012). 0 means that n is too small.
func rankOf(n int, level, delta float64) int {
	if delta == 0 {
		return min(int(math.Floor(level*float64(n+1)+1e-9)), n)
	}
	k, below := 0, 0. // P(Bin(n, level) ≤ k − 1), which P(Beta(k, n+1−k) > level) equals
	for k < n {
		if below += binomial(n, k, level); below > delta {
			break
		}
		k++
	}
	return k
}

// binomial returns P(Bin(n, p) = k).
func binomial(n, k int, p float64) float64 {
	all, _ := math.Lgamma(float64(n + 1))
	in, _ := math.Lgamma(float64(k + 1))
	out, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(all - in - out + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// needed returns the least n for which rankOf is not 0.
func needed(level, delta float64) int {
	if delta == 0 {
		return int(math.Ceil(1/level - 1 - 1e-9))
	}
	return int(math.Ceil(math.Log(delta)/math.Log1p(-level) - 1e-9))
}

// atMost returns the upper Clopper–Pearson limit of a probability of which k of n draws were seen, at a confidence
// (Biometrika 26, 1934): the p at which so few are seen with a probability of 1 − confidence.
func atMost(k, n int, confidence float64) float64 {
	if k >= n {
		return 1
	}
	low, high := 0., 1.
	for range 60 {
		p := (low + high) / 2
		below := 0.
		for i := 0; i <= k && below <= 1-confidence; i++ {
			below += binomial(n, i, p)
		}
		if below > 1-confidence {
			low = p
		} else {
			high = p
		}
	}
	return high
}

const promiseConfidence = .95

// Sentences returns what a calibration promises: by its policy, or by questions about contexts that were held out, one
// of each context. Those bound the cut-off that the other contexts give.
func (c *Calibration) Sentences() []string {
	h := c.Holdout
	if c.Promise != nil || h == nil || h.Contexts == 0 {
		all := c.Promise.Sentences()
		if s := c.Domains.sentence(); s != "" {
			all = append(all, s)
		}
		return all
	}
	return []string{fmt.Sprintf("with %.3g %% confidence, at most %.3g %% of questions like the calibration's are kept "+
		"out (%d of %s, one question of each)", 100*promiseConfidence,
		100*atMost(h.ContextsSkipped, h.Contexts, promiseConfidence), h.ContextsSkipped,
		plural(h.Contexts, "held-out context"))}
}

// PromiseLabel returns the promise in a few words, for drawings; "" without one.
func (c *Calibration) PromiseLabel() string {
	h := c.Holdout
	if c.Promise == nil {
		if h == nil || h.Contexts == 0 {
			return ""
		}
		return fmt.Sprintf("P(closed) ≤ %.3g, 1 − δ = %g, n = %d held out",
			atMost(h.ContextsSkipped, h.Contexts, promiseConfidence), promiseConfidence, h.Contexts)
	}
	var parts []string
	for _, x := range []struct {
		*Bound
		format string
	}{{c.Promise.Closed, "α = %g, n = %d"}, {c.Promise.Open, "β = %g, n = %d"}} {
		if x.Bound == nil {
			continue
		}
		part := fmt.Sprintf(x.format, x.Level, x.Of)
		if x.Confidence > 0 {
			part += fmt.Sprintf(", 1 − δ = %g", x.Confidence)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// oneEach returns the score of one question of each context, or another value of it, because questions of one context
// are not exchangeable with those of others: which one follows from the seed.
func oneEach[T any](values []T, owner []int32, seed uint64) []T {
	cluster, n := clusters(owner)
	size := make([]int, n)
	for _, c := range cluster {
		size[c]++
	}
	rng, take := rand.New(rand.NewPCG(seed, streamPromise)), make([]int, n)
	for c := range take {
		take[c] = rng.IntN(size[c])
	}
	one := make([]T, 0, n)
	for i, c := range cluster {
		if take[c] == 0 {
			one = append(one, values[i])
		}
		take[c]--
	}
	return one
}

// bounded returns what is promised of scores at a level, and the score that the cut-off is put at: those beyond it are
// wrong, by sign the lower (1) or the higher ones (−1).
func bounded(level, delta float64, of side, sign float64) (*Bound, float64, error) {
	n := len(of.scores)
	b := &Bound{Level: level, Of: n, Rank: rankOf(n, level, delta), Questions: of.questions}
	if delta > 0 {
		b.Confidence = 1 - delta
	}
	if b.Rank == 0 {
		return nil, 0, fmt.Errorf("%w: at most %g needs %d %s, there are %d", ErrPromise, level, needed(level, delta),
			of.few, n)
	}
	ranked := sorted(of.scores)
	if sign < 0 {
		slices.Reverse(ranked)
	}
	return b, ranked[b.Rank-1], nil
}

// side holds the scores of the questions that belong on one side of a cut-off, whose they are, and what to say that
// there are too few of.
type side struct {
	scores         []float64
	questions, few string
}

// cut returns the cut-off that keeps what is promised of the own questions, and as open the loosest one that keeps what
// is promised of the others. Both hold together if open is not beyond value.
func (p promised) cut(sign float64, own, others side, seed uint64) (value, open float64, _ *Promise, err error) {
	promise := &Promise{Seed: seed}
	if p.closed > 0 {
		if promise.Closed, value, err = bounded(p.closed, p.delta, own, sign); err != nil {
			return 0, 0, nil, err
		}
		// The gate opens on strictly closer scores only: just beyond the score, a tie is open.
		value = math.Nextafter(value, math.Inf(-int(sign)))
	}
	open = value
	if p.open > 0 {
		promise.Open, open, err = bounded(p.open, p.delta, others, -sign)
	}
	if p.closed == 0 {
		value = open
	}
	return value, open, promise, err
}

// promise derives P of a conformal policy, and what holds then.
func (c *Calibration) promise(p promised) (value float64, _ *Promise, err error) {
	lists, seed := c.lists(), c.Bootstrap.Seed
	if lists.owner == nil || lists.maximum == nil {
		return 0, nil, fmt.Errorf("%w: the calibration does not hold the best scores of its questions; calibrate again",
			ErrPromise)
	}
	sign := 1. // below the cut-off the gate is closed
	if c.Metric.Ascending() {
		sign = -1
	}
	own := side{oneEach(lists.maximum, lists.owner, seed), "calibration's", "contexts with a question"}
	others, what := c.others()
	if p.open > 0 && c.byTopic() {
		others = oneEach(others, lists.owner, seed)
	}
	value, open, promise, err := p.cut(sign, own, side{others, what, what}, seed)
	if err == nil && sign*open > sign*value {
		err = fmt.Errorf("%w: both cannot hold with the score %s on this base: P(closed) ≤ %g takes a cut-off of %.4f, "+
			"P(open) ≤ %g one of %.4f", ErrPromise, c.ScoredBy().Name(), p.closed, value, p.open, open)
	}
	if err != nil {
		return 0, nil, err
	}
	return value, promise, nil
}

// isFixed reports whether a score is fixed before questions are seen. A weight that was chosen by the calibration's own
// questions, or a search among them, would make their scores unlike those of new questions.
func (s Score) isFixed() bool { return s.Kind == Similarity || s.Kind == Cover && s.Weight > 0 }

// PIn returns the conformal p-value of a score for "the question is like the calibration's": the share of the
// calibration's scores, one of each context and the new one, that are not closer. ok is false without those scores.
func (g *Gate) PIn(score float64) (p float64, ok bool) {
	if len(g.own) == 0 {
		return 0, false
	}
	return pValue(g.c.Metric, g.own, score), true
}

// pValue returns the share of scores, the farthest first, and of the new one that are not closer than the new one.
func pValue(m kernels.Metric, own []float64, score float64) float64 {
	notCloser := sort.Search(len(own), func(i int) bool { return m.Better(own[i], score) })
	return float64(1+notCloser) / float64(len(own)+1)
}

// ownScores returns one score of each context, the farthest first; nil if the calibration does not hold them.
func (c *Calibration) ownScores() []float64 {
	lists := c.lists()
	if lists.owner == nil || lists.maximum == nil {
		return nil
	}
	return farthestFirst(c.Metric, oneEach(lists.maximum, lists.owner, c.Bootstrap.Seed))
}

func farthestFirst(m kernels.Metric, scores []float64) []float64 {
	list := sorted(scores)
	if m.Ascending() {
		slices.Reverse(list)
	}
	return list
}
