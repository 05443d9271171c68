package statistics

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// From kept values to exact order statistics: the r-th canonical value lies within epsilon of the r-th
// tile value, so that if all pairs within 2 epsilon of the latter get canonical scores, those further
// down are known to be below. In fact errors cancel out, and the two are far closer: if they are within
// slack, which the canonical scores themselves show, pairs within slack + epsilon are enough. Kept values
// are sorted no further than into cells.

// scoredReach is how far from an order statistic's tile value pairs get canonical scores at first, in units of epsilon.
const scoredReach = 1 + 1./32

// cells cut the values into equal parts; the first and the last are open.
type cells struct{ low, scale, last float64 }

func newCells(low, high float64, n int) cells {
	c := cells{low: low, last: float64(n - 1)}
	if high > low {
		c.scale = c.last / (high - low)
	}
	return c
}

func (c cells) of(v float64) int {
	x := (v - c.low) * c.scale
	switch {
	case x >= c.last:
		return int(c.last)
	case x > 0:
		return int(x)
	}
	return 0
}

// count adds entries to their cells, and carries on the extremes.
func (c cells) count(counts *[maxCells]int32, entries []device.Entry, lowest, highest float32) (float32, float32) {
	for _, e := range entries {
		if e.Value < lowest {
			lowest = e.Value
		}
		if e.Value > highest {
			highest = e.Value
		}
		counts[c.of(float64(e.Value))&(maxCells-1)]++
	}
	return lowest, highest
}

// edge returns where cell i begins.
func (c cells) edge(i int) float64 { return c.low + float64(i)/c.scale }

// interval is a range whose values are all kept; cells first to last are its own.
type interval struct {
	bracket
	// all pairs whose tile value lies in it are kept; narrower than the bracket where parts have other bounds
	sure         bracket
	below, count int64
	first, last  int
}

// window is a range of values that get canonical scores: for each of its statistics, all whose
// canonical value can be that statistic's.
type window struct {
	low, high   float64
	first, last int
	in          *interval
	start       int64 // values under the cells
	below       int64 // values under low
	size        int64 // values in the cells
	statistics  []*statistic
	scores      []float64    // canonical, in the direction of values: room for size of them
	taken       atomic.Int64 // of that room
	binned      *binned      // where there is no room for all of them
}

// resolver finds order statistics among what a pass kept.
type resolver struct {
	j               *job
	b               *bounded
	t               *counts
	cells           cells
	counts          *[maxCells]int32
	lowest, highest float64 // of the kept values
	intervals       []interval
	windows         []*window
	mark            []uint16 // per cell: 1 + its window
}

// resolve finds what it can: statistics become known, or at least get bounds.
func (j *job) resolve(ctx context.Context, l *wanted, t *counts) error {
	if t.full || len(t.kept) == 0 || l.low == minusInf && len(l.brackets) == 0 && l.high == plusInf {
		return nil
	}
	r := &resolver{j: j, b: j.bounded, t: t}
	if err := r.count(ctx, l); err != nil {
		return err
	}
	for _, slack := range []float64{(scoredReach - 1) * r.b.epsilon, r.b.epsilon} {
		if r.locate(slack); len(r.windows) == 0 {
			continue
		}
		if err := r.recheck(ctx); err != nil {
			return err
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
		if err := r.settleBinned(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle reads statistics off all windows that have their scores.
func (r *resolver) settle(ctx context.Context) error {
	return r.j.r.Pool.Each(ctx, len(r.windows), r.j.blocks.Workers, func(_, i int) error {
		w := r.windows[i]
		if w.binned != nil {
			return nil
		}
		err := w.choose(ctx, r.b, w.statistics, w.below, w.scores)
		w.scores = nil
		return err
	})
}

// parts cuts the kept runs into pieces of work.
func (r *resolver) parts() (parts [][]run) {
	const enough = 1 << 15
	size, from := 0, 0
	for i, k := range r.t.kept {
		if size += int(k.n); size >= enough || i == len(r.t.kept)-1 {
			parts = append(parts, r.t.kept[from:i+1])
			size, from = 0, i+1
		}
	}
	return parts
}

// count fills the cells and the intervals.
func (r *resolver) count(ctx context.Context, l *wanted) error {
	r.cells = newCells(l.from, l.to, maxCells)
	type found struct {
		counts          *[maxCells]int32
		lowest, highest float32
		buffer          []device.Entry
	}
	work := make([]*found, r.j.blocks.Workers)
	parts, near := r.parts(), r.near(l)
	err := r.j.r.Pool.Each(ctx, len(parts), len(work), func(worker, i int) error {
		if work[worker] == nil {
			work[worker] = &found{counts: new([maxCells]int32), lowest: plusInf, highest: minusInf}
		}
		f := work[worker]
		for _, k := range parts[i] {
			if low, high, ok := k.within(); ok &&
				(r.cells.of(float64(low)) == r.cells.of(float64(high)) || !near.meets(low, high)) {
				f.lowest, f.highest = min(f.lowest, low), max(f.highest, high)
				f.counts[r.cells.of(float64(low))] += k.n
				continue
			}
			entries, err := r.j.load(k, &f.buffer)
			if err != nil {
				return err
			}
			err = workers.Over(ctx, len(entries), func(from, to int) {
				f.lowest, f.highest = r.cells.count(f.counts, entries[from:to], f.lowest, f.highest)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.lowest, r.highest = math.Inf(1), math.Inf(-1)
	for _, f := range work {
		if f == nil {
			continue
		}
		r.lowest, r.highest = min(r.lowest, float64(f.lowest)), max(r.highest, float64(f.highest))
		if r.counts == nil {
			r.counts = f.counts
			continue
		}
		for c, n := range f.counts {
			r.counts[c] += n
		}
	}
	r.setIntervals(l)
	return nil
}

// span returns the range of values that vectors of norm 1 can have, and a little more.
func (b *bounded) span() (low, high float64) {
	if b.unit == 0 || b.metric.Ascending() {
		return -2.2, .2
	}
	return -1.1, 1.1
}

func (r *resolver) setIntervals(l *wanted) {
	add := func(b bracket, below int64) {
		iv := interval{bracket: b, sure: b, below: below, first: r.cells.of(float64(b.low)),
			last: r.cells.of(float64(b.high))}
		iv.count = r.sum(iv.first, iv.last+1)
		iv.sure.low, iv.sure.high = b.low+l.spare, b.high-l.spare
		r.intervals = append(r.intervals, iv)
	}
	if l.low > minusInf {
		add(bracket{minusInf, l.low}, 0)
	}
	for i, b := range l.brackets {
		add(b, r.t.below[i])
	}
	if l.high < plusInf {
		add(bracket{l.high, plusInf}, 0)
		last := &r.intervals[len(r.intervals)-1]
		last.below = r.t.counted - last.count
	}
}

// sum counts the values in the cells [from, to).
func (r *resolver) sum(from, to int) (n int64) {
	for _, c := range r.counts[from:max(from, to)] {
		n += int64(c)
	}
	return n
}

// locate bounds the statistics and chooses the windows.
func (r *resolver) locate(slack float64) {
	epsilon := r.b.epsilon
	r.windows = nil
	limit := max(r.j.negatives.total/10, r.j.tune.Recheck)
	for i := range r.b.statistics {
		s := &r.b.statistics[i]
		k := slices.IndexFunc(r.intervals,
			func(iv interval) bool { return s.rank >= iv.below && s.rank < iv.below+iv.count })
		if s.known || k < 0 {
			continue
		}
		iv := &r.intervals[k]
		below, cell := iv.below, iv.first
		for ; below+int64(r.counts[cell]) <= s.rank; cell++ {
			below += int64(r.counts[cell])
		}
		low, high := r.lowest, r.highest
		if cell > 0 {
			low = max(low, r.cells.edge(cell)-1e-12)
		}
		if cell < maxCells-1 {
			high = min(high, r.cells.edge(cell+1)+1e-12)
		}
		s.low, s.high = max(s.low, low-epsilon), min(s.high, high+epsilon)
		low, high = low-epsilon-slack, high+epsilon+slack
		if !r.j.in.Interval && low >= float64(iv.sure.low) && high <= float64(iv.sure.high) {
			r.add(s, iv, low, high)
		}
	}
	r.windows = slices.DeleteFunc(r.windows, func(w *window) bool { return w.size > limit })
	r.widen(r.j.scoreRoom())
	r.setMarks()
}

// setMarks tells the cells which window they belong to.
func (r *resolver) setMarks() {
	r.mark = make([]uint16, maxCells)
	for i, w := range r.windows {
		for c := w.first; c <= w.last; c++ {
			r.mark[c] = uint16(i + 1)
		}
	}
}

// scoreRoom returns how many canonical scores the windows may hold: 8 bytes, twice when the workers' are put together,
// and a quarter for growing. Kept pairs have the rest of the room; regions of panels are gone by now.
func (j *job) scoreRoom() int64 {
	if j.tune.Scores > 0 {
		return j.tune.Scores
	}
	room := max(j.room-entryBytes*j.keepMemory(), j.room/8)
	if j.outOfCore && j.r.Describe().Memory == 0 {
		room = 2 * j.room // what panels took is three times j.room
	}
	return room / 20
}

// add opens a window for a statistic, or widens the last one.
func (r *resolver) add(s *statistic, iv *interval, low, high float64) {
	first, last := max(iv.first, r.cells.of(low)), min(iv.last, r.cells.of(high))
	if n := len(r.windows); n > 0 && r.windows[n-1].in == iv && first <= r.windows[n-1].last {
		w := r.windows[n-1]
		w.high, w.last, w.statistics = max(w.high, high), max(w.last, last), append(w.statistics, s)
		w.size = r.sum(w.first, w.last+1)
		return
	}
	r.windows = append(r.windows, &window{low: low, high: high, first: first, last: last, in: iv,
		start: iv.below + r.sum(iv.first, first), size: r.sum(first, last+1), statistics: []*statistic{s}})
}

// picker is a worker's part of a recheck.
type picker struct {
	queries, contexts []int32 // pairs of all windows, in their order: neighbours share rows
	window            []uint16
	below             []int64
	scores            [][]float64 // per window
	rechecked         int64
	buffer            []float64
	near              [pickBatch]int32 // entries of a batch that lie in windows
	entries           []device.Entry   // of a run in the spill file
}

const pickBatch = 1 << 10

// recheck gives canonical scores to what lies in the windows.
func (r *resolver) recheck(ctx context.Context) error {
	n := len(r.windows)
	for _, w := range r.windows {
		if w.binned == nil {
			w.scores = make([]float64, w.size)
		}
	}
	work := make([]*picker, r.j.blocks.Workers)
	parts := r.parts()
	err := r.j.r.Pool.Each(ctx, len(parts), len(work), func(worker, i int) error {
		p := work[worker]
		if p == nil {
			p = &picker{below: make([]int64, n), scores: make([][]float64, n),
				buffer: make([]float64, pickBatch)}
			work[worker] = p
		}
		for _, k := range parts[i] {
			if err := r.scan(ctx, p, k); err != nil {
				return err
			}
		}
		if err := r.flush(ctx, p); err != nil {
			return err
		}
		for i := range p.scores {
			r.store(p, i)
		}
		return nil
	})
	for _, w := range r.windows {
		w.below = w.start
		w.scores = w.scores[:w.taken.Load()]
	}
	for _, p := range work {
		if p == nil {
			continue
		}
		for i, w := range r.windows {
			w.below += p.below[i]
		}
		r.j.out.Rechecked += p.rechecked
	}
	return err
}

// scan picks from one run.
func (r *resolver) scan(ctx context.Context, p *picker, k run) error {
	if low, high, ok := k.within(); ok && // nothing lies in a cell of a window
		!slices.ContainsFunc(r.mark[r.cells.of(float64(low)):r.cells.of(float64(high))+1],
			func(m uint16) bool { return m > 0 }) {
		return nil
	}
	entries, err := r.j.load(k, &p.entries)
	if err != nil {
		return err
	}
	for from := 0; from < len(entries); from += pickBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		near := 0 // without a branch: which entries lie in a window is unpredictable
		for n := from; n < min(from+pickBatch, len(entries)); n++ {
			p.near[near] = int32(n)
			if r.mark[r.cells.of(float64(entries[n].Value))] != 0 {
				near++
			}
		}
		for _, n := range p.near[:near] {
			e := entries[n]
			v := float64(e.Value)
			i := int(r.mark[r.cells.of(v)]) - 1
			switch w := r.windows[i]; {
			case v < w.low:
				p.below[i]++
			case v > w.high:
			case k.scores != nil:
				r.take(p, i, k.scores.at(int(n)))
			default:
				q, c := r.j.pair(k, e.At)
				p.queries, p.contexts = append(p.queries, q), append(p.contexts, c)
				p.window = append(p.window, uint16(i))
				if len(p.queries) < pickBatch {
					continue
				}
				if err := r.flush(ctx, p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// flush scores the pairs of a picker.
func (r *resolver) flush(ctx context.Context, p *picker) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	scores := p.buffer[:len(p.queries)]
	if err := r.j.pairs(scores, p.queries, p.contexts); err != nil {
		return err
	}
	p.rechecked += int64(len(scores))
	for i, x := range scores {
		r.take(p, int(p.window[i]), x)
	}
	p.queries, p.contexts, p.window = p.queries[:0], p.contexts[:0], p.window[:0]
	return nil
}

// take gives a window a score, in the direction of values.
func (r *resolver) take(p *picker, window int, score float64) {
	if r.b.metric.Ascending() {
		score = -score
	}
	if p.scores[window] = append(p.scores[window], score); len(p.scores[window]) == pickBatch {
		r.store(p, window)
	}
}

// store empties a picker's scores into their window.
func (r *resolver) store(p *picker, window int) {
	w, scores := r.windows[window], p.scores[window]
	p.scores[window] = scores[:0]
	if w.binned != nil {
		w.binned.take(scores, r.j.spill)
		return
	}
	end := w.taken.Add(int64(len(scores))) // a window has at most size
	copy(w.scores[end-int64(len(scores)):end], scores)
}

// choose sets statistics from the scores that hold them; `below` pairs are below them all. Of each that has a value
// from low + epsilon to high − epsilon, it is known how many pairs are below.
func (w *window) choose(ctx context.Context, b *bounded, statistics []*statistic, below int64, scores []float64) error {
	ranks := make([]int, len(statistics))
	for i, s := range statistics {
		ranks[i] = int(s.rank - below)
	}
	if ranks[0] < 0 || ranks[len(ranks)-1] >= len(scores) {
		return nil // counts that do not fit together: merged parts can be anything
	}
	if err := selectRanks(ctx, scores, ranks); err != nil {
		return err
	}
	for i, s := range statistics {
		score := scores[ranks[i]]
		if b.metric.Ascending() {
			score = -score
		}
		if v := b.value(score); v >= w.low+b.epsilon && v <= w.high-b.epsilon {
			s.score, s.known = score, true
		}
	}
	return nil
}
