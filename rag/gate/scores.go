package gate

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// scores are the distributions that are kept whole: one entry per pseudo-query, in query order (but for general). Only
// positive is always there; without the others an artifact cannot be given a policy of the maximum
// distribution (maximum), a bootstrap interval or a hold-out report (owner, maximum, other).
type scores struct {
	positive, maximum []float64
	other             []float64 // best over the contexts of other groups; nil with a single group
	owner             []int32   // row of the query's own context when it was calibrated
	domain            []int32   // its number in Calibration.Domains.Names; nil without domains
	general           []float64 // best over all contexts, of questions that have nothing to do with them; may be nil
}

// of returns the scores that the policy is a statistic of.
func (s scores) of(p Policy) []float64 {
	if p.Maximum {
		return s.maximum
	}
	return s.positive
}

// The streams of random numbers that one seed gives.
const (
	streamBootstrap  = 1
	streamHoldout    = 2
	streamCover      = 3
	streamClusters   = 4
	streamPromise    = 5
	streamMartingale = 6
	streamSplits     = 7
	streamCandidates = 1 << 32 // and the numbers behind it
)

// clusters numbers the owners 0, 1, … and counts them.
func clusters(owner []int32) (cluster []int32, n int) {
	number := make(map[int32]int32)
	cluster = make([]int32, len(owner))
	for i, o := range owner {
		c, ok := number[o]
		if !ok {
			c = int32(len(number))
			number[o] = c
		}
		cluster[i] = c
	}
	return cluster, len(number)
}

// bootstrap is the percentile interval (Efron & Tibshirani, An Introduction to the Bootstrap, 1993,
// ch. 13) of the policy's value when whole contexts are drawn with replacement: the queries of one
// context are not independent, so queries drawn one by one would make the interval too narrow. Equal
// seeds give equal intervals. The scores are sorted once; a resample is a weight for each context and
// one walk up to the wanted rank.
func bootstrap(ctx context.Context, e each, p Policy, m kernels.Metric, values []float64, owner []int32,
	b Interval) (Interval, error) {
	cluster, n := clusters(owner)
	order := make([]int, len(values))
	size, sum := make([]int, n), make([]float64, n)
	for i, c := range cluster {
		order[i] = i
		size[c]++
		sum[c] += values[i]
	}
	sort.Slice(order, func(i, j int) bool { return values[order[i]] < values[order[j]] })
	alike := !slices.ContainsFunc(size, func(k int) bool { return k != size[0] })
	drawn := make([]float64, b.Resamples)
	first := newDraws(b.Seed, streamBootstrap, n)
	value := func(weight []int32) (drawn float64) {
		total := n * size[0]
		if !alike {
			total = 0
			for c, w := range weight {
				total += int(w) * size[c]
			}
		}
		if !p.mean {
			return weightedQuantile(p.quantile(m), total, order, values,
				func(i int) int { return int(weight[cluster[i]]) })
		}
		for c, w := range weight {
			drawn += float64(w) * sum[c]
		}
		return drawn / float64(total)
	}
	var again atomic.Uint64
	shares := min(e.shares(), b.Resamples)
	err := e.run(ctx, shares, func(task int) error {
		from, to := task*b.Resamples/shares, (task+1)*b.Resamples/shares
		weight, other := make([]int32, n), make([]int32, n)
		rng := first.after(uint64(from) * uint64(n))
		for r := from; r < to; r += 2 {
			if err := ctx.Err(); err != nil {
				return err
			}
			clear(weight)
			clear(other)
			next := rng.after(uint64(n))
			again.Add(rng.beside(&next, weight, other))
			if drawn[r] = value(weight); r+1 < to {
				drawn[r+1] = value(other)
			}
			rng = next
		}
		return nil
	})
	for r, weight := 0, make([]int32, n); err == nil && again.Load() > 0 && r < b.Resamples; r++ {
		clear(weight) // where later resamples begin was a wrong guess: one after the other
		first.into(weight)
		drawn[r], err = value(weight), ctx.Err()
	}
	if err != nil {
		return b, err
	}
	slices.Sort(drawn)
	b.Low = Policy{p: (1 - b.Level) / 2}.value(m, drawn)
	b.High = Policy{p: (1 + b.Level) / 2}.value(m, drawn)
	return b, nil
}

// weightedQuantile returns the type-7 quantile of the multiset that holds values[i] weight(i) times; total is
// the sum of the weights, order sorts the values.
func weightedQuantile(p float64, total int, order []int, values []float64, weight func(int) int) float64 {
	rank, f := ref.Rank7(int64(total), p)
	var seen int64
	low, found := 0., false
	for _, i := range order {
		seen += int64(weight(i))
		if !found && seen > rank {
			low, found = values[i], true
		}
		if found && (f == 0 || seen > rank+1) {
			return ref.Interpolate7(low, values[i], f)
		}
	}
	return low
}

// auroc returns the probability that an in-scope score is closer than an out-of-scope one, ties counted half.
func auroc(m kernels.Metric, in, out []float64) float64 {
	far := sorted(out)
	var wins float64
	for _, x := range in {
		below := sort.SearchFloat64s(far, x)
		notAbove := sort.Search(len(far), func(i int) bool { return far[i] > x })
		if m.Ascending() {
			wins += float64(len(far) - notAbove)
		} else {
			wins += float64(below)
		}
		wins += .5 * float64(notAbove-below)
	}
	return wins / (float64(len(in)) * float64(len(out)))
}

// alternatives are the policies that the hold-out report compares, from loose to strict.
var alternatives = []string{
	"density:99", "density:95", "density:90", "density:75", "median",
	"maximum:density:100", "maximum:density:99", "maximum:density:98", "maximum:density:95", "maximum:density:90",
	"maximum:density:75",
}

// split takes a share of the contexts that have pseudo-queries out: held are the scores of their pseudo-queries, fit
// the other ones'. ok is false when fewer than two contexts have pseudo-queries or the maximum distribution is not
// kept.
func (s scores) split(share float64, seed uint64) (fit, held scores, ok bool) {
	cluster, n := clusters(s.owner)
	if n < 2 || s.maximum == nil {
		return fit, held, false
	}
	out := make([]bool, n)
	take := min(max(int(math.Round(share*float64(n))), 1), n-1)
	for _, c := range rand.New(rand.NewPCG(seed, streamHoldout)).Perm(n)[:take] {
		out[c] = true
	}
	for i, c := range cluster {
		to := &fit
		if out[c] {
			to = &held
			if s.other != nil {
				held.other = append(held.other, s.other[i])
			}
		}
		to.positive = append(to.positive, s.positive[i])
		to.maximum = append(to.maximum, s.maximum[i])
		to.owner = append(to.owner, s.owner[i])
	}
	return fit, held, true
}

// holdout takes a share of the contexts that have pseudo-queries out, derives the policy's cut-off from
// the rest and lets the gate decide the pseudo-queries of those taken out. It is nil when fewer than two
// contexts have pseudo-queries or the maximum distribution is not kept.
func (s scores) holdout(p Policy, m kernels.Metric, threshold, share float64, seed uint64) *Holdout {
	fit, held, ok := s.split(share, seed)
	if !ok {
		return nil
	}
	slices.Sort(fit.positive)
	slices.Sort(fit.maximum)
	h := &Holdout{Share: share, InScope: len(held.maximum), OutOfScope: len(held.other)}
	decide := func(p Policy) Alternative {
		a := Alternative{Policy: p.Name, Cutoff: cutoff(m, p.value(m, fit.of(p)), threshold)}
		a.Retrieved, a.FalseRetrieve = above(m, held.maximum, a.Cutoff), above(m, held.other, a.Cutoff)
		return a
	}
	own := decide(p)
	h.Cutoff, h.Retrieved, h.FalseRetrieve = own.Cutoff, own.Retrieved, own.FalseRetrieve
	h.FalseSkips = h.InScope - h.Retrieved
	each := oneEach(held.maximum, held.owner, seed)
	h.Contexts, h.ContextsSkipped = len(each), len(each)-above(m, each, h.Cutoff)
	if h.OutOfScope > 0 {
		h.AUROC = new(auroc(m, held.maximum, held.other))
	}
	for _, name := range alternatives {
		if alt, err := ParsePolicy(name); err == nil {
			h.Alternatives = append(h.Alternatives, decide(alt))
		}
	}
	return h
}

// above counts the scores that open the gate.
func above(m kernels.Metric, v []float64, cutoff float64) (n int) {
	for _, x := range v {
		if m.Better(x, cutoff) {
			n++
		}
	}
	return n
}
