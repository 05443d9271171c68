package gate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// ErrSplits: a calibration cannot be split as was asked for.
var ErrSplits = errors.New("gate: no such splits")

// Splits say how Coverage divides a calibration's contexts: at random into some that a cut-off comes from, and the
// others, which it is tested on.
type Splits struct {
	Contexts []int     // how many the cut-off comes from
	Levels   []float64 // that are promised, on average over calibrations
	// Confident are the levels that are promised with the confidence 1 − Delta as well.
	Confident []float64
	Delta     float64
	Times     int
	Seed      uint64
}

// The largest numbers that Splits take.
const (
	maxSplits    = 100_000
	maxSplitSets = 100 // of Contexts × (Levels and Confident)
)

func (s Splits) check(contexts int) error {
	for _, n := range s.Contexts {
		if n < 1 || n >= contexts {
			return fmt.Errorf("%w: %d of %d contexts with a question, some must be left to test the cut-off on", ErrSplits,
				n, contexts)
		}
	}
	for _, x := range slices.Concat(s.Levels, s.Confident) {
		if !(x > 0 && x < 1) {
			return fmt.Errorf("%w: a level of %v, it must be between 0 and 1", ErrSplits, x)
		}
	}
	sets := len(s.Contexts) * (len(s.Levels) + len(s.Confident))
	switch {
	case s.Times < 2 || s.Times > maxSplits:
		return fmt.Errorf("%w: %d splits, 2 to %d are possible", ErrSplits, s.Times, maxSplits)
	case sets < 1 || sets > maxSplitSets:
		return fmt.Errorf("%w: %d pairs of a number of contexts and a level, 1 to %d are possible", ErrSplits, sets,
			maxSplitSets)
	case len(s.Confident) > 0 && !(s.Delta > 0 && s.Delta < 1):
		return fmt.Errorf("%w: a delta of %v, it must be between 0 and 1", ErrSplits, s.Delta)
	}
	return nil
}

// Coverage compares what a policy promises with what it does over splits, one question of each context.
type Coverage struct {
	Policy   string  `json:"policy"`
	Contexts int     `json:"contexts"` // that the cut-off comes from
	Needed   int     `json:"needed"`   // that the policy takes
	Refused  bool    `json:"refused"`  // Contexts are fewer than Needed, and the rest is not known
	Tested   int     `json:"tested"`   // contexts that the cut-off is tested on
	Rank     int     `json:"rank"`
	Level    float64 `json:"at_most"`
	Closed   float64 `json:"closed"`         // mean share of the tested questions that are kept out
	Error    float64 `json:"standard_error"` // of Closed
	// Expected is the mean that is to be expected of continuous scores, Rank/(Contexts+1); ties are let through.
	Expected float64 `json:"expected"`
	Above    float64 `json:"above"` // share of the splits in which more than Level are kept out
	// AboveExpected is the exact probability of that for continuous scores: the number kept out is beta-binomial. Of
	// few tested questions more than Level are kept out more often than of all that there could be.
	AboveExpected float64          `json:"above_expected"`
	Holds         bool             `json:"holds"` // the promise, within three standard errors
	Domains       []DomainCoverage `json:"domains,omitempty"`
}

// DomainCoverage is what the cut-off of all and those by domain keep out of a domain's questions, on average over
// the splits that test some.
type DomainCoverage struct {
	Name   string  `json:"name"`
	Tested float64 `json:"tested"` // questions in a split
	ByAll  float64 `json:"closed_by_all"`
	// ByDomain is the share that is kept out by the cut-off of the domain, of the other domains, or of all (Domains).
	ByDomain float64 `json:"closed_by_domain"`
	Error    float64 `json:"standard_error"` // of ByDomain
}

// Coverage splits the calibration's contexts. The base holds all of them in every split, and the score is the one in
// force. Equal seeds give equal splits.
func (c *Calibration) Coverage(s Splits) (all []Coverage, err error) {
	lists, seed := c.lists(), c.Bootstrap.Seed
	if lists.owner == nil || lists.maximum == nil {
		return nil, fmt.Errorf("%w: the calibration does not hold the best scores of its questions; calibrate again",
			ErrPromise)
	}
	x := splitter{Splits: s, c: c, own: oneEach(lists.maximum, lists.owner, seed)}
	if c.Domains != nil && lists.domain != nil {
		x.of = oneEach(lists.domain, lists.owner, seed)
	}
	if err := s.check(len(x.own)); err != nil {
		return nil, err
	}
	for _, n := range s.Contexts {
		for i, level := range slices.Concat(s.Levels, s.Confident) {
			p := promised{closed: level}
			if i >= len(s.Levels) {
				p.delta = s.Delta
			}
			one, err := x.cover(n, p)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// splitter splits one question of each context.
type splitter struct {
	Splits
	c   *Calibration
	own []float64
	of  []int32 // their domains; nil without domains
}

// average is the mean of numbers and its standard error.
type average struct{ sum, squares, n float64 }

func (a *average) add(x float64) { a.sum, a.squares, a.n = a.sum+x, a.squares+x*x, a.n+1 }

func (a average) mean() float64 { return a.sum / max(a.n, 1) }

func (a average) error() float64 {
	return math.Sqrt(max(a.squares/max(a.n, 1)-a.mean()*a.mean(), 0) / max(a.n, 1))
}

// domainAverages are of one domain.
type domainAverages struct{ byAll, byDomain, tested average }

// cover splits off n contexts for a cut-off, Times times.
func (s *splitter) cover(n int, p promised) (Coverage, error) {
	policy, err := ParsePolicy(p.name())
	if err != nil {
		return Coverage{}, err
	}
	out := Coverage{Policy: policy.Name, Contexts: n, Needed: needed(p.closed, p.delta), Level: p.closed,
		Tested: len(s.own) - n}
	if out.Refused = n < out.Needed; out.Refused {
		return out, nil
	}
	random := rand.New(rand.NewPCG(s.Seed, streamSplits))
	var closed, above average
	var by []domainAverages
	if s.of != nil {
		by = make([]domainAverages, len(s.c.Domains.Names))
	}
	for range s.Times {
		order := random.Perm(len(s.own))
		x := s.calibrated(order[:n])
		cut, promise, err := x.promise(p)
		if err != nil {
			return out, err
		}
		out.Rank = promise.Closed.Rank
		share := s.closed(order[n:], cut, x.byDomain(policy), by)
		closed.add(share)
		above.add(map[bool]float64{true: 1}[share > p.closed])
	}
	out.Closed, out.Error, out.Above = closed.mean(), closed.error(), above.mean()
	out.Expected = float64(out.Rank) / float64(n+1)
	out.AboveExpected = exceeds(n, out.Rank, out.Tested, p.closed)
	out.Holds = out.holds(p.delta > 0, float64(s.Times))
	for k, a := range by {
		if a.byAll.n > 0 {
			out.Domains = append(out.Domains, DomainCoverage{Name: s.c.Domains.Names[k], Tested: a.tested.mean(),
				ByAll: a.byAll.mean(), ByDomain: a.byDomain.mean(), Error: a.byDomain.error()})
		}
	}
	return out, nil
}

// calibrated returns a calibration with the questions of some contexts.
func (s *splitter) calibrated(rows []int) *Calibration {
	x := &Calibration{Metric: s.c.Metric, Score: s.c.Metric.String()}
	if s.of != nil {
		x.Domains = s.c.Domains
	}
	for i, at := range rows {
		x.scores.maximum, x.scores.owner = append(x.scores.maximum, s.own[at]), append(x.scores.owner, int32(i))
		if s.of != nil {
			x.scores.domain = append(x.scores.domain, s.of[at])
		}
	}
	return x
}

// closed returns which share of the contexts' questions the cut-off of all keeps out, and adds to the averages of
// their domains.
func (s *splitter) closed(rows []int, cut float64, d *Domains, by []domainAverages) float64 {
	all, own, tested := make([]float64, len(by)), make([]float64, len(by)), make([]float64, len(by))
	n := 0.
	for _, at := range rows {
		isClosed := !s.c.Metric.Better(s.own[at], cut)
		if isClosed {
			n++
		}
		if by == nil {
			continue
		}
		k, mine := s.of[at], cut
		if x := d.find(d.Names[k]); x != nil {
			mine = x.Cutoff
		}
		tested[k]++
		if isClosed {
			all[k]++
		}
		if !s.c.Metric.Better(s.own[at], mine) {
			own[k]++
		}
	}
	for k := range by {
		by[k].tested.add(tested[k])
		if tested[k] > 0 {
			by[k].byAll.add(all[k] / tested[k])
			by[k].byDomain.add(own[k] / tested[k])
		}
	}
	return n / float64(len(rows))
}

func (p promised) name() string {
	text := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	name := conformalPrefix + text(p.closed)
	if p.delta > 0 {
		name += ":" + text(p.delta)
	}
	return name
}

// holds compares the averages of splits with what is promised.
func (x Coverage) holds(confident bool, splits float64) bool {
	return x.Closed <= x.Level+3*x.Error && (!confident ||
		x.Above <= x.AboveExpected+3*math.Sqrt(x.AboveExpected*(1-x.AboveExpected)/splits)+1e-9)
}

// exceeds returns the probability that more than level·m of m further scores are below the k-th smallest of n: the
// number below is beta-binomial with the parameters k and n+1−k.
func exceeds(n, k, m int, level float64) (p float64) {
	beta := func(a, b float64) float64 {
		x, _ := math.Lgamma(a)
		y, _ := math.Lgamma(b)
		z, _ := math.Lgamma(a + b)
		return x + y - z
	}
	choose := func(n, k float64) float64 { return -math.Log(n+1) - beta(n-k+1, k+1) }
	a, b := float64(k), float64(n+1-k)
	for j := range m + 1 {
		if float64(j) > level*float64(m) {
			p += math.Exp(choose(float64(m), float64(j)) + beta(float64(j)+a, float64(m-j)+b) - beta(a, b))
		}
	}
	return p
}
