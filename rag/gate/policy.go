package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Policy is a statistic of D+ or of the maximum distribution; its value is P, before the threshold T.
type Policy struct {
	Name    string  // canonical spelling, as artifacts keep it
	Maximum bool    // of the maximum distribution instead of D+
	mean    bool    // the mean; else a quantile
	density bool    // p counts from the far end: the mirrored quantile for l2
	p       float64 // quantile in [0, 1]

	promised *promised // of a conformal policy: P is not a statistic but follows from what is promised
}

const maximumPrefix = "maximum:"

// named are the quantiles with a name of their own.
var named = map[string]float64{"min": 0, "q1": .25, "median": .5, "q3": .75, "max": 1}

// ParsePolicy reads min, q1, mean, median, q3, max, pNN with or without decimals (p5, p97.5), and
// density:NN, each of D+ or, after "maximum:", of the maximum distribution. Names are statistics of the
// raw scores: p5 is the 5 % quantile whatever the metric. density:NN is the value that NN % of the scores
// are closer than: p(100−NN) for similarities (the spelling of the authors' code) and pNN for distances.
// Names that begin with conformalPrefix say what is promised.
func ParsePolicy(s string) (Policy, error) {
	p := Policy{Name: s}
	if levels, ok := strings.CutPrefix(s, conformalPrefix); ok {
		promised, ok := parsePromised(levels)
		if !ok {
			return Policy{}, fmt.Errorf("%w: %q (known: conformal:A, conformal:/B, conformal:A/B, each also with :D "+
				"behind it; A, B and D between 0 and 1)", ErrPolicy, s)
		}
		p.promised, p.Maximum, p.density, p.p = &promised, true, true, promised.closed
		return p, nil
	}
	var name string
	name, p.Maximum = strings.CutPrefix(s, maximumPrefix)
	if q, ok := named[name]; ok {
		p.p = q
		return p, nil
	}
	if name == "mean" {
		p.mean = true
		return p, nil
	}
	percent, isDensity := strings.CutPrefix(name, "density:")
	percent, isQuantile := strings.CutPrefix(percent, "p")
	v, ok := parsePercent(percent)
	if isDensity == isQuantile || !ok {
		return Policy{},
			fmt.Errorf("%w: %q (known: min, q1, mean, median, q3, max, p0 to p100, density:0 to density:100; each "+
				"also as maximum:…; conformal:A)", ErrPolicy, s)
	}
	if p.density = isDensity; isDensity {
		v = 100 - v
	}
	p.p = v / 100
	return p, nil
}

// parsePercent reads plain decimals from 0 to 100: no sign, exponent, or hexadecimal.
func parsePercent(s string) (float64, bool) {
	if s == "" || s[0] == '.' || s[len(s)-1] == '.' || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v <= 100
}

// quantile returns the share of scores below P.
func (p Policy) quantile(m kernels.Metric) float64 {
	if p.density && m.Ascending() {
		return 1 - p.p
	}
	return p.p
}

// value is P of the scores, which must be sorted ascending and not empty.
func (p Policy) value(m kernels.Metric, sorted []float64) float64 {
	if p.mean {
		return mean(sorted)
	}
	return ref.Quantile7(sorted, p.quantile(m))
}

// cutoff loosens P by T: P − T, for distances P + T.
func cutoff(m kernels.Metric, p, t float64) float64 {
	if m.Ascending() {
		return p + t
	}
	return p - t
}

// ParseNegatives reads which pairs make up D−: "all", "cross-topic", or "sample:N" foreign contexts for
// each pseudo-query, drawn from seed. "" is DefaultNegatives.
func ParseNegatives(s string, seed uint64) (engine.Negatives, error) {
	switch s {
	case "", DefaultNegatives:
		return engine.Negatives{Kind: engine.NegativesAll}, nil
	case "cross-topic":
		return engine.Negatives{Kind: engine.NegativesCrossGroup}, nil
	}
	if count, ok := strings.CutPrefix(s, "sample:"); ok {
		if n, err := strconv.ParseUint(count, 10, 31); err == nil && n > 0 && n <= maxNegatives {
			return engine.Negatives{Kind: engine.NegativesSample, PerQuery: int(n), Seed: seed}, nil
		}
	}
	return engine.Negatives{},
		fmt.Errorf("%w: negatives %q (known: all, cross-topic, sample:N with N from 1 to %d)", ErrPolicy, s,
			maxNegatives)
}

// maxNegatives of a pseudo-query: more than there are contexts are all of them.
const maxNegatives = 999_999_999

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func sorted(v []float64) []float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return s
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
