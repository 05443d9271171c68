package statistics

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
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
