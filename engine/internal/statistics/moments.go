package statistics

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// boundedNegatives computes the summary of D− and everything that depends on it from the first pass.
func (j *job) boundedNegatives(ctx context.Context, first *counts) error {
	total, b := j.negatives.total, j.bounded
	if first.counted != total {
		return fmt.Errorf("engine: %w: %d negatives counted of %d", distribution.ErrPart, first.counted, total)
	}
	j.out.Kept = first.keptPairs()
	if err := j.resolve(ctx, &b.first, first); err != nil {
		return err
	}
	first.kept = nil
	if err := j.redo(ctx, first); err != nil {
		return err
	}
	if err := j.canonicalRest(ctx, first); err != nil {
		return err
	}
	s := &j.out.NegativeSummary
	s.N = total
	j.setQuantiles(first)
	if err := j.moments(ctx, first); err != nil {
		return err
	}
	return j.boundedHistogram(ctx, first)
}

// setQuantiles sets the extremes and the quantiles of D−; with Interval, between bounds where statistics are unknown.
func (j *job) setQuantiles(c *counts) {
	s, b, total := &j.out.NegativeSummary, j.bounded, j.negatives.total
	low, high := c.lowest, c.highest
	if b.metric.Ascending() {
		low, high = high, low
	}
	setExtremes(s, low, high)
	lows, highs := map[int64]float64{0: s.Min, total - 1: s.Max}, map[int64]float64{0: s.Min, total - 1: s.Max}
	for _, x := range b.statistics {
		r := b.rank(x.rank, total)
		if lows[r], highs[r] = x.score, x.score; !x.known {
			ends := mirrored(b.metric, [2]float64{b.close(x.low), b.close(x.high)})[0]
			lows[r], highs[r] = max(ends[0], s.Min), min(ends[1], s.Max)
		}
	}
	j.interpolate(lows, highs)
}

// canonicalRest computes by canonical scores what no bounded pass could determine.
func (j *job) canonicalRest(ctx context.Context, e *counts) error {
	b := j.bounded
	if e.endsLost {
		if err := j.canonicalExtremes(ctx, e); err != nil {
			return err
		}
	}
	open := j.open()
	var targets []target
	for _, s := range open {
		low, high := max(s.low, b.value(e.lowest.Score)), min(s.high, b.value(e.highest.Score))
		low, high = b.score(low), b.score(high)
		if b.metric.Ascending() {
			low, high = high, low
		}
		slack := 1e-14 * max(math.Abs(low), math.Abs(high))
		targets = append(targets,
			target{rank: b.rank(s.rank, j.negatives.total), low: key(low - slack), high: key(high + slack)})
	}
	if b.metric.Ascending() { // targets are in the order of scores
		slices.Reverse(open)
		slices.Reverse(targets)
	}
	if len(targets) > 0 {
		j.reasons = append(j.reasons, "quantiles from canonical scores: the bound leaves too many pairs open")
	}
	if err := j.refine(ctx, targets); err != nil {
		return err
	}
	for i, t := range targets {
		open[i].score, open[i].known = unkey(t.low), true
	}
	return nil
}

// tileSums holds sums over tiles: of values, of squares, and the number of tiles rounded to 2⁻³⁰; spread is as in
// Part.
type tileSums struct{ sum, square, tiles, spread float64 }

// sums returns the tile sums of the passes of this job, or of merged parts.
func (c *counts) sums(b *bounded) tileSums {
	if c.merged != nil {
		return *c.merged
	}
	return tileSums{c.sum.Float64(), c.sum2.Float64(), float64(b.rowPanels) * float64(b.lanePanels), 1}
}

// moments sets Mean and Std of D− and the bounds of their errors.
func (j *job) moments(ctx context.Context, t *counts) error {
	if j.sumMoments(t); j.bounded.metric == kernels.L2 {
		return nil
	}
	return j.meanOfSums(ctx)
}

// sumMoments sets them from the sums of values.
func (j *job) sumMoments(t *counts) {
	s, b := &j.out.NegativeSummary, j.bounded
	n := float64(s.N)
	const unit, u = 1 << 30, 0x1p-24
	// In each tile 16 lanes add 64 values each in float32; a tile's sum is rounded to the unit.
	sums := t.sums(b)
	rounding, mean, square := sums.tiles/n/(2*unit), sums.sum/n, sums.square/n
	meanError := sums.spread * (65*u*math.Sqrt(max(square, 0)) + rounding)
	variance := max(square-mean*mean, 0)
	off := sums.spread*(67*u*max(square, 0)+rounding) + 2*math.Abs(mean)*meanError + meanError*meanError
	std := math.Sqrt(variance)
	stdError := math.Max(math.Sqrt(variance+off)-std, std-math.Sqrt(max(0, variance-off)))
	// A standard deviation is a seminorm: it changes by no more than that of the differences.
	difference, meanDifference := sums.spread*b.epsilon, sums.spread*b.epsilon
	scale := 1.
	switch b.metric {
	case kernels.IP:
		scale = b.unit
	case kernels.L2:
		scale = b.unit
		difference, meanDifference = j.distanceError(t)
		difference += 2 * u * math.Sqrt(max(square, 0))
		meanDifference += 2 * u * math.Sqrt(max(square, 0))
	}
	s.Std, s.StdError = std/scale, 1.01*(stdError+difference)/scale
	s.Mean, s.MeanError = mean/scale, 1.01*(meanError+meanDifference)/scale
}

// distanceError bounds the error of scaled distances r = √(−2v), in the root mean square and in the mean: |√a − √b| is
// at most √|a − b|, and at most |a − b|/√b. Pairs closer than some distance use the first bound, the others the
// second; the best of the known distances is used.
func (j *job) distanceError(t *counts) (rms, mean float64) {
	b, n := j.bounded, float64(j.negatives.total)
	worst, off := math.Sqrt(2*b.epsilon), 2*b.epsilon
	rms, mean = worst, worst
	try := func(closer, distance float64) { // the share of closer pairs, and the least distance of the others
		if distance > 0 {
			rms = min(rms, math.Sqrt(closer*off+(1-closer)*(off/distance)*(off/distance)))
			mean = min(mean, closer*worst+(1-closer)*off/distance)
		}
	}
	try(0, b.unit*j.out.NegativeSummary.Min)
	for i, r := range b.first.brackets { // values below r.low are farther
		exact := -2 * (float64(r.low) + b.epsilon)
		if exact > 0 && i < len(t.below) {
			try(1-float64(t.below[i])/n, math.Sqrt(exact))
		}
	}
	return rms, mean
}

// fineBins is about how many cells a histogram is counted in, whatever it is asked for.
const fineBins = 4096

// boundedHistogram counts D− between its extremes in a pass of its own, and derives Separation; without
// Bins, from what the first pass counted. Where the bound is too coarse for the bins, scores are canonical,
// unless the caller is content with intervals.
func (j *job) boundedHistogram(ctx context.Context, first *counts) error {
	s, bins := &j.out.NegativeSummary, j.in.Bins
	slack := j.slack()
	if bins == 0 {
		return j.separation(ctx, first.steps(j), slack)
	}
	n := bins * workers.Ceil(fineBins, bins)
	worst := max(slack(s.Min), slack(s.Max))
	fine, err := []int64(nil), error(nil)
	if j.in.Interval && s.Max > s.Min || worst < (s.Max-s.Min)/float64(2*bins) {
		fine, err = j.fineHistogram(ctx, n)
	} else {
		fine, err = j.canonicalHistogram(ctx, n)
		slack = func(x float64) float64 { return 1e-14 * max(math.Abs(s.Min), math.Abs(s.Max)) }
	}
	if err != nil {
		return err
	}
	steps, below := make([]step, 0, n+1), int64(0)
	for i, k := range fine {
		j.out.NegativeHistogram[i/(n/bins)] += k
		steps = append(steps, step{s.Min + (s.Max-s.Min)*float64(i)/float64(n), below})
		below += k
	}
	return j.separation(ctx, append(steps, step{s.Max, below}), slack)
}

// fineHistogram counts in n bins by a pass.
func (j *job) fineHistogram(ctx context.Context, n int) ([]int64, error) {
	s, unit := &j.out.NegativeSummary, j.bounded.unit // of values, for l2 of scaled distances
	if j.in.Metric == kernels.Cosine {
		unit = 1
	}
	scale := min(float64(n)/((s.Max-s.Min)*unit), math.MaxFloat32)
	l := wanted{low: minusInf, high: plusInf, bins: n, binLow: float32(s.Min * unit), binScale: float32(scale)}
	t := newCounts(&l)
	err := j.count(ctx, &l, histogramPass, j.bounded.allTasks(), t)
	return t.bins, err
}

// step is a score and how many negatives are below it, but for those within the bound of it.
type step struct {
	score float64
	below int64
}

// steps returns what the first pass knows of the distribution.
func (t *counts) steps(j *job) []step {
	s, b := &j.out.NegativeSummary, j.bounded
	steps := []step{{s.Min, 0}}
	for i := range t.below {
		i := b.rank(int64(i), int64(len(t.below)))
		score, below := b.score(float64(b.first.brackets[i].low)), t.below[i]
		if b.metric.Ascending() {
			below = s.N - below
		}
		steps = append(steps, step{score, below})
	}
	return append(steps, step{s.Max, s.N})
}

// separation bounds P(D+ closer than D−) by what is certain on either side of each positive.
func (j *job) separation(ctx context.Context, steps []step, slack func(float64) float64) error {
	s := &j.out.NegativeSummary
	var certain, possible wide // pairs whose negative is below the positive
	err := workers.Over(ctx, len(j.out.Positive), func(from, to int) {
		for _, x := range j.out.Positive[from:to] {
			if x < s.Min {
				continue
			}
			// The last step that is below for certain, and the first that is above for certain.
			i, k := above(steps, x-slack(x)), above(steps, x+slack(x))
			switch {
			case x > s.Max:
				certain.add(s.N)
			case i > 0:
				certain.add(steps[i-1].below)
			}
			if k < len(steps) {
				possible.add(steps[k].below)
			} else {
				possible.add(s.N)
			}
		}
	})
	if err != nil {
		return err
	}
	pairs := float64(j.q.N) * float64(s.N)
	low, high := certain.float()/pairs, possible.float()/pairs
	if j.in.Metric.Ascending() {
		low, high = 1-high, 1-low
	}
	j.out.Separation, j.out.SeparationError = low+(high-low)/2, (high-low)/2
	return nil
}

// wide is a count of pairs of pairs: from two million positives and negatives each on, an int64 does not hold it.
type wide struct{ high, low uint64 }

func (w *wide) add(n int64) {
	var carry uint64
	w.low, carry = bits.Add64(w.low, uint64(n), 0)
	w.high += carry
}

func (w *wide) float() float64 { return float64(w.high)*0x1p64 + float64(w.low) }

// above returns the first step above x.
func above(steps []step, x float64) int {
	from, to := 0, len(steps)
	for from < to {
		if mid := (from + to) / 2; steps[mid].score > x {
			to = mid
		} else {
			from = mid + 1
		}
	}
	return from
}

// slack returns how far a step's score may be from where it was counted.
func (j *job) slack() func(x float64) float64 {
	b, s := j.bounded, &j.out.NegativeSummary
	const rounding = 0x1p-20 // of float32 edges, relative to the largest value
	largest := max(math.Abs(s.Min), math.Abs(s.Max))
	return func(x float64) float64 {
		switch {
		case b.metric == kernels.Cosine:
			return b.epsilon + rounding
		case !b.metric.Ascending():
			return b.epsilon/b.unit + rounding*largest
		}
		off := math.Sqrt(2 * b.epsilon)
		if r := b.unit*x - off; r > 0 {
			off = min(off, 2*b.epsilon/r)
		}
		return off/b.unit + rounding*largest
	}
}
