package statistics

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// Remove takes contexts and queries, by id, out of a part whose rows the input still holds: their pairs are counted
// again and subtracted. Another device may count them than counted the part: which of them lie below a bracket is
// settled by canonical scores on both sides, so that the difference is exact.
func Remove(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, of *distribution.Brackets,
	p *Part, contexts, queries []uint64) (*Part, error) {
	in.Checkpoint = ""
	m := &removal{ctx: ctx, r: r, tune: t, in: in, of: of, part: p, out: new(Part)}
	*m.out = *p
	m.out.below, m.out.bins = slices.Clone(p.below), slices.Clone(p.bins)
	if err := m.find(contexts, queries); err != nil {
		return nil, err
	}
	if len(m.goneContexts) == 0 && len(m.goneQueries) == 0 {
		return p, nil
	}
	all := append(slices.Clone(m.keptQueries), m.goneQueries...)
	for _, share := range []*block{{m.goneContexts, all}, {m.keptContexts, m.goneQueries}} {
		if len(share.rows) == 0 || len(share.lanes) == 0 {
			continue
		}
		if err := m.subtract(share); err != nil {
			return nil, err
		}
	}
	if err := m.drop(); err != nil {
		return nil, err
	}
	return m.out, nil
}

// removal is one call of Remove.
type removal struct {
	ctx  context.Context
	r    *device.Resources
	tune Tuning
	in   distribution.Input
	of   *distribution.Brackets
	part *Part
	out  *Part
	rows rowsOfPart // of the part, in the input

	contextGone, queryGone                               []bool // by position in the part
	goneContexts, keptContexts, goneQueries, keptQueries []int32
}

// find turns ids into rows of the input.
func (m *removal) find(contexts, queries []uint64) error {
	side := func(ids, gone []uint64, rows int, id func(int32) uint64, what string) (at []int32, isGone []bool, out,
		in []int32, err error) {
		byID := make(map[uint64]int32, rows)
		for row := range int32(rows) {
			byID[id(row)] = row
		}
		goes := make(map[uint64]bool, len(gone))
		for _, x := range gone {
			goes[x] = true
		}
		at, isGone = make([]int32, len(ids)), make([]bool, len(ids))
		for i, x := range ids {
			row, ok := byID[x]
			switch {
			case x == removedID:
				at[i] = -1
				continue
			case !ok:
				return nil, nil, nil, nil,
					fmt.Errorf("engine: remove: %w: %s %d of the part is not in the input", distribution.ErrPart, what,
						x)
			}
			if at[i] = row; goes[x] {
				isGone[i] = true
				out = append(out, row)
			} else {
				in = append(in, row)
			}
		}
		return at, isGone, out, in, nil
	}
	var err error
	m.rows.contexts, m.contextGone, m.goneContexts, m.keptContexts, err = side(m.part.contexts, contexts,
		m.in.Contexts.Rows, m.in.ContextID, "context")
	if err != nil {
		return err
	}
	m.rows.queries, m.queryGone, m.goneQueries, m.keptQueries, err = side(m.part.queries, queries, m.in.Queries.Rows,
		m.in.QueryID, "query")
	return err
}

// subtract counts a block of the pairs to be removed and takes it off.
func (m *removal) subtract(share *block) error {
	slices.Sort(share.rows)
	slices.Sort(share.lanes)
	p, j, err := computePart(m.ctx, m.r, m.tune, m.in, m.of, share, nil)
	if err != nil {
		return err
	}
	defer j.free()
	if p.unit != m.out.unit { // sums are of scaled values
		return fmt.Errorf("engine: remove: %w: the rows' lengths have another scale now; count the part anew",
			distribution.ErrPart)
	}
	if m.out.sum, err = m.out.sum.Plus(negative(p.sum)); err != nil {
		return err
	}
	if m.out.sum2, err = m.out.sum2.Plus(negative(p.sum2)); err != nil {
		return err
	}
	m.out.spread = (m.out.spread*float64(m.out.counted) + float64(p.counted)) / math.Max(1,
		float64(m.out.counted-p.counted))
	m.out.counted -= p.counted
	m.out.tiles += p.tiles
	m.out.epsilon = max(m.out.epsilon, p.epsilon)
	for i, n := range p.bins {
		m.out.bins[i] -= n
	}
	below := slices.Clone(p.below) // tile values below a bracket are below it for certain
	rows := rowsOfPart{contexts: make([]int32, len(p.contexts)), queries: make([]int32, len(p.queries))}
	byID := func(out []int32, ids []uint64, id func(int32) uint64, list []int32) {
		at := make(map[uint64]int32, len(list))
		for _, row := range list {
			at[id(row)] = row
		}
		for i, x := range ids {
			out[i] = at[x]
		}
	}
	byID(rows.contexts, p.contexts, m.in.ContextID, share.rows)
	byID(rows.queries, p.queries, m.in.QueryID, share.lanes)
	if err := m.belowOf(j, p, rows, below); err != nil {
		return err
	}
	for i, n := range below {
		m.out.below[i] -= n
	}
	return nil
}

// negative is −s in two's complement.
func negative(s tiles.Sum) tiles.Sum {
	low, borrow := bits.Sub64(0, s.Lo, 0)
	return tiles.Sum{Hi: -s.Hi - int64(borrow), Lo: low}
}

// belowOf adds to below, for each bracket, the part's kept pairs that are canonically below it although their tile
// value is in it: tile values below it have been counted.
func (m *removal) belowOf(j *job, p *Part, rows rowsOfPart, below []int64) error {
	b := &bounded{metric: p.metric, unit: p.unit}
	w, err := b.wantedOf(m.of, p.epsilon)
	if err != nil {
		return err
	}
	var edges []float64
	for _, r := range mirrored(b.metric, m.of.Ranges...) {
		edges = append(edges, b.valueOf(r[0]))
	}
	for _, r := range p.kept {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		var qs, cs []int32
		var at []int
		for _, e := range r.entries {
			row, lane := r.row+int32(e.At>>16), r.lane+int32(e.At&0xffff)
			for i, x := range w.brackets {
				if e.Value >= x.low && float64(e.Value) <= edges[i]+2*p.epsilon {
					qs, cs, at = append(qs, rows.queries[lane]), append(cs, rows.contexts[row]), append(at, i)
				}
			}
		}
		scores := make([]float64, len(qs))
		if err := j.pairs(scores, qs, cs); err != nil {
			return err
		}
		for i, s := range scores {
			if b.value(s) < edges[at[i]] {
				below[at[i]]++
			}
		}
	}
	return nil
}

// drop leaves out the removed rows' entries, which were not counted below their brackets, and names.
func (m *removal) drop() error {
	j, err := prepareJob(m.ctx, m.r, m.tune, m.in)
	if err != nil {
		return err
	}
	defer j.free()
	gone := &Part{metric: m.part.metric, unit: m.part.unit, epsilon: m.part.epsilon}
	left, goes := make([]partRun, len(m.part.kept)), make([]partRun, len(m.part.kept))
	err = m.r.Pool.Each(m.ctx, len(left), 0, func(_, i int) (err error) {
		left[i], goes[i], err = m.split(&m.part.kept[i])
		return err
	})
	if err != nil {
		return err
	}
	empty := func(r partRun) bool { return len(r.entries) == 0 }
	m.out.kept, gone.kept = slices.DeleteFunc(left, empty), slices.DeleteFunc(goes, empty)
	uncounted := make([]int64, len(m.out.below))
	if err := m.belowOf(j, gone, m.rows, uncounted); err != nil {
		return err
	}
	for i, n := range uncounted {
		m.out.below[i] += n
	}
	m.out.contexts, m.out.queries = slices.Clone(m.part.contexts), slices.Clone(m.part.queries)
	for i, yes := range m.contextGone {
		if yes {
			m.out.contexts[i] = removedID
		}
	}
	for i, yes := range m.queryGone {
		if yes {
			m.out.queries[i] = removedID
		}
	}
	return nil
}

// split checks a run's entries, and parts those that stay from those of rows that go. A run that nothing goes from is
// returned itself.
func (m *removal) split(r *partRun) (left, goes partRun, err error) {
	at := rowsOfPart{row: r.row, lane: r.lane}
	if err := at.check(r.entries, len(m.part.contexts), len(m.part.queries), r.low, r.high); err != nil {
		return left, goes, err
	}
	if len(r.entries) == 0 {
		return left, goes, nil
	}
	contexts, queries := m.contextGone[r.row:], m.queryGone[r.lane:]
	from, ends := 0, false // where what stays begins; whether the range may have changed
	take := func(to int) {
		left.entries = append(left.entries, r.entries[from:to]...)
		if r.scores != nil {
			left.scores = append(left.scores, r.scores[8*from:8*to]...)
		}
		from = to + 1
	}
	for i, e := range r.entries {
		if !contexts[e.At>>16] && !queries[e.At&0xffff] {
			continue
		}
		if goes.entries == nil {
			left.entries = make([]device.Entry, 0, len(r.entries)-1)
			left.scores = slices.Grow(left.scores, len(r.scores))
		}
		take(i)
		goes.entries = append(goes.entries, e)
		ends = ends || e.Value == r.low || e.Value == r.high
	}
	goes.row, goes.lane = r.row, r.lane
	if goes.entries == nil {
		return *r, goes, nil
	}
	take(len(r.entries))
	left.row, left.lane, left.low, left.high = r.row, r.lane, r.low, r.high
	if ends {
		left.low, left.high = rangeOf(left.entries)
	}
	return left, goes, nil
}
