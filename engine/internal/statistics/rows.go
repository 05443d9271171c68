package statistics

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// The order of contexts and queries in panels.

// orderRows orders contexts by group and queries by their own context, so that few tiles hold near pairs.
func (b *bounded) orderRows(ctx context.Context, j *job, of *block) (err error) {
	grouped := j.negatives.several
	if of != nil {
		b.rowAt, b.laneAt = slices.Clone(of.rows), slices.Clone(of.lanes)
	}
	if grouped {
		b.rowAt, err = sortedBy(ctx, j, b.rowAt, b.rowCount, func(c int32) int32 { return j.in.Group[c] })
		if err != nil {
			return err
		}
	}
	at, err := inverse(ctx, b.rowAt, j.c.N)
	if err != nil {
		return err
	}
	position, err := b.positions(ctx, j, at, grouped)
	if err != nil {
		return err
	}
	if b.laneAt, err = sortedBy(ctx, j, b.laneAt, b.laneCount, position); err != nil {
		return err
	}
	owner := func(l int) int32 { return j.in.Owner[through(b.laneAt, l)] }
	b.own, err = listOf(ctx, b.laneCount, func(l int) int32 { return through(at, int(owner(l))) })
	if err != nil || !grouped {
		return err
	}
	b.rowGroup, err = listOf(ctx, b.rowCount, func(i int) int32 { return j.in.Group[through(b.rowAt, i)] })
	if err != nil {
		return err
	}
	b.laneGroup, err = listOf(ctx, b.laneCount, func(l int) int32 { return j.in.Group[owner(l)] })
	return err
}

// listOf returns of(0) to of(n−1).
func listOf[T any](ctx context.Context, n int, of func(i int) T) ([]T, error) {
	list := make([]T, n)
	return list, workers.Over(ctx, n, func(from, to int) {
		for i := from; i < to; i++ {
			list[i] = of(i)
		}
	})
}

// positions tells where a query belongs: at its own context or, where that is not in the block, where its group begins.
func (b *bounded) positions(ctx context.Context, j *job, at []int32, grouped bool) (func(q int32) int32, error) {
	begin := make(map[int32]int32)
	if grouped {
		err := workers.Over(ctx, b.rowCount, func(from, to int) {
			for i := from; i < to; i++ {
				group := j.in.Group[through(b.rowAt, i)]
				if _, has := begin[group]; !has {
					begin[group] = int32(i)
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return func(q int32) int32 {
		c := j.in.Owner[q]
		if p := through(at, int(c)); p >= 0 || !grouped {
			return p
		}
		if p, ok := begin[j.in.Group[c]]; ok {
			return p
		}
		return -1
	}, nil
}

// through is list[i], or i without a list.
func through(list []int32, i int) int32 {
	if list == nil {
		return int32(i)
	}
	return list[i]
}

// sortedBy returns the stable order of a list of rows, nil for 0 to n−1, by a key of each; nil if all n are in order.
func sortedBy(ctx context.Context, j *job, list []int32, n int, key func(row int32) int32) ([]int32, error) {
	inOrder := true
	err := workers.Over(ctx, n, func(from, to int) {
		for i := max(1, from); i < to && inOrder; i++ {
			inOrder = key(through(list, i-1)) <= key(through(list, i))
		}
	})
	if inOrder || err != nil {
		return list, err
	}
	type place struct{ key, at, row int32 }
	places, err := listOf(ctx, n, func(i int) place {
		row := through(list, i)
		return place{key(row), int32(i), row}
	})
	if err != nil {
		return nil, err
	}
	err = workers.Sort(ctx, j.r.Pool, places, func(x, y place) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.at, y.at))
	})
	if err != nil {
		return nil, err
	}
	return listOf(ctx, n, func(i int) int32 { return places[i].row })
}

// inverse returns where each of n rows is in a list; −1 where it is not. A list of nil is the rows themselves.
func inverse(ctx context.Context, order []int32, n int) ([]int32, error) {
	if order == nil {
		return nil, nil
	}
	at, err := listOf(ctx, n, func(int) int32 { return -1 })
	if err != nil {
		return nil, err
	}
	return at, workers.Over(ctx, len(order), func(from, to int) {
		for i := from; i < to; i++ {
			at[order[i]] = int32(i)
		}
	})
}
