package statistics

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// Keep computes what Compute does, in one pass, and returns a part of all pairs with its brackets, for inputs that will
// change. Brackets from a sample must be wide; once the quantiles are known, the part is narrowed to ranges around
// them that keep about limit bytes, and what falls out of them becomes counts: exactly what counting with the narrow
// brackets would have given. Kept pairs go through the spill file where memory has no room for them.
func Keep(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, limit int64) (
	*distribution.Result, *distribution.Brackets, *Part, error,
) {
	if limit < 1 {
		return nil, nil, nil, fmt.Errorf("engine: %w: %d bytes to keep", kernels.ErrArgument, limit)
	}
	t.PartBytes, in.Interval = limit, false
	of, err := Brackets(ctx, r, t, in, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	all := &block{ascendingFrom(0, in.Contexts.Rows), ascendingFrom(0, in.Queries.Rows)}
	p, j, err := computePart(ctx, r, t, in, of, all, func(p *Part, j *job, c *counts) (err error) {
		of, err = j.keep(ctx, in, of, p, c)
		return err
	})
	if err != nil {
		return nil, nil, nil, err
	}
	j.free()
	j.describe()
	return j.out, of, p, nil
}

// keep computes the result and narrows the part.
func (j *job) keep(ctx context.Context, in distribution.Input, of *distribution.Brackets, p *Part,
	c *counts) (*distribution.Brackets, error) {
	b := j.bounded
	b.free()
	j.tune.Spread = j.spread(j.tune.PartBytes)
	if j.in.Bins = in.Bins; in.Bins > 0 {
		j.out.NegativeHistogram = make([]int64, in.Bins)
	}
	if err := j.settle(ctx, of, c); err != nil {
		return nil, err
	}
	j.out.DType = b.dtype.String()
	if len(of.Ranges) == 0 || len(j.out.Missed) > 0 {
		return of, p.takeKept(j, c)
	}
	narrow, near, err := j.narrowed(ctx, of, c)
	if err != nil {
		return nil, err
	}
	if p.config, err = configOf(narrow, j.c.Dim); err != nil {
		return nil, err
	}
	if err := p.narrow(ctx, j, c, narrow); err != nil {
		return nil, err
	}
	return narrow, p.score(ctx, j, near)
}

// spreadAt returns how far the rank at a share p of all may move, against the median's: the deviation of a share.
func spreadAt(p float64) float64 { return 2 * math.Sqrt(p*(1-p)) }

// spread returns the share of all ranks that brackets reach to each side of the median, if they are to keep about so
// many bytes in all.
func (j *job) spread(bytes int64) float64 {
	sum, last := 0., -1.
	for _, p := range slices.Sorted(slices.Values(j.in.Quantiles)) {
		if p != last {
			sum += 2 * spreadAt(p)
		}
		last = p
	}
	if sum == 0 {
		return 0
	}
	return min(1, float64(bytes)/(float64(entryBytes)*(1+nearShare))/(sum*float64(max(j.negatives.total, 1))))
}

const (
	narrowCells = 1 << 12 // of each bracket
	// nearShare is the share of the kept ranks whose canonical scores are kept as well, those nearest to the quantiles:
	// as long as the quantiles stay among them, a merge need not compute scores of pairs that were there before.
	nearShare = .25
)

// narrowed are brackets within others, around the order statistics that are known now, and the ranges of values whose
// scores are to be kept.
func (j *job) narrowed(ctx context.Context, of *distribution.Brackets, c *counts) (*distribution.Brackets, []valueRange,
	error) {
	b, w := j.bounded, &j.bounded.first
	cells := make([]cells, len(w.brackets))
	for i, x := range w.brackets {
		cells[i] = newCells(float64(x.low), float64(x.high), narrowCells)
	}
	sums, err := j.sumsOf(ctx, w, cells, c)
	if err != nil {
		return nil, nil, err
	}
	total, margin := float64(j.negatives.total), 8*b.epsilon
	var found, near []valueRange
	for _, s := range b.statistics {
		i := 0
		for i < len(w.brackets) && s.rank >= c.below[i]+sums[i][narrowCells] {
			i++
		}
		if i == len(w.brackets) || s.rank < c.below[i] || !s.known {
			continue // among the ends, which stay
		}
		rank, reach := float64(s.rank-c.below[i]), j.tune.Spread*spreadAt((float64(s.rank)+.5)/total)*total
		around := func(reach float64) (low, high float64) {
			return cells[i].edge(cells[i].find(sums[i], rank-reach)),
				cells[i].edge(cells[i].find(sums[i], rank+reach+1) + 1)
		}
		low, high := around(reach * nearShare)
		near = append(near, valueRange{i, low, high})
		low, high = around(reach)
		v := b.value(s.score)
		x := valueRange{i, min(low, v-margin), max(high, v+margin)}
		if n := len(found); n > 0 && found[n-1].bracket == i && x.low <= found[n-1].high+2*margin {
			found[n-1].high = max(found[n-1].high, x.high)
			continue
		}
		found = append(found, x)
	}
	return b.within(of, found), near, nil
}

// valueRange is a range of values within a bracket.
type valueRange struct {
	bracket   int
	low, high float64
}

// within turns ranges of values into brackets in scores that do not leave those they lie in.
func (b *bounded) within(of *distribution.Brackets, found []valueRange) *distribution.Brackets {
	out, list := *of, [][2]float64(nil)
	whole, _, _, _ := closeRanges(of)
	for _, x := range found {
		in := whole[x.bracket]
		list = append(list, [2]float64{max(b.close(x.low), in[0]), min(b.close(x.high), in[1])})
	}
	out.Ranges = mirrored(b.metric, list...)
	return &out
}

// sumsOf counts the kept values of each bracket in its cells: sums[i][k] is how many lie in the cells below k.
func (j *job) sumsOf(ctx context.Context, w *wanted, cells []cells, c *counts) (sums [][]int64, err error) {
	workers := make([][][]int64, j.blocks.Workers)
	err = j.eachKept(ctx, c, func(worker int, _ run, entries []device.Entry) {
		if workers[worker] == nil {
			workers[worker] = make([][]int64, len(cells))
			for i := range cells {
				workers[worker][i] = make([]int64, narrowCells+1)
			}
		}
		for _, e := range entries {
			if i := w.bracketOf(e.Value); i >= 0 {
				workers[worker][i][cells[i].of(float64(e.Value))+1]++
			}
		}
	})
	sums = make([][]int64, len(cells))
	for i := range sums {
		sums[i] = make([]int64, narrowCells+1)
		for _, mine := range workers {
			for k := range sums[i] {
				if mine != nil {
					sums[i][k] += mine[i][k]
				}
			}
		}
		for k := range narrowCells {
			sums[i][k+1] += sums[i][k]
		}
	}
	return sums, err
}

// find returns the cell of the value with a rank among those of the cells; ranks beyond are in the first and the last.
func (c cells) find(sums []int64, rank float64) int {
	next, _ := slices.BinarySearchFunc(sums, rank, func(sum int64, rank float64) int {
		if float64(sum) <= rank {
			return -1
		}
		return 1
	})
	return workers.Clamp(next-1, 0, len(sums)-2)
}

// bracketOf returns the bracket that holds a value; −1 for the ends.
func (w *wanted) bracketOf(v float32) int {
	for i, x := range w.brackets {
		if v <= x.high {
			if v >= x.low {
				return i
			}
			return -1
		}
	}
	return -1
}

// eachKept calls fn with the entries of every kept run, on several goroutines.
func (j *job) eachKept(ctx context.Context, c *counts, fn func(worker int, r run, entries []device.Entry)) error {
	buffers := make([][]device.Entry, j.blocks.Workers)
	parts := (&resolver{t: c}).parts()
	return j.r.Pool.Each(ctx, len(parts), len(buffers), func(worker, i int) error {
		for _, r := range parts[i] {
			entries, err := j.load(r, &buffers[worker])
			if err != nil {
				return err
			}
			fn(worker, r, entries)
		}
		return nil
	})
}

// narrow moves into the part what narrower brackets keep of the counts' entries, cell by cell, so that a merge need not
// go through those that are far from an order statistic; what falls out below a range is counted.
func (p *Part) narrow(ctx context.Context, j *job, c *counts, of *distribution.Brackets) error {
	w, err := j.bounded.wantedOf(of, j.bounded.epsilon)
	if err != nil {
		return err
	}
	p.below = make([]int64, len(w.brackets))
	wide := make([]int, len(w.brackets)) // the bracket that each one comes from
	for i, x := range w.brackets {
		if wide[i] = j.bounded.first.bracketOf(x.low); wide[i] < 0 {
			return fmt.Errorf("engine: part: %w: bracket %d from %v does not lie within those that were counted",
				kernels.ErrArgument, i, x.low)
		}
		p.below[i] = c.below[wide[i]]
	}
	s := newSorter(j, p, &w)
	below := make([][]int64, j.blocks.Workers)
	for i := range below {
		below[i] = make([]int64, len(w.brackets))
	}
	first := &j.bounded.first
	err = j.eachKept(ctx, c, func(worker int, r run, entries []device.Entry) {
		for _, e := range entries {
			if w.holds(e.Value) {
				s.count(worker, r, e)
			}
			from := first.bracketOf(e.Value)
			for i, x := range w.brackets {
				if wide[i] == from && e.Value < x.low {
					below[worker][i]++
				}
			}
		}
	})
	if err != nil {
		return err
	}
	for _, mine := range below {
		addTo(p.below, mine)
	}
	s.share()
	err = j.eachKept(ctx, c, func(worker int, r run, entries []device.Entry) {
		for _, e := range entries {
			if w.holds(e.Value) {
				s.put(r, e)
			}
		}
	})
	p.kept = s.runs()
	return err
}

// score keeps the canonical scores of the runs with values in some ranges. Such a run is put in the order of its
// contexts, whose vectors are then read one after the other.
func (p *Part) score(ctx context.Context, j *job, near []valueRange) error {
	return j.r.Pool.Each(ctx, len(p.kept), j.blocks.Workers, func(_, i int) error {
		r := &p.kept[i]
		if !slices.ContainsFunc(near,
			func(x valueRange) bool { return float64(r.low) <= x.high && float64(r.high) >= x.low }) {
			return nil
		}
		slices.SortFunc(r.entries, func(a, b device.Entry) int { return cmp.Compare(a.At, b.At) })
		qs, cs, scores := make([]int32, 0, pickBatch), make([]int32, 0, pickBatch), make([]float64, pickBatch)
		r.scores = make(scoreBytes, 0, 8*len(r.entries))
		for batch := range slices.Chunk(r.entries, pickBatch) {
			if err := ctx.Err(); err != nil {
				return err
			}
			qs, cs = qs[:0], cs[:0]
			for _, e := range batch {
				q, c := j.pair(*r, e.At)
				qs, cs = append(qs, q), append(cs, c)
			}
			if err := j.pairs(scores[:len(qs)], qs, cs); err != nil {
				return err
			}
			for _, x := range scores[:len(qs)] {
				r.scores = binary.LittleEndian.AppendUint64(r.scores, math.Float64bits(x))
			}
		}
		return nil
	})
}

// sorter puts kept entries into runs that each hold the values of few cells and the pairs of a block of 2¹⁶ contexts ×
// 2¹⁶ queries: they are counted, then memory is shared out, then they are put.
type sorter struct {
	cells       cells
	first, step []int // of each bracket: its first cell, and how many cells a slice takes
	slices      []int // of each bracket: the number of its first slice; behind the last one, the upper end's
	blocks      [2]int
	counts      [][]int64 // by worker and bucket
	next        []atomic.Int64
	ends        []int64 // where each bucket's entries end
	entries     []device.Entry
	w           *wanted
}

const (
	blockBits  = 16
	sliceLimit = 1 << 12 // slices of all brackets at most
)

func newSorter(j *job, p *Part, w *wanted) *sorter {
	s := &sorter{w: w, slices: []int{1}}
	side := 1 << blockBits
	s.blocks = [2]int{workers.Ceil(len(p.contexts), side), workers.Ceil(len(p.queries), side)}
	if len(w.brackets) > 0 {
		from, to := j.bounded.fine(w)
		s.cells = newCells(from, to, maxCells)
	}
	for _, x := range w.brackets {
		first, last := s.cells.of(float64(x.low)), s.cells.of(float64(x.high))
		step := workers.Ceil(last-first+1, sliceLimit/len(w.brackets))
		s.first, s.step = append(s.first, first), append(s.step, step)
		s.slices = append(s.slices, s.slices[len(s.slices)-1]+workers.Ceil(last-first+1, step))
	}
	s.counts = make([][]int64, j.blocks.Workers)
	for i := range s.counts {
		s.counts[i] = make([]int64, s.buckets())
	}
	return s
}

func (s *sorter) buckets() int { return (s.slices[len(s.slices)-1] + 1) * s.blocks[0] * s.blocks[1] }

// placeOf returns the packed row and lane of an entry.
func placeOf(r run, e device.Entry) (row, lane int) {
	return int(r.row) + int(e.At>>16), int(r.lane) + int(e.At&0xffff)
}

// bucket returns where an entry belongs: its slice, and in it its block.
func (s *sorter) bucket(row, lane int, value float32) int {
	slice := 0
	if i := s.w.bracketOf(value); i >= 0 {
		slice = s.slices[i] + (s.cells.of(float64(value))-s.first[i])/s.step[i]
	} else if value >= s.w.high {
		slice = s.slices[len(s.slices)-1]
	}
	return (slice*s.blocks[0]+row>>blockBits)*s.blocks[1] + lane>>blockBits
}

func (s *sorter) count(worker int, r run, e device.Entry) {
	row, lane := placeOf(r, e)
	s.counts[worker][s.bucket(row, lane, e.Value)]++
}

// share gives each bucket its place in memory.
func (s *sorter) share() {
	s.next, s.ends = make([]atomic.Int64, s.buckets()), make([]int64, s.buckets())
	at := int64(0)
	for i := range s.next {
		s.next[i].Store(at)
		for _, mine := range s.counts {
			at += mine[i]
		}
		s.ends[i] = at
	}
	s.entries = make([]device.Entry, at)
}

func (s *sorter) put(r run, e device.Entry) {
	row, lane := placeOf(r, e)
	at := s.next[s.bucket(row, lane, e.Value)].Add(1) - 1
	const mask = 1<<blockBits - 1
	s.entries[at] = device.Entry{Value: e.Value, At: uint32(row&mask)<<16 | uint32(lane&mask)}
}

// runs returns the buckets that hold something.
func (s *sorter) runs() (kept []run) {
	from := int64(0)
	for i, end := range s.ends {
		if end > from {
			block := i % (s.blocks[0] * s.blocks[1])
			row, lane := block/s.blocks[1]<<blockBits, block%s.blocks[1]<<blockBits
			kept = append(kept, newRun(int32(row), int32(lane), s.entries[from:end:end]))
		}
		from = end
	}
	return kept
}
