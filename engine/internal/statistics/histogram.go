package statistics

import (
	"context"
	"math"
	"math/bits"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

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
