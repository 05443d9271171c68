package statistics

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Merge combines parts that cover all pairs of the input, each once. Counts, order statistics, extremes and maxima
// equal those of Compute, bit for bit, whatever device made the parts; mean, standard deviation, histogram and
// separation are within their reported bounds. A quantile whose rank lies outside the brackets is missed: an interval
// is returned for it. Parts that overlap, leave a gap or belong to other brackets are distribution.ErrPart.
func Merge(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, of *distribution.Brackets,
	parts ...*Part) (*distribution.Result, error) {
	in.Checkpoint, in.Interval = "", false
	j, err := prepareJob(ctx, r, t, in)
	if err != nil {
		return nil, err
	}
	if j.q.N == 0 {
		return Compute(ctx, r, t, in)
	}
	defer j.free()
	if err := j.positives(ctx, ascendingFrom(0, j.q.N)); err != nil {
		return nil, err
	}
	m := &merging{j: j, of: of, counts: newCounts(&wanted{brackets: make([]bracket, len(of.Ranges))})}
	if err := m.parts(ctx, parts); err != nil {
		return nil, err
	}
	if err := m.maximaOf(ctx); err != nil {
		return nil, err
	}
	j.out.DType = "parts"
	if err := j.settle(ctx, of, m.counts); err != nil {
		return nil, err
	}
	j.progress.End()
	return j.out, nil
}

// merging is one call of Merge.
type merging struct {
	j       *job
	of      *distribution.Brackets
	counts  *counts
	open    map[int32]bool // queries whose best context was removed
	covered []cover        // pairs that the parts so far have
}

// parts adds up the parts.
func (m *merging) parts(ctx context.Context, parts []*Part) error {
	j := m.j
	config, err := configOf(m.of, j.c.Dim)
	if err != nil {
		return err
	}
	for i, p := range parts {
		if p == nil || p.config != config {
			return fmt.Errorf("engine: merge: %w: part %d of %d belongs to other brackets", distribution.ErrPart, i+1,
				len(parts))
		}
	}
	j.bounded = &bounded{dtype: j.dtype, metric: j.in.Metric, counting: true}
	if err := j.bounded.setScales(ctx, j); err != nil {
		return err
	}
	m.counts.merged = &tileSums{}
	if m.of.Bins > 0 {
		m.counts.bins = make([]int64, binsOf(m.of))
	}
	m.open = make(map[int32]bool)
	ids, err := newByID(&j.in)
	if err != nil {
		return err
	}
	for i, p := range parts {
		if err := m.part(p, ids); err != nil {
			return fmt.Errorf("engine: merge: %w: part %d of %d: %w", distribution.ErrPart, i+1, len(parts), err)
		}
	}
	if m.counts.counted != j.negatives.total {
		return fmt.Errorf("engine: merge: %w: the parts count %d negatives of %d", distribution.ErrPart,
			m.counts.counted, j.negatives.total)
	}
	return nil
}

// byID holds the rows of an input by their ids.
type byID struct{ contexts, queries map[uint64]int32 }

func newByID(in *distribution.Input) (b byID, err error) {
	b = byID{make(map[uint64]int32, in.Contexts.Rows), make(map[uint64]int32, in.Queries.Rows)}
	for row := range int32(in.Contexts.Rows) {
		b.contexts[in.ContextID(row)] = row
	}
	for row := range int32(in.Queries.Rows) {
		b.queries[in.QueryID(row)] = row
	}
	if len(b.contexts) < in.Contexts.Rows || len(b.queries) < in.Queries.Rows {
		err = fmt.Errorf("engine: parts: %w: an id names two rows", kernels.ErrArgument)
	}
	return b, err
}

// rowsIn finds the rows of a part's ids.
func (p *Part) rowsIn(b byID) (at rowsOfPart, err error) {
	find := func(ids []uint64, rows map[uint64]int32, what string) []int32 {
		out := make([]int32, len(ids))
		for i, id := range ids {
			row, ok := rows[id]
			if out[i] = row; !ok {
				if out[i] = -1; id != removedID && err == nil {
					err = fmt.Errorf("%s %d is not in the input", what, id)
				}
			}
		}
		return out
	}
	at = rowsOfPart{find(p.contexts, b.contexts, "context"), find(p.queries, b.queries, "query")}
	return at, err
}

// part adds one part.
func (m *merging) part(p *Part, ids byID) error {
	of, err := p.rowsIn(ids)
	if err != nil {
		return err
	}
	mine := newCover(of, m.j.c.N, m.j.q.N)
	for i, other := range m.covered {
		if mine.overlaps(other) {
			return fmt.Errorf("it has pairs in common with part %d", i+1)
		}
	}
	m.covered = append(m.covered, mine)
	b, values, distances := m.j.bounded, 1., 1. // what makes the part's values and distances those of this input
	if b.metric != kernels.Cosine {
		values, distances = b.unit/p.unit, b.unit/p.unit
		if b.metric == kernels.L2 {
			values *= values
		}
	}
	c := m.counts
	c.counted += p.counted
	c.merged.spread += p.spread * float64(p.counted) / float64(max(m.j.negatives.total, 1))
	c.merged.sum += p.sum.Float64() * distances
	c.merged.square += p.sum2.Float64() * distances * distances
	c.merged.tiles += p.tiles * max(distances, distances*distances)
	b.epsilon = max(b.epsilon, p.epsilon*values)
	if len(p.below) != len(c.below) || len(p.bins) != len(c.bins) {
		return fmt.Errorf("%d brackets and %d bins, want %d and %d", len(p.below), len(p.bins), len(c.below),
			len(c.bins))
	}
	addTo(c.below, p.below)
	addTo(c.bins, p.bins)
	for _, r := range p.kept {
		r.of = &of
		if values != 1 {
			r.entries = slices.Clone(r.entries)
			for i := range r.entries {
				r.entries[i].Value = float32(float64(r.entries[i].Value) * values) // a power of two
			}
			r.low, r.high = float32(float64(r.low)*values), float32(float64(r.high)*values)
		}
		c.kept = append(c.kept, r)
	}
	for kind, list := range p.best {
		for l, x := range list {
			q := of.queries[l]
			switch {
			case q < 0 || x.context == -1:
			case of.contexts[x.context] < 0:
				m.open[q] = true
			default:
				m.j.improve(kind, q, of.contexts[x.context], x.score)
			}
		}
	}
	return nil
}

// settle computes the summaries from counts with some brackets; D+ and the maxima are known.
func (j *job) settle(ctx context.Context, of *distribution.Brackets, c *counts) error {
	if err := j.summaries(ctx); err != nil {
		return err
	}
	b, s := j.bounded, &j.out.NegativeSummary
	if s.N = j.negatives.total; s.N == 0 {
		return nil
	}
	if err := j.setSample(ctx); err != nil {
		return err
	}
	var err error
	if b.first, err = b.wantedOf(of, b.epsilon); err != nil {
		return err
	}
	sure, err := b.wantedOf(of, 0)
	if err != nil {
		return err
	}
	b.first.spare = up(b.epsilon * 1.01)
	b.statistics = nil
	b.setStatistics(j)
	b.setCells(of, c)
	j.out.Kept = c.keptPairs()
	if err := j.keptEnds(ctx, c, &sure); err != nil {
		return err
	}
	if err := j.resolve(ctx, &b.first, c); err != nil {
		return err
	}
	j.keptQuantiles(c, &sure)
	if err := j.moments(ctx, c); err != nil {
		return err
	}
	return j.binnedHistogram(ctx, of, c)
}

// maximaOf computes the maxima of queries whose best context was removed, as in a part of all contexts.
func (m *merging) maximaOf(ctx context.Context) error {
	if len(m.open) == 0 {
		return nil
	}
	j := m.j
	share := &block{lanes: slices.Sorted(maps.Keys(m.open)), rows: ascendingFrom(0, j.c.N)}
	in := j.in
	in.ContextIDs, in.QueryIDs = nil, nil // use row numbers
	in.DType = nil                        // maxima are exact in all; a GPU format may be missing here
	p, other, err := computePart(ctx, j.r, j.tune, in, m.of, share, nil)
	if err != nil {
		return err
	}
	other.free()
	for kind, list := range p.best {
		for l, x := range list {
			if x.context >= 0 {
				j.improve(kind, int32(p.queries[l]), int32(p.contexts[x.context]), x.score)
			}
		}
	}
	return nil
}

// setCells chooses the cells that kept values are sorted into: fine cells over the brackets if these contain all
// wanted order statistics, else cells over all scores.
func (b *bounded) setCells(of *distribution.Brackets, c *counts) {
	w := &b.first
	w.from, w.to = b.value(of.Low), b.value(of.High)
	if b.metric.Ascending() {
		w.from, w.to = w.to, w.from
	}
	n := len(w.brackets)
	if n == 0 || len(b.statistics) == 0 || b.statistics[0].rank < c.below[0] {
		return
	}
	upper := int64(0) // number of values kept beyond the upper end
	for _, r := range c.kept {
		if low, high, ok := r.within(); ok && high < w.high {
			continue
		} else if ok && low >= w.high {
			upper += int64(r.n)
			continue
		}
		for _, e := range r.entries {
			if e.Value >= w.high {
				upper++
			}
		}
	}
	if b.statistics[len(b.statistics)-1].rank >= c.counted-upper {
		return
	}
	w.from, w.to = b.fine(w)
}

// fine returns the range of the cells over brackets. The first and the last cell are reserved for values outside.
func (b *bounded) fine(w *wanted) (from, to float64) {
	from, to = float64(w.brackets[0].low), float64(w.brackets[len(w.brackets)-1].high)
	gap := (to - from) * 4 / maxCells
	return from - gap, to + gap
}

// keptEnds finds the extremes among the kept entries. If the pairs near them were not all kept, they are left to a
// canonical pass.
func (j *job) keptEnds(ctx context.Context, c *counts, sure *wanted) error {
	b := j.bounded
	var buffer []device.Entry
	low, high := plusInf, minusInf
	for _, r := range c.kept {
		if l, h, ok := r.within(); ok {
			low, high = min(low, l), max(high, h)
			continue
		}
		entries, err := j.load(r, &buffer)
		if err != nil {
			return err
		}
		for _, e := range entries {
			low, high = min(low, e.Value), max(high, e.Value)
		}
	}
	margin := b.margin()
	if low+margin > sure.low || high-margin < sure.high && sure.low < plusInf {
		return j.canonicalExtremes(ctx, c)
	}
	low, high = low+margin, high-margin
	for _, r := range c.kept {
		if err := ctx.Err(); err != nil {
			return err
		}
		if l, h, ok := r.within(); ok && l > low && h < high {
			continue
		}
		entries, err := j.load(r, &buffer)
		if err != nil {
			return err
		}
		var qs, cs []int32
		for _, e := range entries {
			if e.Value <= low || e.Value >= high {
				q, x := j.pair(r, e.At)
				qs, cs = append(qs, q), append(cs, x)
			}
		}
		scores := make([]float64, len(qs))
		if err := j.pairs(scores, qs, cs); err != nil {
			return err
		}
		for i, x := range scores {
			c.takeEnd(b.metric, ref.Pair{Query: qs[i], Context: cs[i], Score: x})
		}
	}
	return nil
}

// keptQuantiles sets the quantiles of D−; for an unknown statistic, the interval between the brackets around it.
func (j *job) keptQuantiles(c *counts, sure *wanted) {
	b := j.bounded
	for i := range b.statistics {
		x := &b.statistics[i]
		if x.known {
			continue
		}
		j.in.Interval = true // bounds are shown for all where some are missed
		x.low, x.high = max(x.low, b.value(c.lowest.Score)), min(x.high, b.value(c.highest.Score))
		for i, n := range c.below { // values below a bracket are below its guaranteed end
			if x.rank < n {
				x.high = min(x.high, float64(sure.brackets[i].low)+b.epsilon)
			} else {
				x.low = max(x.low, float64(sure.brackets[i].low)-2*b.epsilon)
			}
		}
	}
	j.setQuantiles(c)
	s := &j.out.NegativeSummary
	for i, p := range j.in.Quantiles {
		if j.in.Interval && s.Low[i] < s.High[i] {
			j.out.Missed = append(j.out.Missed, p)
		}
	}
	j.in.Interval = false
}

// binnedHistogram converts the parts' cells to bins between the extremes, and derives the separation.
func (j *job) binnedHistogram(ctx context.Context, of *distribution.Brackets, c *counts) error {
	s := &j.out.NegativeSummary
	if of.Bins == 0 {
		return j.separation(ctx, c.steps(j), j.slack())
	}
	n, below := len(c.bins), int64(0)
	var steps []step
	width := (of.High - of.Low) / float64(n)
	for i, k := range c.bins {
		score := of.Low + (float64(i)+.5)*width
		if len(j.out.NegativeHistogram) > 0 {
			j.out.NegativeHistogram[ref.Bin(min(max(score, s.Min), s.Max), s.Min, s.Max, j.in.Bins)] += k
		}
		if edge := of.Low + float64(i)*width; edge > s.Min && edge < s.Max {
			steps = append(steps, step{edge, below})
		}
		below += k
	}
	steps = append([]step{{s.Min, 0}}, append(steps, step{s.Max, s.N})...)
	return j.separation(ctx, steps, j.slack())
}

// cover is the set of rows of a part, as bits.
type cover struct{ contexts, queries []uint64 }

func newCover(of rowsOfPart, contexts, queries int) cover {
	set := func(rows []int32, n int) []uint64 {
		bits := make([]uint64, workers.Ceil(n, 64))
		for _, row := range rows {
			if row >= 0 {
				bits[row/64] |= 1 << (row % 64)
			}
		}
		return bits
	}
	return cover{set(of.contexts, contexts), set(of.queries, queries)}
}

// overlaps reports whether two parts have a pair in common.
func (c cover) overlaps(o cover) bool {
	return common(c.contexts, o.contexts) && common(c.queries, o.queries)
}

func common(a, b []uint64) bool {
	for i, x := range a {
		if x&b[i] != 0 {
			return true
		}
	}
	return false
}

// removedID marks rows that were removed from a part.
const removedID = math.MaxUint64

// ranges are where it matters which values there are, and not just how many.
type ranges []bracket

func (n ranges) meets(low, high float32) bool {
	return slices.ContainsFunc(n, func(r bracket) bool { return low <= r.high && high >= r.low })
}

// near tells between which values each statistic and its window lie, from the ranges of merged parts' runs alone, and
// adds the ends of brackets: runs that hold none of it are as good as at one place. Runs without a range are all near.
func (r *resolver) near(l *wanted) ranges {
	all := ranges{{minusInf, plusInf}}
	if r.cells.scale == 0 || slices.ContainsFunc(r.t.kept, func(k run) bool { return k.of == nil }) {
		return all
	}
	pad := 2*r.b.epsilon + 4/r.cells.scale
	byLow, byHigh := slices.Clone(r.t.kept), slices.Clone(r.t.kept)
	slices.SortFunc(byLow, func(a, b run) int { return cmp.Compare(a.low, b.low) })
	slices.SortFunc(byHigh, func(a, b run) int { return cmp.Compare(a.high, b.high) })
	out := ranges{{l.low, l.low}, {l.high, l.high}}
	for _, b := range l.brackets {
		out = append(out, bracket{b.low, b.low}, bracket{b.high, b.high})
	}
	for _, s := range r.b.statistics {
		i := len(l.brackets) - 1
		for i >= 0 && r.t.below[i] > s.rank {
			i--
		}
		if i < 0 {
			out = append(out, bracket{minusInf, l.low})
			continue
		}
		b, rank := l.brackets[i], s.rank-r.t.below[i] // of the values in the bracket
		// As many values as the rank may lie below the first run, and lie in the last run or below for certain.
		first := ranked(byLow, rank, func(k run) bool { return k.high >= b.low && k.low <= b.high })
		last := ranked(byHigh, rank, func(k run) bool { return k.low >= b.low && k.high <= b.high })
		low, high := b.low, b.high
		if first != nil {
			low = max(low, first.low)
		}
		if last != nil {
			high = last.high
		} else if i == len(l.brackets)-1 {
			out = append(out, bracket{l.high, plusInf})
		}
		out = append(out, bracket{scan.Down(float64(low) - pad), up(float64(high) + pad)})
	}
	return out
}

// ranked returns the first of some runs up to which, among those of a kind, there are more values than rank.
func ranked(runs []run, rank int64, of func(run) bool) *run {
	n := int64(0)
	for i, k := range runs {
		if of(k) {
			if n += int64(k.n); n > rank {
				return &runs[i]
			}
		}
	}
	return nil
}
