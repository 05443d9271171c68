package statistics

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// Scores with a bias are canonical, and a Partial of them needs no tiles: each score is counted as it is.

// largestBiased is the largest scaled score whose sums a Partial keeps: the squares of sumBatch of them fit an int64.
const (
	largestBiased = 1 << 12
	sumBatch      = 1 << 8
	sumUnits      = 1 << 30 // tiles.Sum
)

// countBiased counts a block of pairs with a bias.
func (x *Partial) countBiased(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input,
	rows, lanes []int32) error {
	if x.b.Cells > 0 {
		return fmt.Errorf("engine: %w: pairs with a bias are kept, not counted in %d cells", distribution.ErrPart,
			x.b.Cells)
	}
	if x.b.Metric != in.Metric || x.b.Negatives != in.Negatives.Kind {
		return fmt.Errorf("engine: %w: brackets of another metric or choice of negatives", distribution.ErrPart)
	}
	in.Bins, in.Interval = 0, false
	j, err := prepareJob(ctx, r, t, in)
	if err != nil {
		return err
	}
	defer j.free()
	if j.negatives.sampled() {
		return errSampled
	}
	if x.area, err = x.covered(&in, rows, lanes); err != nil {
		return err
	}
	list, _, _, _ := closeRanges(&x.b)
	x.below = make([]int64, len(list))
	if x.b.Bins > 0 {
		x.bins = make([]int64, binsOf(&x.b))
	}
	if len(x.area) == 0 {
		return nil
	}
	if err := j.positives(ctx, lanes); err != nil {
		return err
	}
	s := &bounded{metric: in.Metric, biased: true}
	if err := s.setScales(ctx, j); err != nil {
		return err
	}
	c := &biasedCount{x: x, j: j, unit: s.unit, room: j.keepMemory(), work: make([]*biasedWork, j.blocks.Workers)}
	c.list, c.low, c.high, c.all = closeRanges(&x.b)
	if err := c.run(ctx, rows, lanes); err != nil {
		return err
	}
	x.setQueries(j, lanes)
	if err := c.merge(ctx); err != nil {
		return err
	}
	return x.scored(ctx, j, rows, lanes)
}

// covered returns the pairs of a block as numbers of the whole.
func (x *Partial) covered(in *distribution.Input, rows, lanes []int32) (area, error) {
	contexts, queries := make([]uint64, len(rows)), make([]uint64, len(lanes))
	for i, row := range rows {
		contexts[i] = in.ContextID(row)
	}
	for i, q := range lanes {
		queries[i] = in.QueryID(q)
	}
	a, err := newArea(contexts, queries)
	if err != nil {
		return nil, fmt.Errorf("engine: %w: %w", kernels.ErrArgument, err)
	}
	return a, a.within(x.of)
}

// biasedCount is one count of a block.
type biasedCount struct {
	x         *Partial
	j         *job
	list      [][2]float64 // closeRanges
	low, high float64
	all       bool
	unit      float64
	room      int64 // scores that may be kept
	taken     atomic.Int64
	work      []*biasedWork
}

// biasedWork is what one worker has counted.
type biasedWork struct {
	Partial
	sums unitSums
}

func (c *biasedCount) run(ctx context.Context, rows, lanes []int32) error {
	for i := range c.work {
		c.work[i] = &biasedWork{sums: unitSums{unit: c.unit}, Partial: Partial{b: c.x.b, ends: noEnds,
			below: make([]int64, len(c.x.below)), bins: make([]int64, len(c.x.bins))}}
	}
	return c.j.scored(ctx, lanes, rows, func(worker, q, c0 int, scores []float64) error {
		return c.take(c.work[worker], q, c0, scores)
	})
}

// take counts the scores of a query with consecutive contexts. A query's contexts come in order, on one worker.
func (c *biasedCount) take(w *biasedWork, q, c0 int, scores []float64) error {
	var values [sumBatch]float64
	for from := 0; from < len(scores); from += sumBatch {
		n := 0
		for i, s := range scores[from:min(from+sumBatch, len(scores))] {
			row := int32(c0 + from + i)
			c.j.offer(int32(q), row, s)
			if c.j.negatives.has(q, int(row)) {
				values[n] = s
				n++
				c.count(w, q, row, s)
			}
		}
		if err := w.add(values[:n], c.unit); err != nil {
			return err
		}
	}
	if c.taken.Load() > c.room {
		return fmt.Errorf("engine: part: %w: no room for what the brackets keep", kernels.ErrMemoryLimit)
	}
	return nil
}

// count counts a score in the brackets and cells.
func (c *biasedCount) count(w *biasedWork, q int, row int32, score float64) {
	x, close := &w.Partial, closeness(c.x.b.Metric, score)
	within := c.all
	for i, r := range c.list {
		if close < r[0] {
			x.below[i]++
		} else if close <= r[1] {
			within = true
		}
	}
	if c.all || close <= c.low || close >= c.high {
		within = true
		x.ends.add(c.j, int32(q), row, score)
	}
	if within {
		x.kept = append(x.kept, close)
		c.taken.Add(1)
	}
	if n := len(x.bins); n > 0 {
		cell := (score - c.x.b.Low) / (c.x.b.High - c.x.b.Low) * float64(n)
		x.bins[int(min(max(cell, 0), float64(n-1)))]++
	}
	x.counted++
}

// add adds scores to the sums, each rounded to a unit, so that any order gives the same bits.
func (w *biasedWork) add(scores []float64, unit float64) (err error) {
	var sum, square int64
	for _, s := range scores {
		v := s * unit
		if !(math.Abs(v) < largestBiased) {
			return fmt.Errorf("engine: part: %w: a score of %v with its bias; at most %v", kernels.ErrRange, s,
				largestBiased/unit)
		}
		sum += int64(math.RoundToEven(v * sumUnits))
		square += int64(math.RoundToEven(v * v * sumUnits))
	}
	w.sums.tiles += float64(len(scores))
	if w.sums.sum, err = w.sums.sum.Plus(tiles.Sum{Hi: sum >> 63, Lo: uint64(sum)}); err != nil {
		return err
	}
	w.sums.square, err = w.sums.square.Plus(tiles.Sum{Lo: uint64(square)})
	return err
}

// merge adds up the workers' counts.
func (c *biasedCount) merge(ctx context.Context) (err error) {
	x, sums := c.x, []unitSums(nil)
	for _, w := range c.work {
		x.counted += w.counted
		addTo(x.below, w.below)
		addTo(x.bins, w.bins)
		x.kept = append(x.kept, w.kept...)
		x.ends.merge(w.ends)
		if sums, err = addSums(sums, []unitSums{w.sums}); err != nil {
			return err
		}
	}
	if x.counted > 0 {
		x.sums = sums
	}
	return workers.Sort(ctx, c.j.r.Pool, x.kept, cmp.Compare)
}
