package statistics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/kernels"
)

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
