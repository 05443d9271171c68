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
