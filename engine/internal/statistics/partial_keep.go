package statistics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// allRowsIn finds the input's rows of a part's ids, none of which may have been removed.
func (p *Part) allRowsIn(in *distribution.Input) (at rowsOfPart, err error) {
	ids, err := newByID(in)
	if err != nil {
		return at, err
	}
	if at, err = p.rowsIn(ids); err == nil && (slices.Contains(at.contexts, -1) || slices.Contains(at.queries, -1)) {
		err = errRemoved
	}
	if err != nil {
		err = fmt.Errorf("engine: %w: %w", distribution.ErrPart, err)
	}
	return at, err
}

var errRemoved = errors.New("rows were removed from the part")

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
	upper    marks   // upper ends of was
	edges    marks   // both ends of now
	cells    []cells // of each bracket
}

// marks are values between ranges, ascending, as ordered; only the first ones are in use.
type marks [2 * device.MaxBrackets]int32

// before returns how many of the first n marks lie before a value. There are many values, in no order, so it has no
// branches that depend on them.
func (m *marks) before(n int, value int32) (count int) {
	for _, mark := range m[:n] {
		count += int(uint64(int64(mark)-int64(value)) >> 63)
	}
	return count
}

// ordered returns an integer for a value such that integers compare as the values do.
func ordered(v float32) int32 {
	b := int32(math.Float32bits(v + 0)) // zero has one sign
	return b ^ b>>31&math.MaxInt32
}

// kept is what a worker found.
type kept struct {
	scores       []float64
	below, cells []int64 // to be added
	ends         extremes
	entries      []device.Entry // that get canonical scores
	queries      []int32
	contexts     []int32
	canonical    []float64
	// between counts the entries of each of the part's brackets by how many of the Partial's they lie behind.
	between [device.MaxBrackets + 1][device.MaxBrackets + 1]int64
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
	if err := k.prepare(of); err != nil {
		return err
	}
	for i, part := range k.in {
		x.below[i] = p.below[part]
	}
	found := make([]*kept, j.blocks.Workers)
	err := j.r.Pool.Each(ctx, len(p.kept), j.blocks.Workers, func(worker, i int) error {
		if found[worker] == nil {
			found[worker] = &kept{below: make([]int64, len(x.below)), cells: make([]int64, len(x.cells)),
				ends: noEnds}
		}
		r := p.kept[i]
		r.of = &at
		return k.run(ctx, found[worker], r)
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
			for _, n := range f.between[k.in[i]][:i+1] {
				x.below[i] += n // which the part counts as not below its bracket
			}
		}
		addTo(x.cells, f.cells)
		x.ends.merge(f.ends)
	}
	return workers.Sort(ctx, j.r.Pool, x.kept, cmp.Compare)
}

// prepare finds the part's brackets around the Partial's.
func (k *keeping) prepare(of *distribution.Brackets) (err error) {
	x, b := k.x, k.j.bounded
	if k.was, err = b.wantedOf(of, b.epsilon); err != nil {
		return err
	}
	if k.now, err = b.wantedOf(&x.b, b.epsilon); err != nil {
		return err
	}
	list, low, end, all := closeRanges(of)
	if all != k.all || !all && (k.low > low || k.end < end) {
		return fmt.Errorf("engine: %w: scores beyond %v are wanted, the part keeps scores beyond %v",
			distribution.ErrPart, x.b.Ends, of.Ends)
	}
	for i, w := range k.was.brackets {
		k.upper[i] = ordered(w.high)
	}
	for i, w := range k.now.brackets {
		k.edges[2*i], k.edges[2*i+1] = ordered(w.low), ordered(w.high)+1
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
		f.entries, f.queries, f.contexts = f.entries[:0], f.queries[:0], f.contexts[:0]
		if k.cells != nil {
			k.count(f, entries[:n])
		} else {
			k.pick(f, entries[:n])
		}
		entries = entries[n:]
		for _, e := range f.entries {
			q, c := k.j.pair(r, e.At)
			f.queries, f.contexts = append(f.queries, q), append(f.contexts, c)
		}
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

// count counts entries in the cells of their brackets, and lists those beyond the ends.
func (k *keeping) count(f *kept, entries []device.Entry) {
	n, size := len(k.was.brackets), k.x.b.Cells
	for _, e := range entries {
		switch {
		case e.Value <= k.now.low || e.Value >= k.now.high:
			f.entries = append(f.entries, e)
		case e.Value <= k.was.low || e.Value >= k.was.high: // the part's ends are closer
		default:
			if i := k.upper.before(n, ordered(e.Value)); i < n {
				f.cells[i*size+k.cells[i].of(float64(e.Value))]++
			}
		}
	}
}

// pick lists the entries whose tile value does not tell whether their score lies in a bracket.
func (k *keeping) pick(f *kept, entries []device.Entry) {
	was, now := len(k.was.brackets), 2*len(k.now.brackets)
	for _, e := range entries {
		switch {
		case e.Value <= k.now.low || e.Value >= k.now.high:
			f.entries = append(f.entries, e)
		case e.Value <= k.was.low || e.Value >= k.was.high: // the part's ends are closer
		default:
			v := ordered(e.Value)
			if at := k.edges.before(now, v+1); at%2 == 1 {
				f.entries = append(f.entries, e)
			} else {
				f.between[k.upper.before(was, v)][at/2]++
			}
		}
	}
}

// take takes the canonical score of a pair.
func (k *keeping) take(f *kept, pair int, score float64) {
	x, value := k.x, f.entries[pair].Value
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
		f.ends.add(k.j, f.queries[pair], f.contexts[pair], score)
	}
	if within {
		f.scores = append(f.scores, close)
	}
}

// cellsOf cuts the values of a bracket, which is given by closeness, into cells. Their unit, a power of two, makes no
// difference.
func (x *Partial) cellsOf(b *bounded, r [2]float64) cells {
	return newCells(b.valueOf(r[0]), b.valueOf(r[1]), x.b.Cells)
}
