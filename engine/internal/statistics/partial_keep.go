package statistics

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// rowsIn finds the input's rows of a part's ids.
func (p *Part) rowsIn(in *distribution.Input) (at rowsOfPart, err error) {
	contexts, queries := make(map[uint64]int32, in.Contexts.Rows), make(map[uint64]int32, in.Queries.Rows)
	for row := range int32(in.Contexts.Rows) {
		contexts[in.ContextID(row)] = row
	}
	for row := range int32(in.Queries.Rows) {
		queries[in.QueryID(row)] = row
	}
	at = rowsOfPart{contexts: make([]int32, len(p.contexts)), queries: make([]int32, len(p.queries))}
	find := func(out []int32, ids []uint64, rows map[uint64]int32, what string) error {
		for i, id := range ids {
			row, ok := rows[id]
			if !ok {
				return fmt.Errorf("engine: %w: %s %d is not in the input", distribution.ErrPart, what, id)
			}
			out[i] = row
		}
		return nil
	}
	if err = find(at.contexts, p.contexts, contexts, "context"); err == nil {
		err = find(at.queries, p.queries, queries, "query")
	}
	return at, err
}

// keeping is what a Partial keeps of a part's entries.
type keeping struct {
	x        *Partial
	j        *job
	list     [][2]float64 // the Partial's brackets, by closeness
	low, end float64      // and its ends
	all      bool
	// was has the part's brackets in tile values, now has the Partial's: a score within one of these has a tile value
	// within it. in is the part's bracket around each of the Partial's.
	was, now wanted
	in       []int
	cells    []cells // of each bracket
}

// kept is what a worker found.
type kept struct {
	scores          []float64
	below, cells    []int64 // to be added
	lowest, highest endPair
	queries         []int32 // of pairs that get canonical scores
	contexts        []int32
	values          []float32
	canonical       []float64
}

// keep takes what the Partial keeps of a part that was counted with the brackets of: canonical scores, or counts of
// tile values in cells.
func (x *Partial) keep(ctx context.Context, p *Part, j *job, of *distribution.Brackets, at rowsOfPart) error {
	k := &keeping{x: x, j: j}
	k.list, k.low, k.end, k.all = closeRanges(&x.b)
	x.below = make([]int64, len(k.list))
	if x.b.Cells > 0 {
		x.cells = make([]int64, len(k.list)*x.b.Cells)
	}
	if len(x.area) == 0 {
		return nil // nothing was counted
	}
	if err := k.choose(of); err != nil {
		return err
	}
	for i, part := range k.in {
		x.below[i] = p.below[part]
	}
	found := make([]*kept, j.blocks.Workers)
	err := j.r.Pool.Each(ctx, len(p.kept), j.blocks.Workers, func(worker, i int) error {
		if found[worker] == nil {
			found[worker] = &kept{below: make([]int64, len(x.below)), cells: make([]int64, len(x.cells)),
				lowest: noEnd, highest: noEnd}
		}
		r := p.kept[i]
		of := at
		of.row, of.lane = r.row, r.lane
		return k.run(ctx, found[worker], run{n: int32(len(r.entries)), entries: r.entries, of: &of, low: r.low,
			high: r.high})
	})
	if err != nil {
		return err
	}
	for _, f := range found {
		if f == nil {
			continue
		}
		x.kept = append(x.kept, f.scores...)
		for i, n := range f.below {
			x.below[i] += n
		}
		for i, n := range f.cells {
			x.cells[i] += n
		}
		widen(&x.lowest, &x.highest, f.lowest)
		widen(&x.lowest, &x.highest, f.highest)
	}
	return workers.Sort(ctx, j.r.Pool, x.kept, cmp.Compare)
}

// choose finds the part's brackets around the Partial's.
func (k *keeping) choose(of *distribution.Brackets) (err error) {
	x, b := k.x, k.j.bounded
	if k.was, err = b.wantedOf(of, b.epsilon); err != nil {
		return err
	}
	if k.now, err = b.wantedOf(&x.b, b.epsilon); err != nil {
		return err
	}
	list, low, end, all := closeRanges(of)
	if all != k.all || !all && (k.low > low || k.end < end) {
		return fmt.Errorf("engine: %w: scores beyond %v are wanted, the part keeps scores beyond %v", distribution.ErrPart,
			x.b.Ends, of.Ends)
	}
	for i, r := range k.list {
		at := slices.IndexFunc(list, func(o [2]float64) bool { return o[0] <= r[0] && r[1] <= o[1] })
		if at < 0 || x.b.Cells > 0 && list[at] != r {
			return fmt.Errorf("engine: %w: range %d of scores, %v, does not lie in a range of the part, which has %v",
				distribution.ErrPart, i, x.b.Ranges, of.Ranges)
		}
		k.in = append(k.in, at)
		if x.b.Cells > 0 {
			k.cells = append(k.cells, x.cellsOf(b, r))
		}
	}
	return nil
}

// run takes the entries of one run.
func (k *keeping) run(ctx context.Context, f *kept, r run) error {
	entries, err := k.j.load(r, nil)
	if err != nil {
		return err
	}
	const piece = 1 << 13
	for len(entries) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(piece, len(entries))
		f.queries, f.contexts, f.values = f.queries[:0], f.contexts[:0], f.values[:0]
		for _, e := range entries[:n] {
			if k.undecided(f, e) {
				q, c := k.j.pair(r, e.At)
				f.queries, f.contexts, f.values = append(f.queries, q), append(f.contexts, c), append(f.values, e.Value)
			}
		}
		entries = entries[n:]
		f.canonical = append(f.canonical[:0], make([]float64, len(f.queries))...)
		if err := k.j.pairs(f.canonical, f.queries, f.contexts); err != nil {
			return err
		}
		for i, s := range f.canonical {
			k.take(f, i, s)
		}
	}
	return nil
}

// undecided counts an entry whose tile value decides all, and reports the others.
func (k *keeping) undecided(f *kept, e device.Entry) bool {
	if e.Value <= k.now.low || e.Value >= k.now.high {
		return true
	}
	for i, c := range k.cells {
		if w := k.was.brackets[i]; e.Value <= w.high {
			if e.Value >= w.low {
				f.cells[i*k.x.b.Cells+c.of(float64(e.Value))]++
			}
			return false
		}
	}
	for _, w := range k.now.brackets {
		if e.Value >= w.low && e.Value <= w.high {
			return true
		}
	}
	for i, w := range k.now.brackets {
		if e.Value >= k.was.brackets[k.in[i]].low && e.Value < w.low {
			f.below[i]++ // the part counts it as in its bracket or beyond
		}
	}
	return false
}

// take takes the canonical score of a pair.
func (k *keeping) take(f *kept, pair int, score float64) {
	x, value := k.x, f.values[pair]
	close := closeness(x.b.Metric, score)
	within := k.all
	for i, r := range k.list {
		if x.b.Cells > 0 {
			break // counted
		}
		if value >= k.was.brackets[k.in[i]].low && close < r[0] {
			f.below[i]++
		}
		within = within || close >= r[0] && close <= r[1]
	}
	if k.all || close <= k.low || close >= k.end {
		within = true
		widen(&f.lowest, &f.highest, endPair{int64(k.j.in.QueryID(f.queries[pair])),
			int64(k.j.in.ContextID(f.contexts[pair])), score})
	}
	if within {
		f.scores = append(f.scores, close)
	}
}

// cellsOf cuts the values of a bracket, which is given by closeness, into cells. Their unit, a power of two, makes no
// difference.
func (x *Partial) cellsOf(b *bounded, r [2]float64) cells {
	return newCells(b.value(closeness(b.metric, r[0])), b.value(closeness(b.metric, r[1])), x.b.Cells)
}
