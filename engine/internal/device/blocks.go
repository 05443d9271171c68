package device

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

const (
	// TileWork is the multiply-adds of a task: 0.3 ms with AVX-512, 3 ms with SSE2, so that
	// cancellation and hand-over of cores come soon and scheduling costs nothing.
	TileWork = 8 << 20
	// panelBytes is what a block of contexts may take of the second-level cache.
	panelBytes = 512 << 10
)

// Blocks is how an operation on canonical scores is cut: blocks of queries × contexts, contexts in spans of
// blocks per task.
type Blocks struct {
	Queries, Contexts int // rows per block
	Span              int // blocks of contexts per task
	Workers           int
}

// Plan chooses the blocks for m × n pairs and as many workers as the memory limit has scratch for.
// fixed is what the operation needs besides, perWorker per worker besides its block, in bytes.
func (r *Resources) Plan(m, n, dim int, fixed, perWorker int64) (Blocks, error) {
	p := Blocks{Contexts: workers.Clamp(panelBytes/4/dim, 16, 1024)}
	p.Queries = workers.Clamp(TileWork/(p.Contexts*dim), 8, 128)
	p.Queries = min(p.Queries, max(1, workers.Ceil(m, r.Pool.Threads)))
	if r.TileRows > 0 {
		p.Queries, p.Contexts = r.TileRows, r.TileRows
	}
	p.Queries, p.Contexts = min(p.Queries, m), min(p.Contexts, n)
	free := r.MemLimit - fixed
	for p.Bytes()+perWorker > free {
		switch {
		case r.TileRows == 0 && p.Queries > 8:
			p.Queries /= 2
		case r.TileRows == 0 && p.Contexts > 16:
			p.Contexts /= 2
		default:
			return p, fmt.Errorf("engine: %w: %d bytes; %d×%d vectors of dimension %d need at least %d",
				kernels.ErrMemoryLimit, r.MemLimit, m, n, dim, fixed+perWorker+p.Bytes())
		}
	}
	p.Span = max(1, TileWork/(p.Queries*p.Contexts*dim))
	p.Workers = int(min(int64(r.Pool.Threads), free/(p.Bytes()+perWorker)))
	return p, nil
}

// Bytes returns the scratch of one worker: scores and norms of a block.
func (p Blocks) Bytes() int64 { return 8 * (int64(p.Queries)*int64(p.Contexts) + int64(p.Contexts)) }

// Scorer computes blocks of canonical scores in scratch memory of its own.
type Scorer struct {
	r      *Resources
	metric kernels.Metric
	scores []float64
	norms  []float64
	biases []float32
}

func (r *Resources) scorer(p Blocks, metric kernels.Metric) *Scorer {
	return &Scorer{r: r, metric: metric, scores: make([]float64, p.Queries*p.Contexts),
		norms: make([]float64, p.Contexts)}
}

// Block returns the scores of q's rows [q0, q1), which is ready, against c's rows [c0, c1): row i's
// begin at i·(c1−c0). Where c is not ready, its rows are checked first.
func (s *Scorer) Block(q, c *Operand, q0, q1, c0, c1 int) ([]float64, error) {
	right, width := c.Slice(c0, c1), c1-c0
	if !c.Ready {
		if err := s.r.CheckFinite(c, c0, c1); err != nil {
			return nil, err
		}
		if s.metric == kernels.Cosine {
			if err := scores.Norms(s.r.Host, s.norms, right); err != nil {
				return nil, err
			}
			right.Norms = s.norms[:width]
		}
	}
	out := s.scores[:(q1-q0)*width]
	if err := s.r.Scores(s.metric, out, width, q.Slice(q0, q1), right); err != nil {
		return nil, err
	}
	return out, nil
}

// AddBiases adds the biases of the rows from c0 on to their scores.
func (s *Scorer) AddBiases(scores []float64, biases kernels.Biases, c0 int) error {
	if biases != nil && s.biases == nil {
		s.biases = make([]float32, MaxBlock)
	}
	return AddBiases(scores, s.metric, biases, c0, s.biases)
}

// Scorers hands each worker its own scorer, made when it first asks.
type Scorers struct {
	r      *Resources
	p      Blocks
	metric kernels.Metric
	of     []*Scorer
}

// Scorers makes room for the plan's workers.
func (r *Resources) Scorers(p Blocks, metric kernels.Metric) *Scorers {
	return &Scorers{r, p, metric, make([]*Scorer, p.Workers)}
}

// Get returns a worker's.
func (s *Scorers) Get(worker int) *Scorer {
	if s.of[worker] == nil {
		s.of[worker] = s.r.scorer(s.p, s.metric)
	}
	return s.of[worker]
}

// Grid calls fn for each block of the plan: one task is a block of queries × a span of blocks of
// contexts, which fn sees in order.
func (r *Resources) Grid(ctx context.Context, p Blocks, m, n int, fn func(worker, q0, q1, c0, c1 int) error) error {
	step := p.Span * p.Contexts
	columns := workers.Ceil(n, step)
	return r.Pool.Each(ctx, workers.Ceil(m, p.Queries)*columns, p.Workers, func(worker, task int) error {
		q0 := task / columns * p.Queries
		q1 := min(m, q0+p.Queries)
		from := task % columns * step
		for c0 := from; c0 < min(n, from+step); c0 += p.Contexts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(worker, q0, q1, c0, min(n, c0+p.Contexts)); err != nil {
				return err
			}
		}
		return nil
	})
}
