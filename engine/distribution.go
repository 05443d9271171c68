package engine

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sluice-rag/sluice/kernels/ref"
)

// Distribution implements Interface. It goes over the pairs once: D+ comes first, brackets from a
// sample say which few values the quantiles can be, and everything else is counted or summed
// (distribution_pass.go). A histogram, or a quantile that missed its bracket, takes passes of its own.
func (e *Engine) Distribution(ctx context.Context, in DistributionInput) (*Distribution, error) {
	queries, contexts, err := views("queries", in.Queries, "contexts", in.Contexts, in.Metric)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	j := &job{e: e, in: in, q: &queries, c: &contexts}
	j.out = newDistribution(queries.N, in)
	if err := e.prepareBoth(ctx, j.q, j.c, in.Metric); err != nil {
		return nil, err
	}
	if queries.N == 0 {
		j.out.PositiveSummary = summary(nil, in.Quantiles)
		j.out.Max, j.out.NegativeSummary = summary(nil, in.Quantiles), summary(nil, in.Quantiles)
		return j.out, nil
	}
	if err := j.run(ctx); err != nil {
		return nil, err
	}
	return j.out, nil
}

// job is one call of Distribution.
type job struct {
	e        *Engine
	in       DistributionInput
	q, c     *operand
	out      *Distribution
	negative negatives
	plan     plan
	progress *meter

	x0       float64 // shift of the sums: the first negative
	positive *ranker // D+
	edges    *ranker // ends of the brackets, between which values are kept (distribution_quantiles.go)
	keep     []bool  // keep[i]: values between edge i−1 and edge i are kept
	room     int64   // values that may be kept
	kept     atomic.Int64
	s1, s2   []float64 // Σ(x−x0) and Σ(x−x0)² of each query's negatives, in the order of contexts
}

// The memory of a job in bytes, in round figures.
const (
	bytesPerQuery   = 160 // norm, D+ three times over, its index, maxima, sums
	bytesPerContext = 8   // norm
	refineBins      = 1 << 12
)

func (j *job) run(ctx context.Context) (err error) {
	m, n, bins := j.q.N, j.c.N, int64(j.in.Bins)
	j.negative = newNegatives(j.in)
	fixed := int64(m)*bytesPerQuery + int64(n)*bytesPerContext + 8*bins
	perWorker := 8*bins + 2*int64(len(j.in.Quantiles))*refineBins*8 + 4*int64(j.negative.perQuery)
	if j.plan, err = j.e.plan(m, n, j.q.Dim, fixed, perWorker); err != nil {
		return err
	}
	j.plan.span = ceil(n, j.plan.contexts) // a query's sums run over all contexts in order: one task
	used := fixed + int64(j.plan.workers)*(perWorker+j.plan.need())
	j.room = (j.e.memLimit - used) / 8 / 4 // slices grow by up to doubling, and are joined once
	if j.e.tune.kept > 0 {
		j.room = min(j.room, j.e.tune.kept)
	}
	passes := int64(1)
	if bins > 0 && j.negative.total > 0 {
		passes = 2
	}
	j.progress = j.e.meter(passes * int64(m) * int64(n))

	if err := j.positives(ctx); err != nil {
		return err
	}
	if err := j.brackets(ctx); err != nil {
		return err
	}
	parts, err := j.collect(ctx)
	if err != nil {
		return err
	}
	if err := j.finish(ctx, parts); err != nil {
		return err
	}
	if passes == 2 {
		return j.histogram(ctx)
	}
	return nil
}

func newDistribution(m int, in DistributionInput) *Distribution {
	d := &Distribution{
		Positive: make([]float64, m),
		Best:     make([]float64, m), BestOther: make([]float64, m),
		BestRow: make([]int32, m), BestOtherRow: make([]int32, m),
	}
	for q := range m {
		d.Best[q], d.BestOther[q] = in.Metric.Worst(), in.Metric.Worst()
		d.BestRow[q], d.BestOtherRow[q] = -1, -1
	}
	if in.Bins > 0 {
		d.NegativeHistogram = make([]int64, in.Bins)
	}
	return d
}

// positives computes D+, and the first negative.
func (j *job) positives(ctx context.Context) error {
	const chunk = 256
	err := j.e.each(ctx, ceil(j.q.N, chunk), j.plan.workers, func(_, task int) error {
		for q := task * chunk; q < min(j.q.N, (task+1)*chunk); q++ {
			s, err := j.pair(q, int(j.in.Owner[q]))
			if err != nil {
				return err
			}
			j.out.Positive[q] = s
		}
		return nil
	})
	if err != nil {
		return err
	}
	j.positive = newRanker(j.out.Positive)
	if j.negative.total > 0 {
		j.x0, err = j.pair(0, j.negative.first())
	}
	return err
}

// pair is the canonical score of one query and one context.
func (j *job) pair(q, c int) (float64, error) {
	var out [1]float64
	err := j.e.kernels.Scores(j.in.Metric, out[:], 1, j.q.Slice(q, q+1), j.c.Slice(c, c+1))
	return out[0], err
}

// pass calls visit for every query × block of contexts; a query's blocks come in order, on one worker.
func (j *job) pass(ctx context.Context, begin func(worker, q0, q1 int), visit func(worker, q, c0 int, scores []float64)) error {
	work := j.e.scorers(j.plan, j.in.Metric)
	return j.e.grid(ctx, j.plan, j.q.N, j.c.N, func(worker, q0, q1, c0, c1 int) error {
		if c0 == 0 {
			begin(worker, q0, q1)
		}
		scores, err := work.get(worker).block(j.q, j.c, q0, q1, c0, c1)
		if err != nil {
			return err
		}
		for q := q0; q < q1; q++ {
			visit(worker, q, c0, scores[(q-q0)*(c1-c0):][:c1-c0])
		}
		j.progress.add(len(scores))
		return j.e.cores.Yield(ctx)
	})
}

// finish turns the workers' parts into the result.
func (j *job) finish(ctx context.Context, parts []*part) error {
	d, in := j.out, j.in
	d.PositiveSummary = summary(pairsOf(d.Positive, in.Owner), in.Quantiles)
	d.Max = summary(pairsOf(d.Best, d.BestRow), in.Quantiles)
	s := Summary{N: j.negative.total, MinQuery: -1, MinContext: -1, MaxQuery: -1, MaxContext: -1}
	s.Quantiles = make([]float64, len(in.Quantiles))
	d.NegativeSummary = s
	if s.N == 0 {
		return nil
	}
	var all part
	all.init(j)
	for _, p := range parts {
		all.merge(p)
	}
	var s1, s2 float64
	for q := range j.s1 {
		s1, s2 = s1+j.s1[q], s2+j.s2[q]
	}
	s.Mean, s.Std = ref.Moments(s.N, j.x0, s1, s2)
	s.Min, s.MinQuery, s.MinContext = all.min.Score, all.min.Query, all.min.Context
	s.Max, s.MaxQuery, s.MaxContext = all.max.Score, all.max.Query, all.max.Context
	d.NegativeSummary = s
	d.Separation = all.separation(j)
	return j.quantiles(ctx, &all)
}

func pairsOf(scores []float64, contexts []int32) []ref.Pair {
	pairs := make([]ref.Pair, len(scores))
	for q := range pairs {
		pairs[q] = ref.Pair{Query: int32(q), Context: contexts[q], Score: scores[q]}
	}
	return pairs
}

// summary of a small distribution, by the reference itself.
func summary(pairs []ref.Pair, quantiles []float64) Summary {
	s := ref.Summarise(pairs, quantiles)
	return Summary{
		N: s.N, Min: s.Min.Score, Max: s.Max.Score, Mean: s.Mean, Std: s.Std, Quantiles: s.Quantiles,
		MinQuery: s.Min.Query, MinContext: s.Min.Context, MaxQuery: s.Max.Query, MaxContext: s.Max.Context,
	}
}

// histogram counts D− between its extremes, which are known by now.
func (j *job) histogram(ctx context.Context) error {
	low, high := j.out.NegativeSummary.Min, j.out.NegativeSummary.Max
	counts := make([][]int64, j.plan.workers)
	cursors := make([]cursor, j.plan.workers)
	err := j.pass(ctx, func(worker, q0, q1 int) {
		if counts[worker] == nil {
			counts[worker] = make([]int64, j.in.Bins)
		}
		cursors[worker].begin(&j.negative, q0, q1)
	}, func(worker, q, c0 int, scores []float64) {
		for _, s := range cursors[worker].spans(q, c0, c0+len(scores)) {
			for _, x := range scores[s.from-c0 : s.to-c0] {
				counts[worker][ref.Bin(x, low, high, j.in.Bins)]++
			}
		}
	})
	for _, c := range counts {
		for i, k := range c {
			j.out.NegativeHistogram[i] += k
		}
	}
	return err
}

// span is a run of context rows [from, to).
type span struct{ from, to int }

// negatives knows which pairs are in D−.
type negatives struct {
	in       DistributionInput
	contexts int
	perQuery int // of a sample
	total    int64
}

func newNegatives(in DistributionInput) negatives {
	m, n := in.Queries.Rows, in.Contexts.Rows
	g := negatives{in: in, contexts: n}
	switch in.Negatives.Kind {
	case NegativesAll:
		g.total = int64(m) * int64(n-1)
	case NegativesSample:
		g.perQuery = min(in.Negatives.PerQuery, n-1)
		g.total = int64(m) * int64(g.perQuery)
	case NegativesCrossGroup:
		if in.Group == nil {
			break // all are in one group
		}
		size := make(map[int32]int64)
		for _, group := range in.Group {
			size[group]++
		}
		for _, c := range in.Owner {
			g.total += int64(n) - size[in.Group[c]]
		}
	}
	return g
}

// first is the first context of query 0's negatives; total > 0 implies that there is one, because a
// query without foreign groups means that no query has any.
func (g *negatives) first() int {
	var c cursor
	c.begin(g, 0, 1)
	return c.spans(0, 0, g.contexts)[0].from
}

// cursor lists the negatives of a block of queries; it belongs to one worker.
type cursor struct {
	g       *negatives
	q0      int
	sampled [][]int32 // of the queries from q0 on
	buffer  []span
}

func (c *cursor) begin(g *negatives, q0, q1 int) {
	c.g, c.q0 = g, q0
	if g.in.Negatives.Kind != NegativesSample {
		return
	}
	for len(c.sampled) < q1-q0 {
		c.sampled = append(c.sampled, nil)
	}
	for q := q0; q < q1; q++ {
		c.sampled[q-q0] = ref.Foreign(c.sampled[q-q0], g.in.Negatives.Seed, q, int(g.in.Owner[q]), g.contexts, g.perQuery)
	}
}

// spans are the negatives of query q among the contexts [c0, c1), valid until the next call.
func (c *cursor) spans(q, c0, c1 int) []span {
	c.buffer = c.buffer[:0]
	switch c.g.in.Negatives.Kind {
	case NegativesSample:
		list := c.sampled[q-c.q0]
		first, _ := slices.BinarySearch(list, int32(c0))
		for _, row := range list[first:] {
			if int(row) >= c1 {
				break
			}
			c.add(int(row), int(row)+1)
		}
	case NegativesCrossGroup:
		c.foreignGroups(q, c0, c1)
	default:
		c.allBut(int(c.g.in.Owner[q]), c0, c1)
	}
	return c.buffer
}

// others are the contexts of other groups than q's own, or all but its own without groups.
func (c *cursor) others(q, c0, c1 int) []span {
	c.buffer = c.buffer[:0]
	if c.g.in.Group == nil {
		c.allBut(int(c.g.in.Owner[q]), c0, c1)
	} else {
		c.foreignGroups(q, c0, c1)
	}
	return c.buffer
}

func (c *cursor) allBut(owner, c0, c1 int) {
	c.add(c0, min(max(owner, c0), c1))
	c.add(max(min(owner+1, c1), c0), c1)
}

func (c *cursor) foreignGroups(q, c0, c1 int) {
	group := c.g.in.Group
	if group == nil {
		return
	}
	own, from := group[c.g.in.Owner[q]], c0
	for row := c0; row < c1; row++ {
		if group[row] == own {
			c.add(from, row)
			from = row + 1
		}
	}
	c.add(from, c1)
}

func (c *cursor) add(from, to int) {
	if from >= to {
		return
	}
	if last := len(c.buffer) - 1; last >= 0 && c.buffer[last].to == from {
		c.buffer[last].to = to
		return
	}
	c.buffer = append(c.buffer, span{from, to})
}
