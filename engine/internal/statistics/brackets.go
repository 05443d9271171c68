package statistics

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// wanted says what a pass finds besides the counts.
type wanted struct {
	brackets        []bracket // ascending, disjoint; at most device.MaxBrackets
	low, high       float32   // values ≤ low or ≥ high are kept as well
	ends            bool      // the extremes
	endLow, endHigh float32   // expected location of the extremes: at or below endLow, at or above endHigh
	best            bool      // the maxima
	bins            int       // cells of a histogram between binLow and binLow + bins/binScale
	binLow          float32
	binScale        float32
	expected        float64 // number of pairs that will be kept
	near            float64 // number of pairs so near a quantile that they need canonical scores
	from, to        float64 // range of the cells of kept values
	spare           float32 // how far parts with the largest bound keep beyond what all parts keep
}

// bracket is a closed range of values that are kept.
type bracket struct{ low, high float32 }

// holds reports whether a value is to be kept.
func (w *wanted) holds(v float32) bool {
	if v <= w.low || v >= w.high {
		return true
	}
	for _, b := range w.brackets {
		if v >= b.low && v <= b.high {
			return true
		}
	}
	return false
}

// statistic is an order statistic of D− that a quantile needs.
type statistic struct {
	rank      int64   // ascending by value
	low, high float64 // bounds of the tile value of its canonical score
	score     float64
	known     bool
}

// order returns the ranks that the quantiles need among n scores: ascending by score, distinct.
func (j *job) order(n int64) (ranks []int64) {
	for _, p := range j.in.Quantiles {
		r, f := ref.Rank7(n, p)
		ranks = append(ranks, r)
		if f > 0 {
			ranks = append(ranks, r+1)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// chooseBrackets sets what the first pass finds: brackets that contain the wanted order statistics with high
// probability, chosen from a sample of pairs; and the extremes, beyond those of the sample.
func (j *job) chooseBrackets(ctx context.Context, b *bounded) error {
	b.first = wanted{low: minusInf, high: plusInf, best: true}
	b.first.from, b.first.to = b.span()
	total := j.negatives.total
	if !b.counting {
		return nil
	}
	b.setStatistics(j)
	if j.sampled == nil {
		var err error
		if j.sampled, err = j.sample(ctx, b); err != nil {
			return err
		}
	}
	sample := j.sampled
	if len(sample) < 64 || total <= j.tune.KeepAll {
		b.first.low, b.first.endLow, b.first.endHigh = plusInf, plusInf, minusInf
		b.first.ends, b.first.expected = true, float64(total)
		return nil
	}
	if err := b.first.choose(ctx, j, b, sample, b.statistics); err != nil {
		return err
	}
	if b.first.expected > .75*float64(j.keepRoom()) { // a histogram will place the brackets
		b.first = wanted{best: true, near: b.first.near}
		b.first.bin(b)
		return b.first.choose(ctx, j, b, sample, nil)
	}
	return nil
}

// setStatistics lists the order statistics that the quantiles need, ascending by value.
func (b *bounded) setStatistics(j *job) {
	total := j.negatives.total
	for _, r := range j.order(total) {
		if r = b.rank(r, total); r > 0 && r < total-1 { // the others are the extremes
			b.statistics = append(b.statistics, statistic{rank: r, low: math.Inf(-1), high: math.Inf(1)})
		}
	}
	slices.SortFunc(b.statistics, func(x, y statistic) int { return cmp.Compare(x.rank, y.rank) })
}

// choose places the brackets: several standard deviations of a sample quantile's rank to each side, plus the rounding
// error.
func (l *wanted) choose(ctx context.Context, j *job, b *bounded, sample []float32, statistics []statistic) error {
	size, total := float64(len(sample)), float64(j.negatives.total)
	l.from, l.to = math.Inf(1), math.Inf(-1)
	err := workers.Over(ctx, len(sample), func(from, to int) {
		for _, x := range sample[from:to] {
			l.from, l.to = min(l.from, float64(x)), max(l.to, float64(x))
		}
	})
	if err != nil {
		return err
	}
	const n = 1 << 16
	c := newCells(l.from, l.to, n)
	if c.scale == 0 { // all values are equal
		l.low, l.high, l.expected = plusInf, plusInf, total
		l.ends, l.endLow, l.endHigh = true, plusInf, minusInf
		return nil
	}
	sums := make([]int32, n+1) // sums[i]: sampled values in the cells below i
	err = workers.Over(ctx, len(sample), func(from, to int) {
		for _, x := range sample[from:to] {
			sums[c.of(float64(x))+1]++
		}
	})
	if err != nil {
		return err
	}
	for i := range n {
		sums[i+1] += sums[i]
	}
	cell := func(rank float64) int {
		next, _ := slices.BinarySearch(sums, int32(rank)+1)
		return next - 1
	}
	gap := 4 * (l.to - l.from) / maxCells
	margin := 2*b.epsilon + gap // pairs that near a statistic may be it (resolver.locate)
	l.low, l.high = minusInf, plusInf
	l.ends, l.endLow, l.endHigh = true, up(l.from+2*margin), scan.Down(l.to-2*margin)
	if b.dtype == kernels.I16 { // what resolve tries first is enough, and 2ε would keep far more
		margin = 1.25*b.epsilon + gap
	}
	share := func(r bracket) float64 {
		return float64(1+sums[c.of(float64(r.high))+1]-sums[c.of(float64(r.low))]) / size
	}
	if j.in.Interval {
		margin = gap // no canonical score is computed around a statistic
	}
	scored := minusInf // up to here pairs are in near
	for _, s := range statistics {
		p := (float64(s.rank) + .5) / total
		reach := j.tune.Reach*math.Sqrt(size*p*(1-p)) + 2 + (j.tune.Slack+j.tune.Spread*spreadAt(p))*size
		first, last := p*size-reach, p*size+reach
		centre := c.edge(cell(p * size))
		window := bracket{max(scored, float32(centre-scoredReach*b.epsilon)), float32(centre + scoredReach*b.epsilon)}
		if window.high > window.low {
			l.near, scored = l.near+total*share(window), window.high
		}
		switch {
		case first < 0:
			l.low = max(l.low, up(c.edge(cell(min(last, size-1))+1)+margin))
		case last > size-1:
			l.high = min(l.high, scan.Down(c.edge(cell(first))-margin))
		default:
			l.add(bracket{scan.Down(c.edge(cell(first)) - margin), up(c.edge(cell(last)+1) + margin)}, float32(gap))
		}
	}
	l.settle(float32(gap))
	l.expected = total * l.share(share)
	return nil
}

// share returns the share of all pairs that is kept, from the shares of ranges.
func (l *wanted) share(of func(r bracket) float64) (all float64) {
	if l.low > minusInf {
		all += of(bracket{minusInf, l.low})
	}
	if l.high < plusInf {
		all += of(bracket{l.high, plusInf})
	}
	for _, r := range l.brackets {
		all += of(r)
	}
	return all
}

// add appends a bracket that does not begin before the last one. The two are joined if the gap between them is small.
func (l *wanted) add(b bracket, gap float32) {
	if n := len(l.brackets); n > 0 && b.low <= l.brackets[n-1].high+gap {
		l.brackets[n-1].high = max(l.brackets[n-1].high, b.high)
		return
	}
	l.brackets = append(l.brackets, b)
}

// settle joins brackets with the open ends that they touch, and drops those beyond the number that the kernels
// support. Afterwards, separate ranges do not share a cell.
func (l *wanted) settle(gap float32) {
	for len(l.brackets) > 0 && l.brackets[0].low <= l.low+gap {
		l.low = max(l.low, l.brackets[0].high)
		l.brackets = l.brackets[1:]
	}
	for n := len(l.brackets); n > 0 && l.brackets[n-1].high >= l.high-gap; n-- {
		l.high = min(l.high, l.brackets[n-1].low)
		l.brackets = l.brackets[:n-1]
	}
	if l.low >= l.high-gap { // keep everything
		l.low, l.high, l.brackets = plusInf, plusInf, nil
	}
	l.brackets = l.brackets[:min(len(l.brackets), device.MaxBrackets)]
}

// sample returns the values of random negatives. It affects the amount of work only, not the result, so the seed is
// fixed. Queries are taken in order, so that each is read only once.
func (j *job) sample(ctx context.Context, b *bounded) ([]float32, error) {
	m, n := j.q.N, j.c.N
	// A scattered pair costs about ten times as much as a kept one, and brackets narrow with the root.
	size := int(.85 * math.Cbrt(float64(m)*float64(n)*float64(m)*float64(n)))
	if j.in.Interval { // the pairs in brackets are written and read, so that narrower ones are worth more
		size *= 3
	}
	size = max(min(size, j.tune.MaxSamples), j.tune.MinSamples)
	per, queries := workers.Ceil(size, m), min(m, size)
	// A task's contexts come from a pool that fits the second-level cache.
	const chunk, pool = 1 << 11, 1 << 9
	step := max(1, chunk/per)
	found := make([][]float32, workers.Ceil(queries, step))
	err := j.r.Pool.Each(ctx, len(found), j.blocks.Workers, func(_, task int) error {
		rng := rand.New(rand.NewPCG(0x51ce, uint64(task)))
		qs, cs := make([]int32, 0, step*per), make([]int32, 0, step*per)
		contexts := make([]int32, pool)
		for i := range contexts {
			contexts[i] = rng.Int32N(int32(n))
		}
		for i := task * step; i < min(queries, (task+1)*step); i++ {
			q := int(int64(i) * int64(m) / int64(queries))
			for range per {
				if c := contexts[rng.Uint64()%pool]; j.negatives.has(q, int(c)) {
					qs, cs = append(qs, int32(q)), append(cs, c)
				}
			}
		}
		values := make([]float32, len(qs))
		if j.in.Bias != nil {
			scores := make([]float64, len(qs))
			err := j.biasedPairs(ctx, scores, qs, cs)
			for i, s := range scores {
				values[i] = float32(b.value(s))
			}
			found[task] = values
			return err
		}
		if err := scores.Estimate(j.r.Host, b.metric, values, j.q.Rows, qs, j.c.Rows, cs); err != nil {
			return err
		}
		kept := values[:0]
		for i, x := range values {
			if v := b.estimated(x, j.q.Norms[qs[i]], j.c.Norms[cs[i]]); math.Abs(v) < 4 {
				kept = append(kept, float32(v)) // excluding values that overflowed
			}
		}
		found[task] = kept
		return nil
	})
	return slices.Concat(found...), err
}

// estimated returns the tile value of a pair whose dot product, or squared distance, is about x.
func (b *bounded) estimated(x float32, normQ, normC float64) float64 {
	switch norms := normQ * normC; {
	case b.metric == kernels.IP:
		return float64(x) * b.unit
	case b.metric == kernels.L2:
		return -float64(x) * b.unit * b.unit / 2
	case norms == 0:
		return 0
	default:
		return float64(x) / norms
	}
}
