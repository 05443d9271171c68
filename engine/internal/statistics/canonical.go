package statistics

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Everything from canonical scores alone: for small inputs, for sampled negatives, and for what a bound
// is too coarse to tell apart.

const refineBins = 1 << 12

// canonicalMaxima computes Best and BestOther of all queries, and on the way the extremes of D− where they are lost,
// too.
func (j *job) canonicalMaxima(ctx context.Context, first *counts) error {
	d, m := j.out, j.in.Metric
	err := workers.Over(ctx, len(d.Best), func(from, to int) { // what passes have found is begun anew
		for q := from; q < to; q++ {
			d.Best[q], d.BestOther[q], d.BestRow[q], d.BestOtherRow[q] = m.Worst(), m.Worst(), -1, -1
		}
	})
	if err != nil {
		return err
	}
	var ends *extremes
	if first != nil && first.endsLost && j.bounded.counting {
		ends = j.newExtremes()
	}
	spans := make([][]span, j.blocks.Workers)
	err = j.scored(ctx, func(worker, q, c0 int, scores []float64) {
		spans[worker] = append(spans[worker][:0], span{c0, c0 + len(scores)})
		better(m, &d.Best[q], &d.BestRow[q], spans[worker], c0, scores)
		spans[worker] = j.negatives.others(spans[worker][:0], q, c0, c0+len(scores))
		better(m, &d.BestOther[q], &d.BestOtherRow[q], spans[worker], c0, scores)
		if ends != nil {
			spans[worker] = j.negatives.of(spans[worker][:0], q, c0, c0+len(scores))
			for _, s := range spans[worker] {
				ends.take(worker, &strip{query: q, from: s.from, scores: scores[s.from-c0 : s.to-c0]})
			}
		}
	})
	if err == nil && ends != nil {
		j.setEnds(first, ends)
	}
	return err
}

// better carries on a maximum; rows come in order, so that the lowest of equals stays.
func better(m kernels.Metric, best *float64, row *int32, spans []span, c0 int, scores []float64) {
	for _, s := range spans {
		for i, x := range scores[s.from-c0 : s.to-c0] {
			if *row < 0 || m.Better(x, *best) {
				*best, *row = x, int32(s.from+i)
			}
		}
	}
}

// scored calls visit for every query × block of contexts; a query's blocks come in order, on one worker.
func (j *job) scored(ctx context.Context, visit func(worker, q, c0 int, scores []float64)) error {
	work := j.r.Scorers(j.blocks, j.in.Metric)
	return j.r.Grid(ctx, j.blocks, j.q.N, j.c.N, func(worker, q0, q1, c0, c1 int) error {
		scores, err := work.Get(worker).Block(j.q, j.c, q0, q1, c0, c1)
		if err == nil && j.in.Bias != nil {
			err = j.addBias(ctx, scores, ascendingFrom(q0, q1), ascendingFrom(c0, c1))
		}
		if err != nil {
			return err
		}
		for q := q0; q < q1; q++ {
			visit(worker, q, c0, scores[(q-q0)*(c1-c0):][:c1-c0])
		}
		j.progress.Add(int64(len(scores)))
		return j.r.Pool.Budget.Yield(ctx)
	})
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
	return j.scored(ctx, func(worker, q, c0 int, scores []float64) {
		spans[worker] = j.negatives.of(spans[worker][:0], q, c0, c0+len(scores))
		for _, s := range spans[worker] {
			visit(worker, &strip{query: q, from: s.from, scores: scores[s.from-c0 : s.to-c0]})
		}
	})
}

// drawn visits sampled negatives, of which only the pairs themselves are scored.
func (j *job) drawn(ctx context.Context, visit func(worker int, s *strip)) error {
	per := j.negatives.perQuery
	step := workers.Clamp(device.TileWork/8/(per*j.q.Dim), 1, 64)
	type scratch struct {
		queries, contexts []int32
		scores            []float64
	}
	work := make([]scratch, j.blocks.Workers)
	return j.r.Pool.Each(ctx, workers.Ceil(j.q.N, step), j.blocks.Workers, func(worker, task int) error {
		w := &work[worker]
		if w.scores == nil {
			w.queries, w.scores = make([]int32, per), make([]float64, per)
		}
		for q := task * step; q < min(j.q.N, (task+1)*step); q++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			w.contexts = j.negatives.draw(w.contexts, q)
			for i := range w.queries {
				w.queries[i] = int32(q)
			}
			if err := j.biasedPairs(ctx, w.scores, w.queries, w.contexts); err != nil {
				return err
			}
			visit(worker, &strip{query: q, drawn: w.contexts, scores: w.scores})
		}
		return nil
	})
}

// canonicalCounts is the result of a worker of canonicalNegatives.
type canonicalCounts struct {
	low, high    ref.Pair
	less, lessEq wide // sums over the negatives: positives below, and not above
}

// take counts a strip, and adds its scores, less x0, and their squares to the sums of its query.
func (w *canonicalCounts) take(s *strip, positive []float64, x0 float64, s1, s2 *float64) {
	a, b := *s1, *s2
	low, high := 0, 0
	for i, x := range s.scores {
		d := x - x0
		a += d
		b += float64(d * d)
		if x < s.scores[low] {
			low = i
		}
		if x > s.scores[high] {
			high = i
		}
		below, found := slices.BinarySearch(positive, x)
		w.less.add(int64(below))
		if found {
			below += notAbove(positive[below:], x)
		}
		w.lessEq.add(int64(below))
	}
	*s1, *s2 = a, b
	lower(&w.low, s.pair(low))
	higher(&w.high, s.pair(high))
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
		work[i] = canonicalCounts{low: noPair, high: noPair}
	}
	err = j.strips(ctx, func(worker int, s *strip) {
		work[worker].take(s, positive, x0, &s1[s.query], &s2[s.query])
	})
	if err != nil {
		return err
	}
	d, s := j.out, &j.out.NegativeSummary
	s.N = j.negatives.total
	sum1, sum2, less, lessEq, all := 0., 0., 0., 0., canonicalCounts{low: noPair, high: noPair}
	err = workers.Over(ctx, len(s1), func(from, to int) {
		for q := from; q < to; q++ {
			sum1, sum2 = sum1+s1[q], sum2+s2[q]
		}
	})
	if err != nil {
		return err
	}
	for _, w := range work {
		lower(&all.low, w.low)
		higher(&all.high, w.high)
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
		for i, k := range c {
			total[i] += k
		}
	}
	return total, err
}
