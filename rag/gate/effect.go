package gate

import (
	"math"
	"slices"

	"github.com/sluice-rag/sluice/kernels"
)

// Effect holds what a user interface needs to show, without another calibration, the effect of other policies and
// thresholds of one score. With a policy's value P and a threshold T, the gate opens for the scores of InScope that are
// closer than Held − T (l2: Held + T), and stays closed for the scores of Others that are not closer than P − T.
// WithPolicy reports the same numbers as Evidence.
type Effect struct {
	Score    string  `json:"score"`              // name of a Score
	Weight   float64 `json:"weight,omitempty"`   // of the cover
	InForce  bool    `json:"in_force"`           // the score of the calibration
	Distance bool    `json:"distance,omitempty"` // smaller is closer: the cut-off is P + T
	// Low and High bound all observed scores. Only a cut-off between them separates questions.
	Low      float64       `json:"low"`
	High     float64       `json:"high"`
	Policies []PolicyValue `json:"policies"` // the calibration's policy first, then from loose to strict
	InScope  []float64     `json:"in_scope"` // best scores of questions that the base answers, ascending
	HeldOut  bool          `json:"held_out"` // InScope comes from contexts held out of Held
	Others   []float64     `json:"others"`   // best scores of questions to be kept out, ascending
	What     string        `json:"others_are"`
	EachOf   [2]int        `json:"each_of"` // scores per entry of InScope and of Others; 1: not thinned
	Shapes   []Histogram   `json:"histograms"`
	Bounds   [2]float64    `json:"bounds"` // of the histograms' axis
}

// PolicyValue is P of one policy.
type PolicyValue struct {
	Policy string  `json:"policy"`
	Value  float64 `json:"value"` // P, of all pseudo-queries
	Held   float64 `json:"held"`  // P without held-out questions; Value if nothing is held out
}

// Histogram counts a distribution in equal bins between Effect.Bounds.
type Histogram struct {
	Kind   string  `json:"kind"` // "positive", "negative", "maximum" or "others"
	N      int64   `json:"n"`
	Counts []int64 `json:"counts"`
}

const (
	effectScores = 4096 // limit of the length of InScope and Others
	effectBins   = 64
)

// Effects returns the effect of each score that the calibration holds distributions of, the score in force first.
func (c *Calibration) Effects() []Effect {
	list := []Effect{c.effect()}
	list[0].InForce = true
	names := []string{c.Metric.String()}
	for _, k := range c.kept() {
		names = append(names, Score{Metric: c.Metric, Kind: k.kind}.Name())
	}
	for _, name := range names {
		if name != c.ScoredBy().Name() {
			other := *c
			other.Score = name
			list = append(list, other.effect())
		}
	}
	return list
}

// effect computes the effect of the score in force.
func (c *Calibration) effect() Effect {
	s := c.ScoredBy()
	e := Effect{Score: s.Name(), Weight: s.Weight, Distance: c.Metric.Ascending(), EachOf: [2]int{1, 1}}
	e.Low, e.High = math.Inf(1), math.Inf(-1)
	for _, t := range c.seen() {
		if t != nil && t.N > 0 {
			e.Low, e.High = min(e.Low, t.Min), max(e.High, t.Max)
		}
	}
	lists, fit, inScope := c.lists(), *c.lists(), c.lists().maximum
	if h := c.Holdout; h != nil {
		if kept, held, ok := lists.split(h.Share, c.Bootstrap.Seed); ok {
			fit, inScope, e.HeldOut = kept, held.maximum, true
		}
	}
	for _, name := range append([]string{c.Policy}, alternatives...) {
		p, err := ParsePolicy(name)
		if err != nil || len(lists.of(p)) == 0 || slices.ContainsFunc(e.Policies,
			func(v PolicyValue) bool { return v.Policy == p.Name }) {
			continue
		}
		v := PolicyValue{Policy: p.Name, Value: p.value(c.Metric, sorted(lists.of(p)))}
		if p.promised != nil {
			v.Value = c.PolicyValue
		}
		if v.Held = v.Value; e.HeldOut {
			v.Held = p.value(c.Metric, sorted(fit.of(p)))
		}
		e.Policies = append(e.Policies, v)
	}
	others, what := c.others()
	e.What = what
	e.InScope, e.EachOf[0] = thinned(inScope)
	e.Others, e.EachOf[1] = thinned(others)
	e.shapes(c, lists, others)
	return e
}

// thinned returns at most effectScores evenly spaced values of sorted v, and how many values each represents.
func thinned(v []float64) (list []float64, each int) {
	all := sorted(v)
	each = max(1, (len(all)+effectScores-1)/effectScores)
	if each == 1 {
		return all, 1
	}
	for i := each / 2; i < len(all); i += each {
		list = append(list, all[i])
	}
	return list, each
}

// shapes counts the histograms over one axis.
func (e *Effect) shapes(c *Calibration, lists *scores, others []float64) {
	low, high := min(e.Low, c.Cutoff), max(e.High, c.Cutoff)
	for _, x := range others {
		low, high = min(low, x), max(high, x)
	}
	if low == high {
		low, high = low-.5, high+.5 // a single score
	}
	e.Bounds = [2]float64{low, high}
	add := func(kind string, v []float64) {
		if len(v) == 0 {
			return
		}
		h := Histogram{Kind: kind, N: int64(len(v)), Counts: make([]int64, effectBins)}
		for _, x := range v {
			h.Counts[min(max(int((x-low)/(high-low)*effectBins), 0), effectBins-1)]++
		}
		e.Shapes = append(e.Shapes, h)
	}
	add("positive", lists.positive)
	if len(c.NegativeHistogram) > 0 && c.Chosen() == nil { // only similarities of pairs are counted
		e.Shapes = append(e.Shapes, Histogram{Kind: "negative", N: c.Negative.N,
			Counts: rebin(c.NegativeHistogram, c.Negative.Min, c.Negative.Max, low, high)})
	}
	add("maximum", lists.maximum)
	add("others", others)
}

// rebin converts a histogram with equal bins between first and last into one between low and high. It assumes that
// counts are spread evenly within a bin.
func rebin(from []int64, first, last, low, high float64) []int64 {
	below := make([]int64, len(from)+1) // counts below each edge
	for i, n := range from {
		below[i+1] = below[i] + n
	}
	total := below[len(from)]
	at := func(x float64) int64 { // interpolated count below x
		if x >= last {
			return total
		}
		if x <= first {
			return 0
		}
		place := (x - first) / (last - first) * float64(len(from))
		i := min(int(place), len(from)-1)
		return below[i] + int64((place-float64(i))*float64(from[i]))
	}
	counts := make([]int64, effectBins)
	seen := int64(0)
	for i := range counts {
		next := at(low + (high-low)*float64(i+1)/effectBins)
		if i == effectBins-1 {
			next = total
		}
		counts[i], seen = next-seen, next
	}
	return counts
}

// Opens counts the scores of v, in any order, for which a gate with the given cut-off opens.
func (e *Effect) Opens(v []float64, cutoff float64) int {
	m := kernels.Cosine
	if e.Distance {
		m = kernels.L2
	}
	return above(m, v, cutoff)
}
