package statistics

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// region is the block of panels that is on the device at a time: all of them if the memory limit allows, else as many
// as fit. own and group lists count rows from the region's first row.
type region struct {
	row0, row1, lane0, lane1 int // panels
	rows, lanes              device.Set
	own, rowGroup, laneGroup []int32
}

// place is the position of a region in the grid of regions, and its tasks.
type place struct {
	row, column int
	tasks       []int32
}

// places returns the regions that have tasks, in the order in which they are visited: alternating direction, so that
// the lanes stay on the device at each turn.
func (b *bounded) places(ctx context.Context, tasks []int32) (out []place, err error) {
	rows, columns := workers.Ceil(b.rowPanels, b.regionRows), workers.Ceil(b.lanePanels, b.regionLanes)
	all := make([]place, rows*columns)
	err = workers.Over(ctx, len(tasks), func(from, to int) {
		for _, task := range tasks[from:to] {
			row0, _, lane0, _ := b.block(int(task))
			row, column := row0/b.regionRows, lane0/b.regionLanes
			at := row*columns + column
			if row%2 == 1 {
				at = (row+1)*columns - 1 - column
			}
			all[at].row, all[at].column, all[at].tasks = row, column, append(all[at].tasks, task)
		}
	})
	return slices.DeleteFunc(all, func(p place) bool { return p.tasks == nil }), err
}

// enter packs what the region in row i and column k needs and r does not hold yet.
func (b *bounded) enter(ctx context.Context, j *job, r *region, i, k int) (err error) {
	row0, row1 := i*b.regionRows, min((i+1)*b.regionRows, b.rowPanels)
	lane0, lane1 := k*b.regionLanes, min((k+1)*b.regionLanes, b.lanePanels)
	if r.rows == nil || r.row0 != row0 {
		b.release(j, &r.rows)
		if r.rows, err = b.pack(ctx, j, device.Left, row0, row1); err != nil {
			return err
		}
	}
	if r.lanes == nil || r.lane0 != lane0 {
		b.release(j, &r.lanes)
		if r.lanes, err = b.pack(ctx, j, device.Right, lane0, lane1); err != nil {
			return err
		}
	}
	r.row0, r.row1, r.lane0, r.lane1 = row0, row1, lane0, lane1
	from, to := lane0*device.Panel, min(lane1*device.Panel, b.laneCount)
	r.own = append(r.own[:0], b.own[from:to]...)
	for l, row := range r.own { // rows of another region are not in this one's list
		if row -= int32(row0 * device.Panel); row < 0 || int(row) >= (row1-row0)*device.Panel {
			row = -1
		}
		r.own[l] = row
	}
	if b.rowGroup != nil {
		r.rowGroup = b.rowGroup[row0*device.Panel : min(row1*device.Panel, b.rowCount)]
		r.laneGroup = b.laneGroup[from:to]
	}
	return nil
}

// whole reports whether one region holds everything: its sets then stay for later passes.
func (b *bounded) whole() bool { return b.regionRows >= b.rowPanels && b.regionLanes >= b.lanePanels }

// pack makes a set of the panels [from, to) of contexts or queries, in their packed order.
func (b *bounded) pack(ctx context.Context, j *job, side device.Side, from, to int) (device.Set, error) {
	o, order, scale, resident, n := j.c, b.rowAt, b.scaleRows, &b.rows, b.rowCount
	if side == device.Right {
		o, order, scale, resident, n = j.q, b.laneAt, b.scaleLanes, &b.lanes, b.laneCount
	}
	if *resident != nil {
		return *resident, nil
	}
	if b.whole() && n == o.N {
		s, end, err := j.r.Packed(ctx, o, side, b.dtype, b.metric, scale, order)
		if err == nil {
			*resident, b.ends = s, append(b.ends, end)
		}
		return s, err
	}
	first, last := from*device.Panel, min(to*device.Panel, n)
	rows := o.Rows
	if order != nil {
		order = order[first:last]
	} else {
		rows = rows.Slice(first, last)
	}
	s, err := j.r.New(side, b.dtype, b.metric, last-first, o.Dim, scale)
	if err != nil {
		return nil, err
	}
	if err := j.r.PackAll(ctx, s, rows, order); err != nil {
		j.r.Free(s)
		return nil, err
	}
	if b.whole() {
		*resident, b.ends = s, append(b.ends, func() { j.r.Free(s) })
	}
	return s, nil
}

// release frees a region's set unless it is kept for later passes.
func (b *bounded) release(j *job, s *device.Set) {
	if *s != nil && *s != b.rows && *s != b.lanes {
		j.r.Free(*s)
	}
	*s = nil
}

func (b *bounded) drop(j *job, r *region) {
	b.release(j, &r.rows)
	b.release(j, &r.lanes)
}

// findBound packs all regions once, one after the other, and finds the bound that holds for all of them.
func (b *bounded) findBound(ctx context.Context, j *job) error {
	var sides [2][]device.Set
	for side, n := range [2]int{b.rowPanels, b.lanePanels} {
		step := b.regionRows
		if side == int(device.Right) {
			step = b.regionLanes
		}
		for from := 0; from < n; from += step {
			s, err := b.pack(ctx, j, device.Side(side), from, min(from+step, n))
			if err != nil {
				return err
			}
			sides[side] = append(sides[side], s)
			if !b.whole() {
				j.r.Free(s) // Bound depends on everything that was packed, even if it was freed
			}
		}
	}
	for _, rows := range sides[0] {
		for _, lanes := range sides[1] {
			b.epsilon = max(b.epsilon, j.r.Bound(rows, lanes))
		}
	}
	return nil
}

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
