package statistics

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

const redoBins = 1 << 16

// redo settles what the first pass left open (a bracket that missed its rank, or had no memory): a
// histogram of all values says for certain where the ranks are, and further passes keep just that, for as many ranks
// at a time as there is room for. Where even one cell holds too much, the statistic stays unknown.
func (j *job) redo(ctx context.Context, first *counts) error {
	b := j.bounded
	if len(j.open()) == 0 {
		return nil
	}
	j.reasons = append(j.reasons, "brackets missed their ranks, or had no room: placed anew by a histogram")
	if len(first.bins) == 0 {
		l := wanted{low: minusInf, high: plusInf}
		l.bin(b)
		first = newCounts(&l)
		if err := j.count(ctx, &l, placingPass, b.allTasks(), first); err != nil {
			return err
		}
	}
	for number, left := redoPass, len(j.open()); ; { // as many at a time as there is room for
		passes := newAxis(b).wanted(j, first)
		for i := range passes {
			t := newCounts(&passes[i])
			if err := j.count(ctx, &passes[i], number, b.allTasks(), t); err != nil {
				return err
			}
			number++
			if err := j.resolve(ctx, &passes[i], t); err != nil {
				return err
			}
		}
		now := len(j.open())
		if now == 0 || now == left {
			return nil
		}
		left = now
	}
}

// open lists the statistics that are neither known nor, with Interval, between bounds.
func (j *job) open() (list []*statistic) {
	for i := range j.bounded.statistics {
		s := &j.bounded.statistics[i]
		if !s.known && !(j.in.Interval && !math.IsInf(s.low, 0) && !math.IsInf(s.high, 0)) {
			list = append(list, s)
		}
	}
	return list
}

// axis is the range of a histogram by score: of values, for l2 of scaled distances.
type axis struct{ low, width float64 }

func newAxis(b *bounded) axis {
	if b.metric.Ascending() {
		return axis{width: 2.1 / redoBins}
	}
	return axis{low: -1.1, width: 2.2 / redoBins}
}

// bin asks for a histogram of all values in redoBins cells.
func (l *wanted) bin(b *bounded) {
	h := newAxis(b)
	l.bins, l.binLow, l.binScale = redoBins, float32(h.low), float32(1/h.width)
}

// bracket returns where the values of the cells [first, last] are for certain.
func (h axis) bracket(b *bounded, first, last int, margin float64) bracket {
	low, high := h.low+float64(first-1)*h.width, h.low+float64(last+2)*h.width // a cell more for rounding
	if b.metric.Ascending() {
		low, high = -high*high/2, -max(low, 0)*max(low, 0)/2
	}
	return bracket{scan.Down(low - margin), up(high + margin)}
}

// wanted plans the passes that keep what is missing.
func (h axis) wanted(j *job, t *counts) []wanted {
	b, total := j.bounded, j.negatives.total
	low, high := b.span()
	gap := float32(4 * (high - low) / maxCells)
	margin := 2*b.epsilon + float64(gap) // as in wanted.choose
	sums := make([]int64, len(t.bins)+1)
	for i, n := range t.bins {
		sums[i+1] = sums[i] + n
	}
	find := func(rank int64) bracket { // by value
		r := b.rank(rank, total)
		bin := 0
		for sums[bin+1] <= r && bin < len(t.bins)-1 {
			bin++
		}
		return h.bracket(b, bin, bin, margin)
	}
	var all wanted
	count := func(r bracket) int64 { return h.between(b, sums, r) }
	for _, s := range j.affordable(find, count) {
		all.add(find(s.rank), gap)
	}
	var list []wanted
	for from := 0; from < len(all.brackets) || from == 0; from += device.MaxBrackets {
		l := wanted{brackets: all.brackets[from:min(len(all.brackets), from+device.MaxBrackets)], low: minusInf,
			high: plusInf, from: low, to: high}
		l.settle(gap)
		for _, r := range l.brackets {
			l.expected += float64(h.between(b, sums, r))
		}
		if l.expected > 0 {
			list = append(list, l)
		}
	}
	return list
}

// affordable returns the missing statistics whose brackets fit into memory together. It leaves out the ones with the
// largest brackets, and narrows their bounds to those brackets.
func (j *job) affordable(find func(rank int64) bracket, count func(bracket) int64) []*statistic {
	list, counts, total := j.open(), []int64(nil), int64(0)
	for _, s := range list {
		n := count(find(s.rank))
		counts, total = append(counts, n), total+n
	}
	for !j.in.Interval && total > j.keepRoom()/4*3 {
		largest := slices.Index(counts, slices.Max(counts))
		s, r, epsilon := list[largest], find(list[largest].rank), j.bounded.epsilon
		s.low, s.high = max(s.low, float64(r.low)-epsilon), min(s.high, float64(r.high)+epsilon)
		total -= counts[largest]
		list, counts = slices.Delete(list, largest, largest+1), slices.Delete(counts, largest, largest+1)
	}
	return list
}

// between counts at least the values of a bracket.
func (h axis) between(b *bounded, sums []int64, r bracket) int64 {
	low, high := float64(r.low), float64(r.high)
	if b.metric.Ascending() {
		low, high = math.Sqrt(max(0, -2*high)), math.Sqrt(max(0, -2*low))
	}
	n := len(sums) - 1
	at := func(x float64) int { return int(min(max((x-h.low)/h.width, -1), float64(n))) }
	return sums[min(at(high)+2, n)] - sums[max(at(low)-1, 0)]
}

// binned handles a window whose canonical scores do not fit in memory: it first counts them in cells and then keeps
// the scores of a few cells. In between, the scores are in the spill file; those that do not fit there are computed
// again.
type binned struct {
	mu     sync.Mutex
	cells  cells
	counts []int64
	stored []stretch
	lost   bool        // stored is not complete
	kept   []int       // cells whose scores are kept, ascending; nil while counting
	scores [][]float64 // of each kept cell
}

// stretch is n scores in the spill file.
type stretch struct{ at, n int64 }

const binnedCells = 1 << 10

// widen makes windows count their scores, largest windows first, until the other windows fit in memory.
func (r *resolver) widen(room int64) {
	var size int64
	for _, w := range r.windows {
		size += w.size
	}
	for size > max(room, 0) {
		var largest *window
		for _, w := range r.windows {
			if w.binned == nil && (largest == nil || w.size > largest.size) {
				largest = w
			}
		}
		low, high := r.b.score(largest.low-r.b.epsilon), r.b.score(largest.high+r.b.epsilon)
		if r.b.metric.Ascending() {
			low, high = -low, -high
		}
		largest.binned = &binned{cells: newCells(low, high, binnedCells), counts: make([]int64, binnedCells)}
		size -= largest.size
	}
}

func (w *binned) take(scores []float64, file *spill) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil && !w.lost && len(scores) > 0 {
		w.store(scores, file)
	}
	for _, x := range scores {
		cell := w.cells.of(x)
		if w.kept == nil {
			w.counts[cell]++
		} else if i, found := slices.BinarySearch(w.kept, cell); found {
			w.scores[i] = append(w.scores[i], x)
		}
	}
}

func (w *binned) store(scores []float64, file *spill) {
	at, err := file.write(bytesOf(scores))
	if err != nil { // the second pass needs no file
		w.lost = true
		return
	}
	if i := len(w.stored) - 1; i >= 0 && w.stored[i].at+8*w.stored[i].n == at {
		w.stored[i].n += int64(len(scores))
		return
	}
	w.stored = append(w.stored, stretch{at, int64(len(scores))})
}

// load reads the scores from the file.
func (w *binned) load(ctx context.Context, file *spill) error {
	buffer := make([]float64, 1<<13)
	for _, s := range w.stored {
		for s.n > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			piece := buffer[:min(s.n, int64(len(buffer)))]
			if _, err := file.file.ReadAt(bytesOf(piece), s.at); err != nil {
				return fmt.Errorf("engine: scores in a temporary file: %w", err)
			}
			w.take(piece, nil)
			s.at, s.n = s.at+8*int64(len(piece)), s.n-int64(len(piece))
		}
	}
	return nil
}

// keep chooses the cells that hold the window's statistics, if their scores fit, and returns the number of those
// scores.
func (w *window) keep(room int64) (size int64) {
	w.binned.kept, w.binned.scores = nil, nil
	for _, s := range w.statistics {
		cell, _ := w.binned.find(s.rank - w.below)
		if n := len(w.binned.kept); cell < 0 || n > 0 && w.binned.kept[n-1] == cell ||
			size+w.binned.counts[cell] > room {
			continue
		}
		w.binned.kept = append(w.binned.kept, cell)
		size += w.binned.counts[cell]
	}
	w.binned.scores = make([][]float64, len(w.binned.kept))
	return size
}

// find returns the cell of a rank among the counted scores, and how many scores are below the cell; −1 if there is no
// such cell.
func (w *binned) find(rank int64) (cell int, below int64) {
	for i, n := range w.counts {
		if rank >= below && rank < below+n {
			return i, below
		}
		below += n
	}
	return -1, math.MaxInt64
}

// settleBinned goes over the scores of the binned windows a second time, for the cells that hold their statistics.
func (r *resolver) settleBinned(ctx context.Context) error {
	var stored, lost []*window
	room := r.j.scoreRoom()
	for _, w := range r.windows {
		if w.binned == nil {
			continue
		}
		switch room -= w.keep(room); {
		case len(w.binned.kept) == 0:
		case w.binned.lost:
			lost = append(lost, w)
		default:
			stored = append(stored, w)
		}
	}
	err := r.j.r.Pool.Each(ctx, len(stored), r.j.blocks.Workers, func(_, i int) error {
		return stored[i].binned.load(ctx, r.j.spill)
	})
	if err != nil {
		return err
	}
	if r.windows = lost; len(lost) > 0 {
		r.setMarks()
		if err := r.recheck(ctx); err != nil {
			return err
		}
	}
	for _, w := range append(stored, lost...) {
		for i, cell := range w.binned.kept {
			var of []*statistic
			below := w.below
			for _, s := range w.statistics {
				if at, under := w.binned.find(s.rank - w.below); at == cell {
					of, below = append(of, s), w.below+under
				}
			}
			if err := w.choose(ctx, r.b, of, below, w.binned.scores[i]); err != nil {
				return err
			}
		}
		w.binned = nil
	}
	return nil
}
