package engine

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
)

// whole returns the input of an operation on parts of a distribution, whose sets may have grown but have no deleted
// rows: those leave parts by RemoveFromPart.
func whole(ctx context.Context, in *DistributionInput) error {
	if err := fill(ctx, &in.Contexts, &in.Queries); err != nil {
		return err
	}
	for _, v := range []Vectors{in.Contexts, in.Queries} {
		if m := snapshotOf(v); m != nil && m.deleted > 0 {
			return fmt.Errorf("engine: part: %w: %d rows of the prepared set are deleted", kernels.ErrArgument,
				m.deleted)
		}
	}
	return nil
}

// withoutDeleted returns the snapshot without its deleted rows, and the row numbers of those that are left.
func (m *snapshot) withoutDeleted(ctx context.Context) (live *snapshot, rows []int32, err error) {
	deleted := m.x.Deleted()
	for row := range m.size {
		if len(deleted) > 0 && deleted[0] == row {
			deleted = deleted[1:]
			continue
		}
		rows = append(rows, int32(row))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live == nil {
		all, err := m.x.Gather(ctx, true)
		if err != nil {
			return nil, nil, err
		}
		m.live = &snapshot{set: m.set, x: m.x, size: len(rows), dim: m.dim, rows: all,
			kept: device.NewKept(m.set.limit)}
		if m.retired { // the set has changed: nobody would close the new one
			m.live.kept.Close()
		}
	}
	return m.live, rows, nil
}

// remaining is a set of vectors without deleted rows.
type remaining struct {
	rows []int32 // the row of each that is left; nil: all are
	at   []int32 // the place of each row among them, −1 if it is deleted; nil: its own
}

func remainingOf(ctx context.Context, v *Vectors) (r remaining, err error) {
	m := snapshotOf(*v)
	if m == nil || m.deleted == 0 {
		return r, nil
	}
	live, rows, err := m.withoutDeleted(ctx)
	if err != nil {
		return r, err
	}
	r.rows, r.at = rows, make([]int32, m.size)
	for i := range r.at {
		r.at[i] = -1
	}
	for i, row := range rows {
		r.at[row] = int32(i)
	}
	*v = Vectors{Data: live.rows.Data, Rows: live.size, Dim: live.dim, Stride: live.dim, Set: live}
	if live.size == 0 {
		*v = Vectors{}
	}
	return r, nil
}

// row returns the row number of place i.
func (r remaining) row(i int32) int32 {
	if r.rows == nil || i < 0 {
		return i
	}
	return r.rows[i]
}

// place is the inverse of row.
func (r remaining) place(row int32) int32 {
	if r.at == nil {
		return row
	}
	return r.at[row]
}

// pick returns the list without what belongs to deleted rows.
func pick[T any](r remaining, list []T) []T {
	if r.rows == nil || list == nil {
		return list
	}
	out := make([]T, len(r.rows))
	for i, row := range r.rows {
		out[i] = list[row]
	}
	return out
}

func mapped(r remaining, places []int32) []int32 {
	if r.rows == nil {
		return places
	}
	rows := make([]int32, len(places))
	for i, p := range places {
		rows[i] = r.rows[p]
	}
	return rows
}

// spread puts what there is one of per query at the query's row; a deleted one has no context and the worst score.
func spread(d *Distribution, queries remaining, n int, metric kernels.Metric) {
	for _, list := range []*[]float64{&d.Positive, &d.Best, &d.BestOther} {
		out := make([]float64, n)
		for i := range out {
			out[i] = metric.Worst()
		}
		for i, row := range queries.rows {
			out[row] = (*list)[i]
		}
		*list = out
	}
	for _, list := range []*[]int32{&d.BestRow, &d.BestOtherRow} {
		out := make([]int32, n)
		for i := range out {
			out[i] = -1
		}
		for i, row := range queries.rows {
			out[row] = (*list)[i]
		}
		*list = out
	}
}
