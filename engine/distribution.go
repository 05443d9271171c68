package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/statistics"
	"github.com/sluice-rag/sluice/kernels"
)

// What goes into Distribution and what comes out (package distribution).
type (
	DistributionInput = distribution.Input
	Distribution      = distribution.Result
	Summary           = distribution.Summary
	Negatives         = distribution.Negatives
	NegativeKind      = distribution.NegativeKind
)

// The kinds of negatives, and the errors of distributions in parts.
const (
	NegativesAll        = distribution.NegativesAll
	NegativesCrossGroup = distribution.NegativesCrossGroup
	NegativesSample     = distribution.NegativesSample
)

// The errors of distributions in parts.
var (
	ErrPart       = distribution.ErrPart
	ErrCheckpoint = distribution.ErrCheckpoint
)

// Distribution implements Interface. Deleted rows of prepared sets take no part; those that do have their own numbers.
func (e *Engine) Distribution(ctx context.Context, in DistributionInput) (*Distribution, error) {
	if err := fill(ctx, &in.Contexts, &in.Queries); err != nil {
		return nil, err
	}
	n, whole := in.Queries.Rows, in
	contexts, err := remainingOf(ctx, &in.Contexts)
	if err != nil {
		return nil, err
	}
	queries, err := remainingOf(ctx, &in.Queries)
	if err != nil {
		return nil, err
	}
	if contexts.rows == nil && queries.rows == nil {
		return e.compute(ctx, in)
	}
	if err := whole.Check(ctx); err != nil {
		return nil, err
	}
	in.Owner = slices.Clone(pick(queries, in.Owner))
	for q, c := range in.Owner {
		if in.Owner[q] = contexts.place(c); in.Owner[q] < 0 {
			return nil,
				fmt.Errorf("engine: owner of query %d: %w: context %d is deleted", queries.row(int32(q)),
					kernels.ErrArgument, c)
		}
	}
	in.Group, in.ContextIDs, in.QueryIDs = pick(contexts, in.Group), pick(contexts, in.ContextIDs),
		pick(queries, in.QueryIDs)
	if bias := in.Bias; bias != nil {
		in.Bias = func(ctx context.Context, qs, cs []int32, out []float32) error {
			return bias(ctx, mapped(queries, qs), mapped(contexts, cs), out)
		}
	}
	d, err := e.compute(ctx, in)
	if err != nil {
		return nil, err
	}
	for _, list := range [][]int32{d.BestRow, d.BestOtherRow} {
		for i, row := range list {
			list[i] = contexts.row(row)
		}
	}
	for _, s := range []*Summary{&d.PositiveSummary, &d.NegativeSummary, &d.Max} {
		s.MinQuery, s.MinContext = queries.row(s.MinQuery), contexts.row(s.MinContext)
		s.MaxQuery, s.MaxContext = queries.row(s.MaxQuery), contexts.row(s.MaxContext)
	}
	if queries.rows != nil {
		spread(d, queries, n, in.Metric)
	}
	return d, nil
}

// compute is Distribution of rows none of which is deleted.
func (e *Engine) compute(ctx context.Context, in DistributionInput) (*Distribution, error) {
	return counted(ctx, e, &in, in.Contexts.Rows, in.Queries.Rows, func(r *device.Resources) (*Distribution, error) {
		return statistics.Compute(ctx, r, e.tune, in)
	})
}

// counted runs fn, which counts that many pairs of the input, on the device that is chosen for it.
func counted[T any](ctx context.Context, e *Engine, in *DistributionInput, contexts, queries int,
	fn func(r *device.Resources) (T, error)) (out T, err error) {
	t := task{op: device.OpDistribution, shape: device.Shape{A: queries, B: contexts, Dim: in.Contexts.Dim},
		a: in.Queries, b: in.Contexts}
	if in.DType != nil {
		t.fixed, t.shape.DType = true, *in.DType
	}
	if in.Bias != nil { // canonical scores throughout
		t.op = device.OpScores
	}
	err = e.run(ctx, &t, func(r *device.Resources) (err error) {
		out, err = fn(r)
		return err
	})
	return out, err
}

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
