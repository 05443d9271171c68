package statistics

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
)

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
