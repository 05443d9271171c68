package statistics

import (
	"context"

	"github.com/sluice-rag/sluice/kernels/ref"
)

// extremes are the lowest and the highest pair of D− that each worker of a canonical pass has found.
type extremes struct{ low, high []ref.Pair }

func (j *job) newExtremes() *extremes {
	e := &extremes{make([]ref.Pair, j.blocks.Workers), make([]ref.Pair, j.blocks.Workers)}
	for i := range e.low {
		e.low[i], e.high[i] = noPair, noPair
	}
	return e
}

// take goes over a strip, which is not empty.
func (e *extremes) take(worker int, s *strip) {
	low, high := 0, 0
	for i, x := range s.scores {
		if x < s.scores[low] {
			low = i
		}
		if x > s.scores[high] {
			high = i
		}
	}
	lower(&e.low[worker], s.pair(low))
	higher(&e.high[worker], s.pair(high))
}

// setEnds makes what a canonical pass has found the extremes of the counts.
func (j *job) setEnds(c *counts, e *extremes) {
	j.reasons = append(j.reasons, "extremes from canonical scores")
	low, high := noPair, noPair
	for i := range e.low {
		lower(&low, e.low[i])
		higher(&high, e.high[i])
	}
	c.lowest, c.highest, c.endsLost = low, high, false
	if j.in.Metric.Ascending() {
		c.lowest, c.highest = high, low
	}
}

// canonicalExtremes finds the extremes of D− by canonical scores.
func (j *job) canonicalExtremes(ctx context.Context, c *counts) error {
	e := j.newExtremes()
	if err := j.strips(ctx, e.take); err != nil {
		return err
	}
	j.setEnds(c, e)
	return nil
}
