package index

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Freeze returns the index as it is at the moment: what is appended to x or deleted from it later does not show.
func (x *Index) Freeze() *Index {
	f := &Index{r: x.r, metric: x.metric, options: x.options, kernel: x.kernel}
	f.now.Store(x.now.Load())
	return f
}

// Select returns the index as it is at the moment, of the given rows alone, ascending: the others are as good as
// deleted. A search goes by the chunks that have one of them. Rows that are not there are kernels.ErrArgument.
func (x *Index) Select(ctx context.Context, rows []int) (*Index, error) {
	next := *x.now.Load()
	dead, before := deadRows{count: next.rows}, -1
	for first := 0; first < next.rows; first += pageRows {
		page := new([64]uint64)
		for i := range min(pageRows, next.rows-first) {
			page[i/64] |= 1 << (i % 64)
		}
		dead.pages = append(dead.pages, page)
	}
	for i, row := range rows {
		if i%workers.Stretch == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if row <= before || row >= next.rows {
			return nil, fmt.Errorf("engine: selection: %w: row %d of %d rows, after %d", kernels.ErrArgument, row,
				next.rows, before)
		}
		if before = row; !next.dead.has(row) {
			dead.pages[row/pageRows][row%pageRows/64] &^= 1 << (row % 64)
			dead.count--
		}
	}
	next.dead, next.selected = dead, true
	next.visit()
	f := x.Freeze()
	f.now.Store(&next)
	return f, nil
}

// For returns the same rows in another metric, without codes.
func (x *Index) For(metric kernels.Metric) *Index {
	old := x.now.Load()
	f := &Index{r: x.r, metric: metric, options: Options{Plain: true}, kernel: x.kernel}
	s := &snapshot{rows: old.rows, dim: old.dim, dead: old.dead, selected: old.selected,
		model: &model{reason: "another metric: all rows are read in full"}}
	for _, g := range old.groups {
		s.groups = append(s.groups, &group{Operand: g.Operand, first: g.first})
	}
	s.list()
	f.now.Store(s)
	return f
}

// Metric returns the metric of its searches.
func (x *Index) Metric() kernels.Metric { return x.metric }

// Coded reports whether searches read codes first.
func (x *Index) Coded() bool {
	m := x.now.Load().model
	return m != nil && m.reason == ""
}

// Shape returns the number of rows and their dimension.
func (x *Index) Shape() (rows, dim int) {
	s := x.now.Load()
	return s.rows, s.dim
}

// Deleted lists the deleted rows in ascending order.
func (x *Index) Deleted() []int {
	s := x.now.Load()
	rows := make([]int, 0, s.dead.count)
	dead, _ := s.dead.list(context.Background()) // it fails only when its context ends
	for _, row := range dead {
		rows = append(rows, int(row))
	}
	return rows
}

// One returns all rows where they were added at once, by reference.
func (x *Index) One() (rows cpu.Rows, ok bool) {
	if s := x.now.Load(); len(s.groups) == 1 {
		return s.groups[0].Rows, true
	}
	return rows, false
}

// Gather returns a contiguous copy of all rows, or of those that are not deleted.
func (x *Index) Gather(ctx context.Context, live bool) (cpu.Rows, error) {
	s := x.now.Load()
	n := s.rows
	if live {
		n -= s.dead.count
	}
	all := cpu.Rows{Data: make([]float32, 0, n*s.dim), Norms: make([]float64, 0, n), N: n, Dim: s.dim, Stride: s.dim}
	for _, g := range s.groups {
		err := workers.Over(ctx, g.N, func(from, to int) {
			for i := from; i < to; i++ {
				if !live || !s.dead.has(g.first+i) {
					all.Data, all.Norms = append(all.Data, g.Row(i)...), append(all.Norms, g.Norms[i])
				}
			}
		})
		if err != nil {
			return cpu.Rows{}, err
		}
	}
	return all, nil
}

// Group is rows that were added together, checked and with norms, and the number of the first of them.
type Group struct {
	cpu.Rows
	Begin int
}

// Groups lists all rows, deleted ones as well, in ascending order. A group stays as it is while rows are added, but for
// the last one, which may be put together with what comes next.
func (x *Index) Groups() []Group {
	s := x.now.Load()
	out := make([]Group, len(s.groups))
	for i, g := range s.groups {
		out[i] = Group{g.Rows, g.first}
	}
	return out
}
