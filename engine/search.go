package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/hits"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// TopK implements Interface.
func (e *Engine) TopK(ctx context.Context, q, c Vectors, metric kernels.Metric, k int, bias []Biases) ([][]Hit, error) {
	if err := errors.Join(fill(ctx, &q), use(&c)); err != nil {
		return nil, err
	}
	if k > 0 {
		if found, done, err := e.onGPU(ctx, q, c, metric, k, 0, bias); done || err != nil {
			return hitsOf(found), err
		}
	}
	if x := searched(c, metric); x != nil {
		defer e.timed(q.Rows, c)()
		return x.TopK(ctx, q, k, bias)
	}
	if err := fill(ctx, &c); err != nil {
		return nil, err
	}
	queries, contexts, err := device.Views("queries", q, "contexts", c, metric)
	if err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fmt.Errorf("engine: k: %w: %d, at least 1", kernels.ErrArgument, k)
	}
	if bias == nil {
		bias = make([]Biases, q.Rows)
	}
	if len(bias) != q.Rows {
		return nil, fmt.Errorf("engine: %w: %d bias lists for %d queries", kernels.ErrShape, len(bias), q.Rows)
	}
	for i, list := range bias {
		if err := device.CheckBias(ctx, i, list, c.Rows); err != nil {
			return nil, err
		}
	}
	return e.topK(ctx, &queries, &contexts, metric, k, bias)
}

func (e *Engine) topK(ctx context.Context, q, c *device.Operand, metric kernels.Metric, k int, bias []Biases) ([][]Hit,
	error) {
	if err := e.r.Prepare(ctx, q, metric); err != nil {
		return nil, err
	}
	found := make([][]Hit, q.N)
	if q.N == 0 || c.N == 0 {
		return found, e.r.Prepare(ctx, c, metric)
	}
	p, err := e.r.Plan(q.N, c.N, q.Dim, 8*int64(q.N+c.N), 0)
	if err != nil {
		return nil, err
	}
	if q.N > p.Queries { // contexts are visited more than once: check them and compute their norms once
		if err := e.r.Prepare(ctx, c, metric); err != nil {
			return nil, err
		}
	}
	release, err := e.r.HoldBoth(q, c)
	defer release()
	if err != nil {
		return nil, err
	}
	work, progress := e.r.Scorers(p, metric), e.r.Meter(int64(q.N)*int64(c.N))
	locks := make([]sync.Mutex, workers.Ceil(q.N, p.Queries))
	err = e.r.Grid(ctx, p, q.N, c.N, func(worker, q0, q1, c0, c1 int) error {
		scorer := work.Get(worker)
		scores, err := scorer.Block(q, c, q0, q1, c0, c1)
		if err != nil {
			return err
		}
		lock, width := &locks[q0/p.Queries], c1-c0
		for i := q0; i < q1; i++ {
			if err := scorer.AddBiases(scores[(i-q0)*width:][:width], bias[i], c0); err != nil {
				return err
			}
		}
		lock.Lock()
		for i := q0; i < q1; i++ {
			found[i] = hits.Select(found[i], scores[(i-q0)*width:][:width], c0, metric, k)
		}
		lock.Unlock()
		progress.Add(int64(len(scores)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, h := range found {
		hits.Sort(h, metric)
	}
	return found, nil
}

// Max implements Interface.
func (e *Engine) Max(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases) (best Hit,
	ok bool, err error) {
	none := Hit{Row: -1, Score: metric.Worst()}
	if err := use(&c); err != nil {
		return none, false, err
	}
	if best, ok, done, err := e.oneOnGPU(ctx, q, c, metric, 1, 0, bias); done || err != nil {
		return best, ok, err
	}
	if x := searched(c, metric); x != nil {
		defer e.timed(1, c)()
		return x.Max(ctx, q, bias)
	}
	query, contexts, err := single(ctx, q, c, metric, bias)
	if err != nil {
		return none, false, err
	}
	hits, err := e.topK(ctx, &query, &contexts, metric, 1, []Biases{bias})
	if err != nil || len(hits[0]) == 0 {
		return none, false, err
	}
	return hits[0][0], true, nil
}

// witness ends AnyAbove's run like an error: the witness of the lowest task is kept.
type witness Hit

func (witness) Error() string { return "found" }

// AnyAbove implements Interface.
func (e *Engine) AnyAbove(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases,
	tau float64) (Hit, bool, error) {
	none := Hit{Row: -1, Score: metric.Worst()}
	if err := use(&c); err != nil {
		return none, false, err
	}
	if snapshotOf(c) != nil && !math.IsNaN(tau) {
		if best, ok, done, err := e.oneOnGPU(ctx, q, c, metric, 0, tau, bias); done || err != nil {
			return best, ok, err
		}
	}
	if x := searched(c, metric); x != nil {
		defer e.timed(1, c)()
		return x.AnyAbove(ctx, q, bias, tau)
	}
	query, contexts, err := single(ctx, q, c, metric, bias)
	if err == nil && math.IsNaN(tau) {
		err = fmt.Errorf("engine: tau: %w: NaN", kernels.ErrNonFinite)
	}
	if err == nil {
		err = e.r.Prepare(ctx, &query, metric)
	}
	if err != nil || c.Rows == 0 {
		return none, false, err
	}
	p, err := e.r.Plan(1, contexts.N, contexts.Dim, 0, 0)
	if err != nil {
		return none, false, err
	}
	work := e.r.Scorers(p, metric)
	err = e.r.Grid(ctx, p, 1, contexts.N, func(worker, _, _, c0, c1 int) error {
		return firstAbove(work.Get(worker), &query, &contexts, metric, c0, c1, bias, tau)
	})
	var found witness
	if errors.As(err, &found) {
		return Hit(found), true, nil
	}
	return none, false, err
}

// firstAbove returns the first row of the block that is better than tau, as a witness. A row that cannot be scored is
// an error only if no witness comes before it.
func firstAbove(s *device.Scorer, q, c *device.Operand, metric kernels.Metric, c0, c1 int, bias Biases,
	tau float64) error {
	scores, err := s.Block(q, c, 0, 1, c0, c1)
	if bad := (*device.NonFinite)(nil); errors.As(err, &bad) && bad.Row > c0 {
		if err := firstAbove(s, q, c, metric, c0, bad.Row, bias, tau); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := s.AddBiases(scores, bias, c0); err != nil {
		return err
	}
	for j, x := range scores {
		if metric.Better(x, tau) {
			return witness{Row: c0 + j, Score: x}
		}
	}
	return nil
}

// single checks the arguments of an operation on one query.
func single(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases) (query,
	contexts device.Operand, err error) {
	if err := fill(ctx, &c); err != nil {
		return query, contexts, err
	}
	query, contexts, err = device.Views("query", Vectors{Data: q, Rows: 1, Dim: len(q)}, "contexts", c, metric)
	if err != nil {
		return query, contexts, err
	}
	return query, contexts, device.CheckBias(ctx, 0, bias, c.Rows)
}

// Decision is AnyAboveAll's answer for one query: whether any row is above, with a witness or {−1, Worst()}, and how
// many rows needed their canonical score.
type Decision struct {
	Hit
	Above     bool
	Survivors int64
}

// MaxAll returns each query's best row of c, or {−1, Worst()} if there is no row. bias is as in TopK.
func (e *Engine) MaxAll(ctx context.Context, q, c Vectors, metric kernels.Metric, bias []Biases) ([]Hit, error) {
	found, err := e.TopK(ctx, q, c, metric, 1, bias)
	if err != nil {
		return nil, err
	}
	best := make([]Hit, len(found))
	for i, h := range found {
		best[i] = decision(h, metric, 0).Hit
	}
	return best, nil
}

// AnyAboveAll decides for each query whether any row's biased score is strictly better than tau. All queries share one
// pass over the rows. bias is as in TopK.
func (e *Engine) AnyAboveAll(ctx context.Context, q, c Vectors, metric kernels.Metric, bias []Biases,
	tau float64) ([]Decision, error) {
	if err := errors.Join(fill(ctx, &q), use(&c)); err != nil {
		return nil, err
	}
	if math.IsNaN(tau) {
		return nil, fmt.Errorf("engine: tau: %w: NaN", kernels.ErrNonFinite)
	}
	out := make([]Decision, q.Rows)
	if snapshotOf(c) != nil {
		found, done, err := e.onGPU(ctx, q, c, metric, 0, tau, bias)
		if x := searched(c, metric); err == nil && !done && x != nil {
			done = true
			found, err = x.AnyAboveAll(ctx, q, bias, tau)
		}
		if err != nil {
			return nil, err
		}
		if done {
			for i, f := range found {
				out[i] = decision(f.Hits, metric, f.Survivors)
			}
			return out, nil
		}
	}
	best, err := e.TopK(ctx, q, c, metric, 1, bias)
	if err != nil {
		return nil, err
	}
	for i, h := range best {
		if len(h) > 0 && !metric.Better(h[0].Score, tau) {
			h = nil
		}
		out[i] = decision(h, metric, int64(c.Rows))
	}
	return out, nil
}

// decision returns the answer for a query with at most one row above.
func decision(above []Hit, metric kernels.Metric, survivors int64) Decision {
	if len(above) == 0 {
		return Decision{Hit: Hit{Row: -1, Score: metric.Worst()}, Survivors: survivors}
	}
	return Decision{Hit: above[0], Above: true, Survivors: survivors}
}
