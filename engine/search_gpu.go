package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/hits"
	"github.com/sluice-rag/sluice/engine/internal/search"
	"github.com/sluice-rag/sluice/kernels"
)

// onGPU searches on a GPU if one is chosen for it: for the k best rows, or with k = 0 for any that is better than tau.
// done is false where the CPU is to search, which is also what refuses bad arguments, so that there is one way to say
// so.
func (e *Engine) onGPU(ctx context.Context, q, c Vectors, metric kernels.Metric, k int, tau float64,
	bias []Biases) (found []hits.Found, done bool, err error) {
	r := e.searchOn(ctx, q.Rows, q, c)
	if r == nil {
		return nil, false, nil
	}
	in, ok, err := e.searchInput(ctx, q, c, metric, bias)
	if err != nil || !ok {
		return nil, false, err
	}
	in.K, in.Tau = k, tau
	err = e.runOn(ctx, r, func(r *device.Resources) (err error) {
		if done = r.Device != e.r.Device; !done {
			return nil
		}
		found, err = search.Run(ctx, r, in)
		return err
	})
	return found, done && err == nil, err
}

// oneOnGPU is onGPU for one query; ok is false if no row is found. It allocates nothing where the CPU is to search.
func (e *Engine) oneOnGPU(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, k int, tau float64,
	bias Biases) (best Hit, ok, done bool, err error) {
	best = Hit{Row: -1, Score: metric.Worst()}
	if len(q) == 0 || e.searchOn(ctx, 1, Vectors{}, c) == nil {
		return best, false, false, nil
	}
	var list []Biases
	if bias != nil {
		list = []Biases{bias}
	}
	found, done, err := e.onGPU(ctx, Vectors{Data: q, Rows: 1, Dim: len(q)}, c, metric, k, tau, list)
	if done && len(found[0].Hits) > 0 {
		return found[0].Hits[0], true, true, nil
	}
	return best, false, done, err
}

// searchOn returns the GPU that is chosen for a search; nil where the CPU is to search.
func (e *Engine) searchOn(ctx context.Context, queries int, q, c Vectors) *device.Resources {
	if e.gpus == nil || queries == 0 || c.Rows == 0 {
		return nil
	}
	if m := snapshotOf(c); m != nil && m.selected { // the index reads little of them
		return nil
	}
	t := task{op: device.OpTopK, shape: device.Shape{A: queries, B: c.Rows, Dim: c.Dim}, a: q, b: c}
	if r := e.on(ctx, &t); r.Device != e.r.Device {
		return r
	}
	return nil
}

// searchInput checks the operands; ok is false where something is wrong with them.
func (e *Engine) searchInput(ctx context.Context, q, c Vectors, metric kernels.Metric, bias []Biases) (in search.Input,
	ok bool, err error) {
	m := snapshotOf(c)
	if metric > kernels.L2 || m != nil && q.Dim != m.dim || len(bias) != 0 && len(bias) != q.Rows {
		return in, false, nil
	}
	in = search.Input{Metric: metric, Bias: bias, ScanRows: e.scanRows}
	if in.Queries, err = device.View("queries", q); err != nil {
		return in, false, nil
	}
	for i, list := range bias {
		if device.CheckBias(ctx, i, list, c.Rows) != nil {
			return in, false, ctx.Err()
		}
	}
	if ok, err := e.ready(ctx, &in.Queries); !ok {
		return in, false, err
	}
	if m != nil {
		in.Parts, in.Deleted, in.Head = m.searched(), m.x.Deleted(), m.set.scanDims
		return in, true, nil
	}
	contexts, err := device.View("contexts", c)
	if err != nil || contexts.Dim != in.Queries.Dim {
		return in, false, nil
	}
	if ok, err := e.ready(ctx, &contexts); !ok {
		return in, false, err
	}
	in.Parts = []search.Part{{Operand: contexts, Largest: slices.Max(contexts.Norms)}}
	return in, true, nil
}

// ready checks and measures an operand; it is false, without an error, where a value is no number.
func (e *Engine) ready(ctx context.Context, o *device.Operand) (bool, error) {
	err := e.r.Prepare(ctx, o, kernels.Cosine) // norms serve every metric
	if errors.Is(err, kernels.ErrNonFinite) {
		return false, nil
	}
	return err == nil, err
}

func hitsOf(found []hits.Found) [][]Hit {
	if found == nil {
		return nil
	}
	out := make([][]Hit, len(found))
	for i, f := range found {
		out[i] = f.Hits
	}
	return out
}

// timed notes, when the returned function is called, how long an index took, where a GPU is what else could have
// searched.
func (e *Engine) timed(queries int, c Vectors) func() {
	if e.gpu() == nil {
		return func() {}
	}
	begun := time.Now()
	return func() { e.searchedOnCPU(queries, c, begun) }
}
