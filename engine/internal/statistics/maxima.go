package statistics

import (
	"context"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// boundedMaxima turns the first sweep's candidates into Best and BestOther: those that the bound leaves
// get canonical scores.
func (j *job) boundedMaxima(ctx context.Context, t *tally) error {
	b, d := j.bounded, j.out
	best, rows := make([]float64, j.q.N), make([]int32, j.q.N)
	for q := range best {
		best[q], rows[q] = j.in.Metric.Worst(), -1
	}
	if err := j.lead(ctx, t.other, best, rows); err != nil {
		return err
	}
	if b.others {
		copy(d.BestOther, best)
		copy(d.BestOtherRow, rows)
	}
	copy(d.Best, best)
	copy(d.BestRow, rows)
	for q, own := range j.in.Owner {
		j.improve(d.Best, d.BestRow, int32(q), own, d.Positive[q])
	}
	return j.lead(ctx, t.all, d.Best, d.BestRow)
}

// improve replaces a query's best by something better, or as good in a lower row.
func (j *job) improve(best []float64, rows []int32, q, row int32, score float64) {
	if rows[q] < 0 || j.in.Metric.Better(score, best[q]) || score == best[q] && row < rows[q] {
		best[q], rows[q] = score, row
	}
}

// lead improves the maxima by the candidates that may be the best of their lane.
func (j *job) lead(ctx context.Context, list []leader, best []float64, rows []int32) error {
	b := j.bounded
	// Candidates in the order of lanes, from starts[lane].
	starts := make([]int32, b.lanes.Len()+1)
	most := make([]float32, b.lanes.Len())
	for l := range most {
		most[l] = minusInf
	}
	for _, l := range list {
		starts[l.lane+1]++
		most[l.lane] = max(most[l.lane], l.value)
	}
	for l := range b.lanes.Len() {
		starts[l+1] += starts[l]
	}
	sorted, next := make([]leader, len(list)), append([]int32(nil), starts...)
	for _, l := range list {
		sorted[next[l.lane]] = l
		next[l.lane]++
	}
	const chunk = 8 * device.Panel
	rechecked := make([]int64, j.blocks.Workers)
	err := j.r.Pool.Each(ctx, workers.Ceil(b.lanes.Len(), chunk), len(rechecked), func(worker, task int) error {
		var qs, cs []int32
		for _, l := range sorted[starts[task*chunk]:starts[min(b.lanes.Len(), (task+1)*chunk)]] {
			if l.value >= most[l.lane]-b.margin() {
				qs, cs = append(qs, through(b.laneAt, int(l.lane))), append(cs, through(b.rowAt, int(l.row)))
			}
		}
		scores := make([]float64, len(qs))
		if err := j.pairs(scores, qs, cs); err != nil {
			return err
		}
		for i, s := range scores {
			j.improve(best, rows, qs[i], cs[i], s)
		}
		rechecked[worker] += int64(len(qs))
		return nil
	})
	for _, n := range rechecked {
		j.out.Rechecked += n
	}
	return err
}
