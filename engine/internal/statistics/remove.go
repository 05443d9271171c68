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
	ids  byID
	rows rowsOfPart // of the part, in the input

	contextGone, queryGone                               []bool // by position in the part
	goneContexts, keptContexts, goneQueries, keptQueries []int32
}

// find turns ids into rows of the input.
func (m *removal) find(contexts, queries []uint64) (err error) {
	if m.ids, err = newByID(&m.in); err != nil {
		return err
	}
	if m.rows, err = m.part.rowsIn(m.ids); err != nil {
		return fmt.Errorf("engine: remove: %w: %w", distribution.ErrPart, err)
	}
	side := func(ids, gone []uint64, at []int32) (isGone []bool, out, in []int32) {
		goes := make(map[uint64]bool, len(gone))
		for _, x := range gone {
			goes[x] = true
		}
		isGone = make([]bool, len(ids))
		for i, x := range ids {
			switch isGone[i] = goes[x] && at[i] >= 0; {
			case isGone[i]:
				out = append(out, at[i])
			case at[i] >= 0:
				in = append(in, at[i])
			}
		}
		return isGone, out, in
	}
	m.contextGone, m.goneContexts, m.keptContexts = side(m.part.contexts, contexts, m.rows.contexts)
	m.queryGone, m.goneQueries, m.keptQueries = side(m.part.queries, queries, m.rows.queries)
	return nil
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
	rows, err := p.rowsIn(m.ids)
	if err != nil {
		return err
	}
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
		r.of = &rows
		var qs, cs []int32
		var at []int
		for _, e := range r.entries {
			q, c := j.pair(r, e.At)
			for i, x := range w.brackets {
				if e.Value >= x.low && float64(e.Value) <= edges[i]+2*p.epsilon {
					qs, cs, at = append(qs, q), append(cs, c), append(at, i)
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
	left, goes := make([]run, len(m.part.kept)), make([]run, len(m.part.kept))
	err = m.r.Pool.Each(m.ctx, len(left), 0, func(_, i int) (err error) {
		left[i], goes[i], err = m.split(m.part.kept[i])
		return err
	})
	if err != nil {
		return err
	}
	empty := func(r run) bool { return len(r.entries) == 0 }
	m.out.kept, gone.kept = slices.DeleteFunc(left, empty), slices.DeleteFunc(goes, empty)
	uncounted := make([]int64, len(m.out.below))
	if err := m.belowOf(j, gone, m.rows, uncounted); err != nil {
		return err
	}
	addTo(m.out.below, uncounted)
	without := func(ids []uint64, gone []bool) []uint64 {
		ids = slices.Clone(ids)
		for i, yes := range gone {
			if yes {
				ids[i] = removedID
			}
		}
		return ids
	}
	m.out.contexts, m.out.queries = without(m.part.contexts, m.contextGone), without(m.part.queries, m.queryGone)
	return nil
}

// split checks a run's entries, and parts those that stay from those of rows that go. A run that nothing goes from is
// returned itself.
func (m *removal) split(r run) (left, goes run, err error) {
	if err := r.check(len(m.part.contexts), len(m.part.queries)); err != nil || len(r.entries) == 0 {
		return left, goes, err
	}
	contexts, queries := m.contextGone[r.row:], m.queryGone[r.lane:]
	var stay, gone []device.Entry
	var scores scoreBytes
	for i, e := range r.entries {
		switch {
		case contexts[e.At>>16] || queries[e.At&0xffff]:
			if gone == nil {
				stay, scores = slices.Clone(r.entries[:i]), slices.Clone(r.scores[:min(8*i, len(r.scores))])
			}
			gone = append(gone, e)
		case gone != nil:
			if stay = append(stay, e); r.scores != nil {
				scores = append(scores, r.scores[8*i:8*i+8]...)
			}
		}
	}
	if gone == nil {
		return r, goes, nil
	}
	left = newRun(r.row, r.lane, stay)
	left.scores = scores
	return left, newRun(r.row, r.lane, gone), nil
}
