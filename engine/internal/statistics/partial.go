package statistics

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Partial holds all that the distribution of a whole needs of a set of its pairs. Partials of disjoint sets add up, in
// any order and grouping, to the same one, and that of all pairs gives the distribution without the vectors. It is a
// Part without anything that could be asked again: kept pairs are canonical scores.
type Partial struct {
	of      distribution.Whole
	b       distribution.Brackets
	sum     [sha256.Size]byte // digest of both
	area    area
	counted int64
	epsilon float64 // bound of the values that were counted, for unit 1
	sums    []unitSums
	// below counts, for each bracket in the order of closeness, the pairs less close than it; bins as in a Part. With
	// Brackets.Cells, cells counts the pairs within each bracket; both are then by tile values, which are off by
	// epsilon.
	below, bins []int64
	cells       []int64
	kept        []float64 // scores within the brackets or beyond the ends, by closeness, the farthest first
	ends        extremes  // of the scores beyond the ends, numerically; pairs have their numbers in the whole
	sample      []float64 // the scores of the drawn pairs, ascending
	// dots is the sum of dot products of unit vectors, in units of scores.SumUnit², for a cosine without a bias.
	dots    *big.Int
	dim     int
	queries []partialQuery
}

// unitSums are sums of values in a unit, a power of two: they add up exactly.
type unitSums struct {
	unit, tiles float64
	sum, square tiles.Sum
}

// partialQuery is a query with its own context, and the best context of each kind so far; −1: none.
type partialQuery struct {
	number, owner uint64
	positive      float64
	best          [2]partBest
}

// closeness is the order of scores that all lists of a Partial have.
func closeness(m kernels.Metric, score float64) float64 {
	if m.Ascending() {
		return -score
	}
	return score
}

// mirrored turns ascending ranges of scores into ascending ranges of closeness, and back.
func mirrored(m kernels.Metric, list ...[2]float64) [][2]float64 {
	list = slices.Clone(list)
	if m.Ascending() {
		slices.Reverse(list)
		for i, r := range list {
			list[i] = [2]float64{-r[1], -r[0]}
		}
	}
	return list
}

// closeRanges returns the brackets by closeness, ascending, and the ends; all: every pair is kept.
func closeRanges(b *distribution.Brackets) (list [][2]float64, low, high float64, all bool) {
	if b.Ends[0] >= b.Ends[1] {
		return nil, 0, 0, true
	}
	ends := mirrored(b.Metric, b.Ends)[0]
	return mirrored(b.Metric, b.Ranges...), ends[0], ends[1], false
}

// digestOf returns what Partials must have in common to be added.
func digestOf(of distribution.Whole, b *distribution.Brackets) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal(partialHead{of, *b})
	if err != nil {
		return sum, fmt.Errorf("engine: brackets: %w: %w", kernels.ErrNonFinite, err)
	}
	return sha256.Sum256(text), nil
}

// ComputePartial counts a block of the input's pairs. The input has the rows of the block and the own contexts of its
// queries; ids are numbers within the whole.
func ComputePartial(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, whole distribution.Whole,
	of *distribution.Brackets, share distribution.Block) (out *Partial, err error) {
	rows, lanes, err := share.Lists(in)
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, fmt.Errorf("engine: %w: no brackets", distribution.ErrPart)
	}
	for i, row := range rows[min(1, len(rows)):] {
		if last := in.ContextID(rows[i]); in.ContextID(row) <= last {
			return nil, fmt.Errorf("engine: block: %w: context %d comes after %d; they must ascend",
				kernels.ErrArgument, in.ContextID(row), last)
		}
	}
	if out, err = newPartial(in, whole, of); err != nil {
		return nil, err
	}
	if of.Biased != (in.Bias != nil) {
		return nil, fmt.Errorf("engine: %w: brackets and pairs: one has a bias, and the other has none",
			distribution.ErrPart)
	}
	if in.Bias != nil {
		return out, out.countBiased(ctx, r, t, in, rows, lanes)
	}
	p, j, err := computePart(ctx, r, t, in, of, &block{rows, lanes}, nil)
	if err != nil {
		return nil, err
	}
	defer j.free()
	at, err := p.allRowsIn(&j.in)
	if err != nil {
		return nil, err
	}
	return out, out.take(ctx, p, j, of, at)
}

func newPartial(in distribution.Input, whole distribution.Whole, of *distribution.Brackets) (x *Partial, err error) {
	if whole.Contexts > math.MaxInt32 || whole.Queries > math.MaxInt32 {
		return nil, fmt.Errorf("engine: %w: %d contexts, %d queries; at most %d each", kernels.ErrShape,
			whole.Contexts, whole.Queries, math.MaxInt32)
	}
	x = &Partial{of: whole, b: *of, ends: noEnds, dots: new(big.Int), dim: in.Contexts.Dim}
	x.sum, err = digestOf(whole, of)
	return x, err
}

// PartialOf returns the Partial of a part's pairs with brackets within those that the part was counted with, which may
// be the same ones. Nothing is counted anew. The input has the rows of the part and the own contexts of its queries.
// A part of other brackets, or one that does not keep the scores that next asks for, is distribution.ErrPart.
func PartialOf(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, whole distribution.Whole,
	of, next *distribution.Brackets, p *Part) (*Partial, error) {
	if of == nil || next == nil || p == nil {
		return nil, fmt.Errorf("engine: %w: no brackets or no part", distribution.ErrPart)
	}
	config, err := configOf(of, in.Contexts.Dim)
	if err != nil {
		return nil, err
	}
	if p.config != config || p.metric != in.Metric || len(p.below) != len(of.Ranges) {
		return nil, fmt.Errorf("engine: %w: the part belongs to other brackets", distribution.ErrPart)
	}
	out, err := newPartial(in, whole, next)
	if err != nil {
		return nil, err
	}
	in.Bins, in.Interval, in.Checkpoint = 0, false, ""
	j, err := prepareJob(ctx, r, t, in)
	if err != nil {
		return nil, err
	}
	defer j.free()
	j.bounded = &bounded{dtype: j.dtype, metric: in.Metric, dim: j.q.Dim, unit: p.unit, epsilon: p.epsilon,
		counting: true}
	at, err := p.allRowsIn(&j.in)
	if err != nil {
		return nil, err
	}
	if err := j.positives(ctx, at.queries); err != nil {
		return nil, err
	}
	return out, out.take(ctx, p, j, of, at)
}

// scored takes what comes of canonical scores and vectors, not of tiles.
func (x *Partial) scored(ctx context.Context, j *job, rows, lanes []int32) (err error) {
	if len(x.area) == 0 {
		return nil
	}
	x.sample, err = j.sampleOf(ctx, x.of, x.b.Sample, rows, lanes, j.in.ContextID, j.in.QueryID)
	if err != nil || j.in.Metric != kernels.Cosine || j.in.Bias != nil {
		return err
	}
	d, err := j.newDots(ctx)
	if err == nil {
		x.dots, err = d.sum(ctx, rows, lanes)
	}
	return err
}

// add takes a pair of rows into account, by their numbers in the whole.
func (e *extremes) add(j *job, q, row int32, score float64) {
	p := ref.Pair{Query: int32(j.in.QueryID(q)), Context: int32(j.in.ContextID(row)), Score: score}
	e.merge(extremes{p, p})
}

// take makes the Partial of a part, which was counted with the brackets of and has its rows at at. D+ is known.
func (x *Partial) take(ctx context.Context, p *Part, j *job, of *distribution.Brackets, at rowsOfPart) (err error) {
	x.bins, x.counted = p.bins, p.counted
	if x.b.Bins == 0 {
		x.bins = nil
	} else if of.Bins != x.b.Bins || of.Low != x.b.Low || of.High != x.b.High {
		return fmt.Errorf("engine: %w: %d cells from %v to %v are wanted, the part has %d from %v to %v",
			distribution.ErrPart, x.b.Bins, x.b.Low, x.b.High, of.Bins, of.Low, of.High)
	}
	if x.area, err = newArea(p.contexts, p.queries); err != nil {
		return fmt.Errorf("engine: %w: %w", kernels.ErrArgument, err)
	}
	if err := x.area.within(x.of); err != nil {
		return err
	}
	x.epsilon = p.epsilon
	if x.b.Metric != kernels.Cosine {
		x.epsilon /= p.unit
		if x.b.Metric == kernels.L2 {
			x.epsilon /= p.unit
		}
	}
	if p.tiles > 0 {
		x.sums = []unitSums{{p.unit, p.tiles, p.sum, p.sum2}}
	}
	if err := x.keep(ctx, p, j, of, at); err != nil || len(x.area) == 0 {
		return err
	}
	for kind, list := range p.best {
		for l, b := range list {
			if b.context >= 0 {
				j.improve(kind, at.queries[l], at.contexts[b.context], b.score)
			}
		}
	}
	x.setQueries(j, at.queries)
	contexts := slices.Clone(at.contexts) // a sample looks for ids in them
	slices.SortFunc(contexts, func(a, b int32) int { return cmp.Compare(j.in.ContextID(a), j.in.ContextID(b)) })
	return x.scored(ctx, j, contexts, at.queries)
}

// setQueries takes D+ and the maxima of some queries from the job's result.
func (x *Partial) setQueries(j *job, lanes []int32) {
	d := j.out
	for _, q := range lanes {
		y := partialQuery{number: j.in.QueryID(q), owner: j.in.ContextID(j.in.Owner[q]), positive: d.Positive[q]}
		y.best[bestOther].context, y.best[bestAll].context = -1, -1
		if row := d.BestOtherRow[q]; row >= 0 {
			y.best[bestOther] = partBest{int32(j.in.ContextID(row)), d.BestOther[q]}
		}
		if row := d.BestRow[q]; row >= 0 {
			y.best[bestAll] = partBest{int32(j.in.ContextID(row)), d.Best[q]}
		}
		if j.in.Group != nil && !j.negatives.several { // all contexts were taken for others
			y.best[bestAll], y.best[bestOther] = y.best[bestOther], y.best[bestAll]
		}
		x.queries = append(x.queries, y)
	}
	slices.SortFunc(x.queries, func(a, b partialQuery) int { return cmp.Compare(a.number, b.number) })
}

// Plus returns the Partial of both sets of pairs. Those of another whole or other brackets, and sets that have a pair
// in common, are distribution.ErrPart, which names it.
func (x *Partial) Plus(y *Partial) (*Partial, error) {
	if x.sum != y.sum {
		return nil, fmt.Errorf("engine: %w: it belongs to another whole or other brackets", distribution.ErrPart)
	}
	if len(x.below) != len(y.below) || len(x.bins) != len(y.bins) || len(x.cells) != len(y.cells) ||
		x.dim != y.dim {
		return nil, fmt.Errorf("engine: %w: %d brackets, %d and %d bins, dimension %d; want %d, %d, %d, %d",
			distribution.ErrPart, len(y.below), len(y.bins), len(y.cells), y.dim, len(x.below), len(x.bins),
			len(x.cells), x.dim)
	}
	out := &Partial{of: x.of, b: x.b, sum: x.sum, counted: x.counted + y.counted, epsilon: max(x.epsilon, y.epsilon),
		below: slices.Clone(x.below), bins: slices.Clone(x.bins), cells: slices.Clone(x.cells),
		ends: x.ends, dots: new(big.Int).Add(x.dots, y.dots), dim: x.dim}
	var err error
	if out.area, err = x.area.plus(y.area); err != nil {
		return nil, err
	}
	if out.sums, err = addSums(x.sums, y.sums); err != nil {
		return nil, err
	}
	addTo(out.below, y.below)
	addTo(out.bins, y.bins)
	addTo(out.cells, y.cells)
	out.kept, out.sample = mergeSorted(x.kept, y.kept, cmp.Compare), mergeSorted(x.sample, y.sample, cmp.Compare)
	out.ends.merge(y.ends)
	out.queries, err = x.addQueries(y)
	return out, err
}

func addSums(a, b []unitSums) (out []unitSums, err error) {
	all := mergeSorted(a, b, func(a, b unitSums) int { return cmp.Compare(a.unit, b.unit) })
	for _, s := range all {
		last := len(out) - 1
		if last < 0 || out[last].unit != s.unit {
			out = append(out, s)
			continue
		}
		t := &out[last]
		t.tiles += s.tiles
		if t.sum, err = t.sum.Plus(s.sum); err != nil {
			return nil, err
		}
		if t.square, err = t.square.Plus(s.square); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addQueries merges the maxima.
func (x *Partial) addQueries(y *Partial) (out []partialQuery, err error) {
	all := mergeSorted(x.queries, y.queries, func(a, b partialQuery) int { return cmp.Compare(a.number, b.number) })
	out = make([]partialQuery, 0, len(all))
	for _, q := range all {
		last := len(out) - 1
		if last < 0 || out[last].number != q.number {
			out = append(out, q)
			continue
		}
		t := &out[last]
		if t.owner != q.owner || t.positive != q.positive {
			return nil, fmt.Errorf("engine: %w: query %d has context %d with a score of %v, and context %d with %v",
				distribution.ErrPart, q.number, t.owner, t.positive, q.owner, q.positive)
		}
		for kind, b := range q.best {
			if c := &t.best[kind]; b.context >= 0 && (c.context < 0 || x.b.Metric.Better(b.score, c.score) ||
				b.score == c.score && b.context < c.context) {
				*c = b
			}
		}
	}
	return out, nil
}

// mergeSorted merges sorted lists.
func mergeSorted[T any](a, b []T, compare func(a, b T) int) []T {
	out := make([]T, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compare(b[0], a[0]) < 0 {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}

// numbers is the range [from, to).
type numbers struct{ from, to uint64 }

// slab is the pairs of a range of queries with ranges of contexts, which are ascending and do not touch.
type slab struct {
	queries  numbers
	contexts []numbers
}

// area is a set of pairs as slabs, ascending, with nothing to join: equal sets have equal areas.
type area []slab

// newArea returns the pairs of some queries with some contexts.
func newArea(contexts, queries []uint64) (a area, err error) {
	single := func(list []uint64) (out []numbers) {
		for _, x := range list {
			out = append(out, numbers{x, x + 1})
		}
		return out
	}
	c, err := joined(single(contexts))
	if err != nil {
		return nil, fmt.Errorf("contexts %w", err)
	}
	q, err := joined(single(queries))
	if err != nil {
		return nil, fmt.Errorf("queries %w", err)
	}
	if len(c) == 0 {
		return nil, nil
	}
	for _, x := range q {
		a = append(a, slab{x, c})
	}
	return a, nil
}

// within returns kernels.ErrArgument for pairs beyond a whole.
func (a area) within(of distribution.Whole) error {
	for _, s := range a {
		if last := s.contexts[len(s.contexts)-1].to; s.queries.to > uint64(of.Queries) || last > uint64(of.Contexts) {
			return fmt.Errorf("engine: %w: query %d, context %d of %d, %d", kernels.ErrArgument, s.queries.to-1, last-1,
				of.Queries, of.Contexts)
		}
	}
	return nil
}

// plus returns the union. Pairs that both have are distribution.ErrPart.
func (a area) plus(b area) (out area, err error) {
	var edges []uint64
	for _, s := range slices.Concat(a, b) {
		edges = append(edges, s.queries.from, s.queries.to)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	i, k := 0, 0
	for n := 1; n < len(edges); n++ {
		x := slab{queries: numbers{edges[n-1], edges[n]}}
		x.contexts, err = joined(slices.Concat(a.at(x.queries.from, &i), b.at(x.queries.from, &k)))
		if err != nil {
			return nil, fmt.Errorf("engine: %w: queries %d to %d: contexts %w", distribution.ErrPart, x.queries.from,
				x.queries.to-1, err)
		}
		if last := len(out) - 1; last >= 0 && out[last].queries.to == x.queries.from &&
			slices.Equal(out[last].contexts, x.contexts) {
			out[last].queries.to = x.queries.to
		} else if len(x.contexts) > 0 {
			out = append(out, x)
		}
	}
	return out, nil
}

// at returns the contexts of a query; next, which only grows, is where to look first.
func (a area) at(query uint64, next *int) []numbers {
	for *next < len(a) && a[*next].queries.to <= query {
		*next++
	}
	if *next < len(a) && a[*next].queries.from <= query {
		return a[*next].contexts
	}
	return nil
}

// joined sorts ranges, which it reorders, and joins those that touch.
func joined(all []numbers) (out []numbers, err error) {
	slices.SortFunc(all, func(x, y numbers) int { return cmp.Compare(x.from, y.from) })
	for _, x := range all {
		switch last := len(out) - 1; {
		case last >= 0 && x.from < out[last].to:
			return nil, fmt.Errorf("%d to %d are counted twice", x.from, min(x.to, out[last].to)-1)
		case last >= 0 && x.from == out[last].to:
			out[last].to = x.to
		default:
			out = append(out, x)
		}
	}
	return out, nil
}

// whole returns distribution.ErrPart, with the first pairs that are missing, unless the area is all pairs.
func (a area) whole(contexts, queries uint64) error {
	missing := func(q, c numbers) error {
		return fmt.Errorf("engine: %w: queries %d to %d with contexts %d to %d are not counted", distribution.ErrPart,
			q.from, q.to-1, c.from, c.to-1)
	}
	if contexts == 0 || queries == 0 {
		return nil
	}
	all, next := numbers{0, contexts}, uint64(0)
	for _, s := range a {
		if s.queries.from > next {
			return missing(numbers{next, s.queries.from}, all)
		}
		if first := s.contexts[0]; first.from > 0 {
			return missing(s.queries, numbers{0, first.from})
		} else if len(s.contexts) > 1 {
			return missing(s.queries, numbers{first.to, s.contexts[1].from})
		} else if first.to < contexts {
			return missing(s.queries, numbers{first.to, contexts})
		}
		next = s.queries.to
	}
	if next < queries {
		return missing(numbers{next, queries}, all)
	}
	return nil
}
