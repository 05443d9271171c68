package statistics

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Everything from canonical scores alone: for small inputs, for sampled negatives, and for what a bound
// is too coarse to tell apart.

const refineBins = 1 << 12

// canonicalMaxima finds the maxima of some queries over some contexts, where nil lists all of them. On the way it finds
// the extremes of D− that first has lost; first may be nil.
func (j *job) canonicalMaxima(ctx context.Context, queries, contexts []int32, first *counts) error {
	lost := first != nil && first.endsLost && j.bounded.counting
	ends, spans := j.newExtremes(), make([][]span, j.blocks.Workers)
	err := j.scored(ctx, queries, contexts, func(worker, q, c0 int, scores []float64) error {
		for i, score := range scores {
			j.offer(int32(q), int32(c0+i), score)
		}
		if lost {
			spans[worker] = j.negatives.strips(spans[worker], q, c0, scores, ends[worker].take)
		}
		return nil
	})
	if err == nil && lost {
		j.setEnds(first, ends)
	}
	return err
}

// offer takes a canonical score into account for the maximum of its kind; D+ has own pairs.
func (j *job) offer(q, row int32, score float64) {
	switch own := j.in.Owner[q]; {
	case row == own:
	case j.negatives.several && j.in.Group[row] == j.in.Group[own]:
		j.improve(bestAll, q, row, score)
	default:
		j.improve(bestOther, q, row, score)
	}
}

// scored calls visit for every query of a list × block of contexts of another list; nil lists all rows. A query's
// blocks come in order, on one worker.
func (j *job) scored(ctx context.Context, queries, contexts []int32,
	visit func(worker, q, c0 int, scores []float64) error) error {
	work := j.r.Scorers(j.blocks, j.in.Metric)
	for _, qs := range runs(queries, j.q.N) {
		for _, cs := range runs(contexts, j.c.N) {
			err := j.r.Grid(ctx, j.blocks, qs.to-qs.from, cs.to-cs.from, func(worker, q0, q1, c0, c1 int) error {
				q0, q1, c0, c1 = q0+qs.from, q1+qs.from, c0+cs.from, c1+cs.from
				scores, err := work.Get(worker).Block(j.q, j.c, q0, q1, c0, c1)
				if err == nil && j.in.Bias != nil {
					err = j.addBias(ctx, scores, ascendingFrom(q0, q1), ascendingFrom(c0, c1))
				}
				for q := q0; q < q1 && err == nil; q++ {
					err = visit(worker, q, c0, scores[(q-q0)*(c1-c0):][:c1-c0])
				}
				if err != nil {
					return err
				}
				j.progress.Add(int64(len(scores)))
				return j.r.Pool.Budget.Yield(ctx)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// runs returns the runs of consecutive rows in a list; nil lists n rows.
func runs(list []int32, n int) (out []span) {
	if list == nil {
		return []span{{0, n}}
	}
	for _, x := range list {
		if n := len(out); n > 0 && out[n-1].to == int(x) {
			out[n-1].to++
			continue
		}
		out = append(out, span{int(x), int(x) + 1})
	}
	return out
}

// strip is a run of canonical negatives of one query. A query's strips come in the order of contexts, on
// one worker.
type strip struct {
	query  int
	from   int     // context of the first score
	drawn  []int32 // or the contexts, of sampled negatives
	scores []float64
}

func (s *strip) pair(i int) ref.Pair {
	p := ref.Pair{Query: int32(s.query), Context: int32(s.from + i), Score: s.scores[i]}
	if s.drawn != nil {
		p.Context = s.drawn[i]
	}
	return p
}

// strips calls visit for all of D−.
func (j *job) strips(ctx context.Context, visit func(worker int, s *strip)) error {
	if j.negatives.sampled() {
		return j.drawn(ctx, visit)
	}
	spans := make([][]span, j.blocks.Workers)
	return j.scored(ctx, nil, nil, func(worker, q, c0 int, scores []float64) error {
		spans[worker] = j.negatives.strips(spans[worker], q, c0, scores, func(s *strip) { visit(worker, s) })
		return nil
	})
}

// strips calls visit for the negatives among the scores of a query with the contexts from c0 on; spans is scratch.
func (g *negatives) strips(spans []span, q, c0 int, scores []float64, visit func(s *strip)) []span {
	spans = g.of(spans[:0], q, c0, c0+len(scores))
	for _, s := range spans {
		visit(&strip{query: q, from: s.from, scores: scores[s.from-c0 : s.to-c0]})
	}
	return spans
}

// extremes are the lowest and the highest pair of D− that a worker has found.
type extremes struct{ low, high ref.Pair }

func (j *job) newExtremes() []extremes {
	return slices.Repeat([]extremes{noEnds}, j.blocks.Workers)
}

var noEnds = extremes{noPair, noPair}

// merge takes other pairs into account; of equal scores the lowest pair counts.
func (e *extremes) merge(o extremes) {
	lower(&e.low, o.low)
	higher(&e.high, o.high)
}

// take goes over a strip, which is not empty.
func (e *extremes) take(s *strip) {
	low, high := 0, 0
	for i, x := range s.scores {
		if x < s.scores[low] {
			low = i
		}
		if x > s.scores[high] {
			high = i
		}
	}
	e.merge(extremes{s.pair(low), s.pair(high)})
}

// endsOf returns the extremes that all workers together have found.
func endsOf(found []extremes) extremes {
	all := noEnds
	for _, e := range found {
		all.merge(e)
	}
	return all
}

// setEnds makes what a canonical pass has found the extremes of the counts.
func (j *job) setEnds(c *counts, found []extremes) {
	j.reasons = append(j.reasons, "extremes from canonical scores")
	all := endsOf(found)
	c.endsLost = false
	c.takeEnd(j.in.Metric, all.low)
	c.takeEnd(j.in.Metric, all.high)
}

// canonicalExtremes finds the extremes of D− by canonical scores.
func (j *job) canonicalExtremes(ctx context.Context, c *counts) error {
	ends := j.newExtremes()
	if err := j.strips(ctx, func(worker int, s *strip) { ends[worker].take(s) }); err != nil {
		return err
	}
	j.setEnds(c, ends)
	return nil
}

// drawn visits sampled negatives, of which only the pairs themselves are scored.
func (j *job) drawn(ctx context.Context, visit func(worker int, s *strip)) error {
	per := j.negatives.perQuery
	step := workers.Clamp(device.TileWork/8/(per*j.q.Dim), 1, 64)
	return j.r.Pool.Each(ctx, workers.Ceil(j.q.N, step), j.blocks.Workers, func(worker, task int) error {
		queries, contexts, scores := make([]int32, per), make([]int32, 0, per), make([]float64, per)
		for q := task * step; q < min(j.q.N, (task+1)*step); q++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			contexts = j.negatives.draw(contexts, q)
			for i := range queries {
				queries[i] = int32(q)
			}
			if err := j.biasedPairs(ctx, scores, queries, contexts); err != nil {
				return err
			}
			visit(worker, &strip{query: q, drawn: contexts, scores: scores})
		}
		return nil
	})
}

// canonicalCounts is the result of a worker of canonicalNegatives.
type canonicalCounts struct {
	extremes
	less, lessEq wide // sums over the negatives: positives below, and not above
}

// take counts a strip, and adds its scores, less x0, and their squares to the sums of its query.
func (w *canonicalCounts) take(s *strip, positive []float64, x0 float64, s1, s2 *float64) {
	w.extremes.take(s)
	a, b := *s1, *s2
	for _, x := range s.scores {
		d := x - x0
		a += d
		b += float64(d * d)
		below, found := slices.BinarySearch(positive, x)
		w.less.add(int64(below))
		if found {
			below += notAbove(positive[below:], x)
		}
		w.lessEq.add(int64(below))
	}
	*s1, *s2 = a, b
}

// canonicalNegatives computes the summary of D−, and all that depends on it.
func (j *job) canonicalNegatives(ctx context.Context) error {
	positive := slices.Clone(j.out.Positive)
	if err := workers.Sort(ctx, j.r.Pool, positive, cmp.Compare); err != nil {
		return err
	}
	s1, s2 := make([]float64, j.q.N), make([]float64, j.q.N)
	x0, err := j.firstNegative(ctx)
	if err != nil {
		return err
	}
	work := make([]canonicalCounts, j.blocks.Workers)
	for i := range work {
		work[i].extremes = noEnds
	}
	err = j.strips(ctx, func(worker int, s *strip) {
		work[worker].take(s, positive, x0, &s1[s.query], &s2[s.query])
	})
	if err != nil {
		return err
	}
	d, s := j.out, &j.out.NegativeSummary
	s.N = j.negatives.total
	sum1, sum2, less, lessEq, all := 0., 0., 0., 0., noEnds
	err = workers.Over(ctx, len(s1), func(from, to int) {
		for q := from; q < to; q++ {
			sum1, sum2 = sum1+s1[q], sum2+s2[q]
		}
	})
	if err != nil {
		return err
	}
	for _, w := range work {
		all.merge(w.extremes)
		less, lessEq = less+w.less.float(), lessEq+w.lessEq.float()
	}
	s.Mean, s.Std = ref.Moments(s.N, x0, sum1, sum2)
	if j.in.Metric == kernels.Cosine && j.in.Bias == nil && !j.negatives.sampled() { // the mean that partials give
		if err := j.meanOfSums(ctx); err != nil {
			return err
		}
	}
	setExtremes(s, all.low, all.high)
	pairs := float64(j.q.N) * float64(s.N) // exact, as the sums are, up to 2⁵³ pairs of pairs
	closer, equal := pairs-lessEq, lessEq-less
	if j.in.Metric.Ascending() {
		closer = less
	}
	d.Separation = (2*closer + equal) / 2 / pairs
	targets := make([]target, 0, 2*len(j.in.Quantiles))
	for _, r := range j.order(j.negatives.total) {
		targets = append(targets, target{rank: r, low: key(s.Min), high: key(s.Max)})
	}
	if err := j.refine(ctx, targets); err != nil {
		return err
	}
	values := make(map[int64]float64)
	for _, t := range targets {
		values[t.rank] = unkey(t.low)
	}
	j.interpolate(values, values)
	d.NegativeHistogram, err = j.canonicalHistogram(ctx, j.in.Bins)
	return err
}

// notAbove counts the scores of an ascending list that are x or below: a search, because all may be equal.
func notAbove(sorted []float64, x float64) int {
	n, _ := slices.BinarySearchFunc(sorted, x, func(y, x float64) int {
		if y <= x {
			return -1
		}
		return 1
	})
	return n
}

// firstNegative returns the score that the sums are shifted by: of the first pair of D−. Its query is 0,
// because a query without foreign groups means that no query has any.
func (j *job) firstNegative(ctx context.Context) (float64, error) {
	var out [1]float64
	var c int32
	if j.negatives.sampled() {
		c = j.negatives.draw(nil, 0)[0]
	} else {
		c = int32(j.negatives.of(nil, 0, 0, j.c.N)[0].from)
	}
	err := j.biasedPairs(ctx, out[:], []int32{0}, []int32{c})
	return out[0], err
}

// interpolate sets the quantiles of D− from order statistics; with Interval, low and high differ.
func (j *job) interpolate(low, high map[int64]float64) {
	s := &j.out.NegativeSummary
	at := func(values map[int64]float64, r int64, f float64) float64 {
		if f > 0 {
			return ref.Interpolate7(values[r], values[r+1], f)
		}
		return values[r]
	}
	s.Quantiles = make([]float64, len(j.in.Quantiles))
	if j.in.Interval {
		s.Low, s.High = make([]float64, len(s.Quantiles)), make([]float64, len(s.Quantiles))
	}
	for i, p := range j.in.Quantiles {
		r, f := ref.Rank7(j.negatives.total, p)
		s.Quantiles[i] = at(low, r, f)
		if j.in.Interval {
			s.Low[i], s.High[i] = s.Quantiles[i], at(high, r, f)
			s.Quantiles[i] = s.Low[i] + (s.High[i]-s.Low[i])/2
		}
	}
}

// canonicalHistogram counts D− between its extremes, which are known by now.
func (j *job) canonicalHistogram(ctx context.Context, bins int) ([]int64, error) {
	if bins == 0 {
		return nil, nil
	}
	low, high := j.out.NegativeSummary.Min, j.out.NegativeSummary.Max
	total, counts := make([]int64, bins), make([][]int64, j.blocks.Workers)
	err := j.strips(ctx, func(worker int, s *strip) {
		if counts[worker] == nil {
			counts[worker] = make([]int64, bins)
		}
		for _, x := range s.scores {
			counts[worker][ref.Bin(x, low, high, bins)]++
		}
	})
	for _, c := range counts {
		addTo(total, c)
	}
	return total, err
}

// addBias adds the input's bias to a block of canonical scores, queries × contexts. A bias that is negative or no
// number is an error that names the pair.
func (j *job) addBias(ctx context.Context, scores []float64, queries, contexts []int32) error {
	if j.in.Bias == nil {
		return nil
	}
	out := make([]float32, len(scores))
	if err := j.in.Bias(ctx, queries, contexts, out); err != nil {
		return fmt.Errorf("engine: bias: %w", err)
	}
	for i, b := range out {
		switch q, c := queries[i/len(contexts)], contexts[i%len(contexts)]; {
		case math.IsNaN(float64(b)) || math.IsInf(float64(b), 0):
			return fmt.Errorf("engine: bias of query %d and context %d: %w: %v", q, c, kernels.ErrNonFinite, b)
		case b < 0:
			return fmt.Errorf("engine: bias of query %d and context %d: %w: %v is negative", q, c, kernels.ErrArgument,
				b)
		}
		scores[i] = j.in.Metric.Biased(scores[i], float64(b))
	}
	return nil
}

// biasedPairs is pairs with the bias of each.
func (j *job) biasedPairs(ctx context.Context, out []float64, queries, contexts []int32) error {
	if err := j.pairs(out, queries, contexts); err != nil || j.in.Bias == nil {
		return err
	}
	for from := 0; from < len(queries); {
		to := from + 1
		for to < len(queries) && queries[to] == queries[from] {
			to++
		}
		if err := j.addBias(ctx, out[from:to], queries[from:from+1], contexts[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}
