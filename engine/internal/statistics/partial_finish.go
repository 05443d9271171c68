package statistics

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Finish computes the distribution from the Partial of all pairs of its whole; other ones are distribution.ErrPart,
// which names the first pairs that are missing. Counts, order statistics, extremes and maxima equal those of Compute;
// mean and standard deviation are within their bounds and the same in every tree of additions. For a quantile whose
// rank lies outside the brackets there is an interval, and brackets of another pass, which would find it. Quantiles may
// be any.
func (x *Partial) Finish(ctx context.Context, r *device.Resources, quantiles []float64) (*distribution.Result,
	*distribution.Brackets, error) {
	if err := x.area.whole(uint64(x.of.Contexts), uint64(x.of.Queries)); err != nil {
		return nil, nil, err
	}
	m := len(x.queries)
	in := distribution.Input{Metric: x.b.Metric, Quantiles: quantiles, Bins: x.b.Bins, Owner: make([]int32, m),
		Negatives: distribution.Negatives{Kind: x.b.Negatives}}
	for i, q := range x.queries {
		in.Owner[i] = int32(q.owner)
	}
	for _, p := range quantiles {
		if !(p >= 0 && p <= 1) {
			return nil, nil, fmt.Errorf("engine: quantile: %w: %v is not in [0, 1]", kernels.ErrArgument, p)
		}
	}
	b := &bounded{metric: in.Metric, unit: 1, epsilon: x.epsilon, counting: true, biased: x.b.Biased}
	j := &job{r: r, in: in, q: &device.Operand{Rows: cpu.Rows{N: m}}, out: newDistribution(m, in), bounded: b,
		negatives: negatives{in: in, total: x.counted}}
	for i, q := range x.queries {
		j.out.Positive[i] = q.positive
		for kind, best := range q.best {
			if best.context >= 0 {
				j.improve(kind, int32(i), best.context, best.score)
			}
		}
	}
	if err := j.summaries(ctx); err != nil {
		return nil, nil, err
	}
	j.out.DType = "parts"
	if j.out.NegativeSummary = j.noSummary(); x.counted == 0 {
		return j.out, nil, nil
	}
	next, err := x.negatives(ctx, j)
	return j.out, next, err
}

// negatives computes the summary of D−, and the brackets of a further pass where ranks are missed.
func (x *Partial) negatives(ctx context.Context, j *job) (next *distribution.Brackets, err error) {
	s, b := &j.out.NegativeSummary, j.bounded
	s.N, j.out.Kept = x.counted, int64(len(x.kept))
	if b.first, err = b.wantedOf(&x.b, b.epsilon); err != nil {
		return nil, err
	}
	c := &counts{below: x.below, bins: x.bins, counted: x.counted, merged: &tileSums{spread: 1}}
	for _, u := range x.sums {
		scale := u.unit
		if b.metric == kernels.Cosine {
			scale = 1
		}
		c.merged.sum += u.sum.Float64() / scale
		c.merged.square += u.square.Float64() / (scale * scale)
		c.merged.tiles += u.tiles / min(scale, scale*scale)
	}
	next = x.setEnds(j)
	known := func(rank int64) (score float64, ok bool) {
		close, ok := x.at(b.rank(rank, s.N))
		return closeness(b.metric, close), ok // its own inverse
	}
	lows, highs := map[int64]float64{}, map[int64]float64{}
	bins := x.belowBins()
	for _, p := range j.in.Quantiles {
		first, f := ref.Rank7(s.N, p)
		missed := false
		for rank := first; rank <= first+1 && (rank == first || f > 0); rank++ {
			score, ok := known(rank)
			if lows[rank], highs[rank] = score, score; !ok {
				missed = true
				likely, sure := x.rest(x.interval(j, bins, rank, scoredReach-1)), x.rest(x.interval(j, bins, rank, 1))
				lows[rank], highs[rank] = sure[0][0], sure[len(sure)-1][1]
				next.Ranges, next.Sure = append(next.Ranges, likely...), append(next.Sure, sure...)
			}
		}
		if missed {
			j.out.Missed = append(j.out.Missed, p)
		}
	}
	j.in.Interval = len(j.out.Missed) > 0
	j.interpolate(lows, highs)
	j.in.Interval = false
	j.sumMoments(c)
	if x.b.Metric == kernels.Cosine && !x.b.Biased {
		j.setMean(x.dots, x.dim, 1)
	}
	j.out.Sample = x.sample
	if err := j.binnedHistogram(ctx, &x.b, c); err != nil {
		return nil, err
	}
	next.Ranges, next.Sure = disjoint(next.Ranges, next.Ends), disjoint(next.Sure, next.Ends)
	if slices.Equal(next.Ranges, next.Sure) {
		next.Sure = nil
	}
	if len(j.out.Missed) == 0 && x.ends.low.Query >= 0 && x.ends.high.Query >= 0 {
		next = nil
	}
	return next, nil
}

// rest returns the ranges between two scores that may have a quantile which no pass has found yet.
func (x *Partial) rest(low, high float64) (list [][2]float64) {
	for _, r := range x.b.Sure {
		if r = [2]float64{max(low, r[0]), min(high, r[1])}; r[0] <= r[1] {
			list = append(list, r)
		}
	}
	if list == nil {
		list = [][2]float64{{low, high}}
	}
	return list
}

// setEnds sets the extremes, and returns brackets that find those that are not known.
func (x *Partial) setEnds(j *job) *distribution.Brackets {
	next, s := x.b, &j.out.NegativeSummary
	next.Ranges, next.Sure, next.Cells, next.Bins = nil, nil, 0, 0 // what is wanted is known closely enough to be kept
	bottom, top := math.Inf(-1), math.Inf(1)
	switch x.b.Metric {
	case kernels.Cosine:
		bottom, top = -1, 1
	case kernels.L2:
		bottom = 0
	}
	switch { // a bias makes scores closer
	case x.b.Biased && x.b.Metric.Ascending():
		bottom = math.Inf(-1)
	case x.b.Biased:
		top = math.Inf(1)
	}
	low, high := x.ends.low, x.ends.high
	if low.Query < 0 { // nothing lies beyond the end
		low.Score = max(bottom, x.b.Ends[0])
	}
	if high.Query < 0 {
		high.Score = min(top, x.b.Ends[1])
	}
	setExtremes(s, low, high)
	width, slack := (x.b.High-x.b.Low)/float64(max(1, len(x.bins))), j.slack()
	if i := slices.IndexFunc(x.bins, func(n int64) bool { return n > 0 }); low.Query < 0 && i >= 0 {
		edge := x.b.Low + float64(i+1)*width
		next.Ends[0] = edge + slack(edge)
	}
	if i := lastIndex(x.bins); high.Query < 0 && i >= 0 {
		edge := x.b.Low + float64(i)*width
		next.Ends[1] = edge - slack(edge)
	}
	return &next
}

func lastIndex(bins []int64) int {
	for i := len(bins) - 1; i >= 0; i-- {
		if bins[i] > 0 {
			return i
		}
	}
	return -1
}

// at returns the order statistic of a rank by closeness, if it was kept.
func (x *Partial) at(rank int64) (close float64, ok bool) {
	list, low, high, all := closeRanges(&x.b)
	n := int64(len(x.kept))
	if all {
		return x.kept[rank], true
	}
	if beyond := int64(sort.Search(len(x.kept), func(i int) bool { return x.kept[i] > low })); rank < beyond {
		return x.kept[rank], true
	}
	if beyond := int64(sort.SearchFloat64s(x.kept, high)); rank >= x.counted-(n-beyond) {
		return x.kept[n-(x.counted-rank)], true
	}
	for k, r := range list {
		from := int64(sort.SearchFloat64s(x.kept, r[0]))
		to := int64(sort.Search(len(x.kept), func(i int) bool { return x.kept[i] > r[1] }))
		if rank >= x.below[k] && rank < x.below[k]+to-from {
			return x.kept[from+rank-x.below[k]], true
		}
	}
	return 0, false
}

// belowBins returns how many scores are below each cell of the histogram, and in all.
func (x *Partial) belowBins() []int64 {
	below := make([]int64, 1, len(x.bins)+1)
	for i, n := range x.bins {
		below = append(below, below[i]+n)
	}
	return below
}

// interval bounds an order statistic by the brackets and the cells around it. In a cell, a share of the error of tile
// values below 1 gives ends that are likely, but not certain: errors cancel out (see resolve.go).
func (x *Partial) interval(j *job, bins []int64, rank int64, share float64) (low, high float64) {
	s, b := &j.out.NegativeSummary, j.bounded
	low, high = s.Min, s.Max
	close, slack := b.rank(rank, s.N), j.slack()
	list, _, _, _ := closeRanges(&x.b)
	for k, r := range list {
		if from, to, ok := x.cell(b, k, r, close); ok {
			off := share * slack(from) // the larger one for a distance
			ends := [2]float64{closeness(b.metric, r[0]), closeness(b.metric, r[1])}
			return max(from-off, min(ends[0], ends[1])), min(to+off, max(ends[0], ends[1]))
		}
		less, edge := close < x.below[k], r[0] // scores as close as this are at the rank and beyond
		if x.b.Cells > 0 && !less {
			edge -= 2 * slack(closeness(b.metric, edge)) // counts are by tile values
		}
		if closer := closeness(b.metric, edge); less == b.metric.Ascending() {
			low = max(low, closer)
		} else {
			high = min(high, closer)
		}
	}
	if n := len(x.bins); n > 0 {
		width := (x.b.High - x.b.Low) / float64(n)
		i := sort.Search(n, func(i int) bool { return bins[i+1] > rank })
		if from := x.b.Low + float64(i)*width; i > 0 {
			low = max(low, from-slack(from))
		}
		if to := x.b.Low + float64(i+1)*width; i < n-1 {
			high = min(high, to+slack(to))
		}
	}
	return low, high
}

// cell returns the scores between which the cell of bracket k with a rank lies; ok is false if none has it.
func (x *Partial) cell(b *bounded, k int, r [2]float64, rank int64) (low, high float64, ok bool) {
	n, below := x.b.Cells, x.below[k]
	for i := range n {
		next := below + x.cells[k*n+i]
		if rank < below || rank >= next {
			below = next
			continue
		}
		low, high = closeness(b.metric, r[0]), closeness(b.metric, r[1])
		if c := x.cellsOf(b, r); c.scale > 0 {
			low, high = b.score(c.edge(i)), b.score(c.edge(i+1))
		}
		return min(low, high), max(low, high), true
	}
	return 0, 0, false
}

// disjoint joins ranges that touch, and cuts off what lies beyond the ends.
func disjoint(list [][2]float64, ends [2]float64) (out [][2]float64) {
	slices.SortFunc(list, func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) })
	for _, r := range list {
		r[0], r[1] = max(r[0], math.Nextafter(ends[0], math.Inf(1))), min(r[1], math.Nextafter(ends[1], math.Inf(-1)))
		switch last := len(out) - 1; {
		case r[0] > r[1]:
		case last >= 0 && r[0] <= out[last][1]+1e-4:
			out[last][1] = max(out[last][1], r[1])
		default:
			out = append(out, r)
		}
	}
	return out
}
