package statistics

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Maxima and extremes are found while a pass counts: a pair whose tile value comes within the bound of the best one so
// far gets its canonical score at once. Marks of the best tile values keep the number of such candidates small.

// Kinds of maxima.
const (
	bestOther = iota // over contexts of other groups
	bestAll          // over all near contexts; with bestOther and the own pair, over all
)

// bests holds the largest tile values known so far, per lane; each range of lanes has a lock. The canonical maxima are
// in the result: BestOther and, for near pairs, Best.
type bests struct {
	locks      []sync.Mutex
	laneStep   int
	other, all []float32
	lost       atomic.Bool // some maxima are unknown: too many pairs were equally good
}

// begin sets the marks. The value of an own pair is at least its canonical counterpart less epsilon. Without groups
// only own pairs are near, and D+ contains them.
func (s *bests) begin(ctx context.Context, j *job, b *bounded) error {
	lanes := b.lanePanels * device.Panel
	s.locks, s.laneStep = make([]sync.Mutex, b.columns), b.laneStep
	s.other, s.all = make([]float32, lanes), make([]float32, lanes)
	at := func(score float64, row int32) float32 {
		if row < 0 {
			return minusInf
		}
		return scan.Down(b.value(score) - b.epsilon)
	}
	return workers.Over(ctx, lanes, func(from, to int) {
		for l := from; l < to; l++ {
			s.other[l], s.all[l] = minusInf, plusInf
			if l >= b.laneCount {
				continue
			}
			q := through(b.laneAt, l)
			s.other[l] = at(j.out.BestOther[q], j.out.BestOtherRow[q])
			if b.rowGroup != nil {
				s.all[l] = max(scan.Down(b.value(j.out.Positive[q])-b.epsilon), at(j.out.Best[q], j.out.BestRow[q]))
			}
		}
	})
}

// take copies the known maxima of the lanes to the worker.
func (s *bests) take(w *worker, lane0, lane1 int) {
	lock := &s.locks[lane0/s.laneStep]
	lock.Lock()
	defer lock.Unlock()
	copy(w.count.BestOther, s.other[lane0*device.Panel:lane1*device.Panel])
	copy(w.count.BestAll, s.all[lane0*device.Panel:lane1*device.Panel])
}

// give merges the worker's maxima into the shared ones, and replaces those of the worker by what a candidate must
// reach.
func (s *bests) give(w *worker, lane0, lane1 int) {
	c, lock := &w.count, &s.locks[lane0/s.laneStep]
	lock.Lock()
	defer lock.Unlock()
	for i := range (lane1 - lane0) * device.Panel {
		l := lane0*device.Panel + i
		s.other[l] = max(s.other[l], c.BestOther[i])
		s.all[l] = max(s.all[l], c.BestAll[i])
		c.BestOther[i], c.BestAll[i] = s.other[l]-c.Margin, s.all[l]-c.Margin
	}
}

// improve merges w's scored pairs, all of lanes from lane0 on, into the result.
func (s *bests) improve(j *job, w *worker, kind, lane0 int) {
	if len(w.queries) == 0 {
		return
	}
	lock := &s.locks[lane0/s.laneStep]
	lock.Lock()
	defer lock.Unlock()
	for i, q := range w.queries {
		if j.improve(kind, q, w.context[i], w.scores[i]) && j.log != nil {
			w.mine.best[kind] = append(w.mine.best[kind], ref.Pair{Query: q, Context: w.context[i], Score: w.scores[i]})
		}
	}
}

// improve replaces a query's best pair by a better one, or by one with an equal score in a lower row.
func (j *job) improve(kind int, q, row int32, score float64) bool {
	best, rows := j.out.BestOther, j.out.BestOtherRow
	if kind == bestAll {
		best, rows = j.out.Best, j.out.BestRow
	}
	if rows[q] < 0 || j.in.Metric.Better(score, best[q]) || score == best[q] && row < rows[q] {
		best[q], rows[q] = score, row
		return true
	}
	return false
}

// takeBest merges the maxima of a record into the result.
func (j *job) takeBest(c *counts) {
	for kind, list := range c.best {
		for _, p := range list {
			j.improve(kind, p.Query, p.Context, p.Score)
		}
	}
}

// finishMaxima combines the maxima over other and near contexts into Best and BestOther.
func (j *job) finishMaxima(ctx context.Context) error {
	d := j.out
	return workers.Over(ctx, len(j.in.Owner), func(from, to int) {
		for q := from; q < to; q++ {
			if d.BestOtherRow[q] >= 0 {
				j.improve(bestAll, int32(q), d.BestOtherRow[q], d.BestOther[q])
			}
			j.improve(bestAll, int32(q), j.in.Owner[q], d.Positive[q])
			if j.in.Group != nil && !j.negatives.several { // no context belongs to another group
				d.BestOther[q], d.BestOtherRow[q] = j.in.Metric.Worst(), -1
			}
		}
	})
}

// endMarks holds the smallest and the largest tile value of D− so far.
type endMarks struct {
	margin    float32
	low, high atomic.Uint32 // float32 bits
	lost      atomic.Bool
}

func (e *endMarks) begin(b *bounded, w *wanted, done *counts) {
	e.margin = b.margin()
	e.low.Store(math.Float32bits(plusInf))
	e.high.Store(math.Float32bits(minusInf))
	if done.lowest.Context >= 0 {
		e.see(up(b.value(done.lowest.Score)+b.epsilon), scan.Down(b.value(done.highest.Score)-b.epsilon))
	}
	if !w.ends {
		e.lost.Store(true)
	}
}

// reach returns the bounds that a candidate for an extreme must not exceed.
func (e *endMarks) reach() (low, high float32) {
	return math.Float32frombits(e.low.Load()) + e.margin, math.Float32frombits(e.high.Load()) - e.margin
}

// limits returns the values at and beyond which a task keeps pairs.
func (e *endMarks) limits(w *wanted) (low, high float32) {
	if e.lost.Load() {
		return w.low, w.high
	}
	low, high = e.reach()
	return max(w.low, min(low, w.endLow)), min(w.high, max(high, w.endHigh))
}

// see extends the marks.
func (e *endMarks) see(low, high float32) {
	for old := e.low.Load(); low < math.Float32frombits(old); old = e.low.Load() {
		if e.low.CompareAndSwap(old, math.Float32bits(low)) {
			break
		}
	}
	for old := e.high.Load(); high > math.Float32frombits(old); old = e.high.Load() {
		if e.high.CompareAndSwap(old, math.Float32bits(high)) {
			break
		}
	}
}

// endsFound reports whether the extremes in complete counts are the extremes of D−, which requires that all pairs near
// them were kept.
func (b *bounded) endsFound(c *counts) bool {
	w := &b.first
	if !w.ends || c.lowest.Context < 0 {
		return false
	}
	near := 3*b.epsilon + 0x1p-20
	return b.value(c.lowest.Score)+near <= float64(max(w.low, w.endLow)) &&
		b.value(c.highest.Score)-near >= float64(min(w.high, w.endHigh))
}

// takeEnds computes the canonical scores of a task's entries that may be extremes. It lists in w.beyond which ones lie
// at or beyond the limits of the task.
func (p *pass) takeEnds(ctx context.Context, w *worker, task int) error {
	kept, low, high := w.count.Kept, w.count.Min, w.count.Max
	w.beyond = w.beyond[:0]
	for i, e := range kept { // the one loop over all entries, which may be millions
		if e.Value <= low || e.Value >= high {
			w.beyond = append(w.beyond, int32(i))
		}
	}
	if p.ends.lost.Load() {
		return nil
	}
	low, high = plusInf, minusInf
	for _, i := range w.beyond {
		low, high = min(low, kept[i].Value), max(high, kept[i].Value)
	}
	p.ends.see(low, high)
	low, high = p.ends.reach()
	w.queries, w.context = w.queries[:0], w.context[:0]
	for _, i := range w.beyond {
		if e := kept[i]; e.Value <= low || e.Value >= high {
			q, c := p.b.pair(task, e.At)
			w.queries, w.context = append(w.queries, q), append(w.context, c)
		}
	}
	if err := p.score(ctx, w); err != nil {
		return err
	}
	for i, q := range w.queries {
		w.mine.takeEnd(p.b.metric, ref.Pair{Query: q, Context: w.context[i], Score: w.scores[i]})
	}
	return nil
}
