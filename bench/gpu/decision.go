package gpu

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// decided are decisions; rows count survivors of all queries.
type decided []engine.Decision

func (d decided) survivors() (n int64) {
	for _, one := range d {
		n += one.Survivors
	}
	return n
}

// beyond is how far cut-offs lie above the best context of any query: questions that are out of scope.
const beyond = .05

// decisions compares scans of all coordinates in eight bits with those that read about a third first. Every query is
// out of scope, so that nothing ends a scan early.
func (r *Report) decisions(ctx context.Context, contexts, queries engine.Vectors) error {
	onCPUSet, err := r.cpu.Prepare(ctx, contexts, kernels.Cosine, engine.SetOptions{})
	if err != nil {
		return err
	}
	defer onCPUSet.Close()
	for _, n := range []int{1, 8} {
		if err := r.decide(ctx, onCPUSet, contexts, head(queries, n)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) decide(ctx context.Context, onCPUSet *engine.Set, contexts, q engine.Vectors) error {
	best, err := r.cpu.MaxAll(ctx, q, onCPUSet.Vectors(), kernels.Cosine, nil)
	if err != nil {
		return err
	}
	tau := -1.
	for _, b := range best {
		tau = max(tau, b.Score+beyond)
	}
	on := func(e *engine.Engine, s *engine.Set) func() (any, error) {
		return func() (any, error) {
			d, err := e.AnyAboveAll(ctx, q, s.Vectors(), kernels.Cosine, nil, tau)
			return decided(d), err
		}
	}
	row := Row{Workload: Decision, State: warm, Contexts: contexts.Rows, Queries: q.Rows, Dim: contexts.Dim}
	row.Device, row.Format = onCPU, "index"
	sides := []side{{row, on(r.cpu, onCPUSet)}}
	for _, first := range []int{contexts.Dim, engine.ScanDims(contexts.Dim)} {
		s, err := r.gpu.Prepare(ctx, contexts, kernels.Cosine, engine.SetOptions{NoIndex: true, ScanDims: first})
		if err != nil {
			return err
		}
		defer s.Close()
		row.Device, row.Format = onGPU, fmt.Sprintf("int8, %d first", first)
		const known = 8 // bytes of a row besides its codes
		row.Bytes, row.ReadBytes = int64(q.Rows)*int64(4*row.Dim), int64(contexts.Rows)*int64((first+15)/16*16+known)
		sides = append(sides, side{row, on(r.gpu, s)})
	}
	return r.turns(ctx, sides, func(cpu, gpu any) bool {
		a, b := cpu.(decided), gpu.(decided)
		for i := range a {
			if a[i].Above != b[i].Above {
				return false
			}
		}
		return true
	})
}
