package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// operand is a checked set of vectors. ready means that its values are known to be finite and, for
// cosine, its norms are there; else scorer does both block by block.
type operand struct {
	cpu.Rows
	name  string
	ready bool
}

// view checks the shape of v.
func view(name string, v Vectors) (operand, error) {
	o := operand{name: name}
	if v.Rows == 0 {
		return o, nil
	}
	stride := v.Stride
	if stride == 0 {
		stride = v.Dim
	}
	if v.Rows < 0 || v.Dim < 1 || stride < v.Dim {
		return o, fmt.Errorf("engine: %s: %w: %d rows, dimension %d, stride %d", name, kernels.ErrShape, v.Rows, v.Dim, v.Stride)
	}
	if len(v.Data) < v.Dim || v.Rows-1 > (len(v.Data)-v.Dim)/stride {
		return o, fmt.Errorf("engine: %s: %w: %d rows of dimension %d with stride %d in %d values",
			name, kernels.ErrShape, v.Rows, v.Dim, stride, len(v.Data))
	}
	o.Rows = cpu.Rows{Data: v.Data, N: v.Rows, Dim: v.Dim, Stride: stride}
	return o, nil
}

// views checks two sets that are compared with each other.
func views(nameA string, a Vectors, nameB string, b Vectors, metric kernels.Metric) (oa, ob operand, err error) {
	if metric > kernels.L2 {
		return oa, ob, fmt.Errorf("engine: %w: %s", kernels.ErrMetric, metric)
	}
	if oa, err = view(nameA, a); err != nil {
		return oa, ob, err
	}
	if ob, err = view(nameB, b); err != nil {
		return oa, ob, err
	}
	if oa.N > 0 && ob.N > 0 && oa.Dim != ob.Dim {
		return oa, ob, fmt.Errorf("engine: %w: %s have dimension %d, %s %d", kernels.ErrShape, nameA, oa.Dim, nameB, ob.Dim)
	}
	return oa, ob, nil
}

// nonFinite is the error of a value that is no number; row is absolute.
type nonFinite struct {
	name     string
	row, col int
	value    float32
}

func (e *nonFinite) Error() string {
	return fmt.Sprintf("engine: %s: %v: row %d, column %d is %v", e.name, kernels.ErrNonFinite, e.row, e.col, e.value)
}

func (e *nonFinite) Unwrap() error { return kernels.ErrNonFinite }

// checkFinite checks the rows [from, to) of o.
func (e *Engine) checkFinite(o *operand, from, to int) error {
	bad, err := e.kernels.NonFinite(o.Slice(from, to))
	if err != nil || bad < 0 {
		return err
	}
	bad += from
	for col, x := range o.Row(bad) {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return &nonFinite{o.name, bad, col, x}
		}
	}
	return nil
}

// prepare checks all values of o and computes the norms, in parallel.
func (e *Engine) prepare(ctx context.Context, o *operand, metric kernels.Metric) error {
	if o.N == 0 || o.ready {
		return nil
	}
	if metric == kernels.Cosine {
		o.Norms = make([]float64, o.N)
	}
	chunk := max(1, tileWork/8/o.Dim)
	err := e.each(ctx, ceil(o.N, chunk), e.threads, func(_, task int) error {
		from, to := task*chunk, min(o.N, (task+1)*chunk)
		if err := e.checkFinite(o, from, to); err != nil || o.Norms == nil {
			return err
		}
		return e.kernels.Norms(o.Norms[from:to], o.Slice(from, to))
	})
	o.ready = err == nil
	return err
}

// checkBias refuses a list that is not strictly ascending by row, out of range, negative or no number.
func checkBias(query int, list []Bias, rows int) error {
	for i, b := range list {
		switch {
		case b.Row < 0 || b.Row >= rows:
			return fmt.Errorf("engine: bias %d of query %d: %w: row %d of %d rows", i, query, kernels.ErrArgument, b.Row, rows)
		case i > 0 && list[i-1].Row >= b.Row:
			return fmt.Errorf("engine: bias %d of query %d: %w: row %d after row %d; sort by row, each at most once",
				i, query, kernels.ErrArgument, b.Row, list[i-1].Row)
		case math.IsNaN(b.Value) || math.IsInf(b.Value, 0):
			return fmt.Errorf("engine: bias %d of query %d: %w: %v", i, query, kernels.ErrNonFinite, b.Value)
		case b.Value < 0:
			return fmt.Errorf("engine: bias %d of query %d: %w: %v is negative", i, query, kernels.ErrArgument, b.Value)
		}
	}
	return nil
}

func (in *DistributionInput) check() error {
	n, m := in.Contexts.Rows, in.Queries.Rows
	if n > math.MaxInt32 || m > math.MaxInt32 {
		return fmt.Errorf("engine: %w: %d contexts, %d queries; at most %d each", kernels.ErrShape, n, m, math.MaxInt32)
	}
	if len(in.Owner) != m {
		return fmt.Errorf("engine: %w: %d owners for %d queries", kernels.ErrShape, len(in.Owner), m)
	}
	for q, c := range in.Owner {
		if c < 0 || int(c) >= n {
			return fmt.Errorf("engine: owner of query %d: %w: context %d of %d", q, kernels.ErrArgument, c, n)
		}
	}
	if in.Group != nil && len(in.Group) != n {
		return fmt.Errorf("engine: %w: %d groups for %d contexts", kernels.ErrShape, len(in.Group), n)
	}
	for _, p := range in.Quantiles {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("engine: quantile: %w: %v is not in [0, 1]", kernels.ErrArgument, p)
		}
	}
	if in.Bins < 0 {
		return fmt.Errorf("engine: bins: %w: %d", kernels.ErrArgument, in.Bins)
	}
	switch in.Negatives.Kind {
	case NegativesAll, NegativesCrossGroup:
	case NegativesSample:
		if in.Negatives.PerQuery < 1 {
			return fmt.Errorf("engine: negatives per query: %w: %d, at least 1", kernels.ErrArgument, in.Negatives.PerQuery)
		}
	default:
		return fmt.Errorf("engine: negatives: %w: kind %d", kernels.ErrArgument, in.Negatives.Kind)
	}
	return nil
}
