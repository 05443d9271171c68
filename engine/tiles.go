package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
)

const (
	// tileWork is the multiply-adds of a task: 0.3 ms with AVX-512, 3 ms with SSE2, so that
	// cancellation and hand-over of cores come soon and scheduling costs nothing.
	tileWork = 8 << 20
	// panelBytes is what a block of contexts may take of the second-level cache.
	panelBytes = 512 << 10
)

// plan is how an operation is cut: blocks of queries × contexts, contexts in spans of blocks per task.
type plan struct {
	queries, contexts int // rows per block
	span              int // blocks of contexts per task
	workers           int
}

// plan chooses the blocks for m × n pairs and as many workers as the memory limit has scratch for.
// fixed is what the operation needs besides, perWorker per worker besides its block, in bytes.
func (e *Engine) plan(m, n, dim int, fixed, perWorker int64) (plan, error) {
	p := plan{contexts: bound(panelBytes/4/dim, 16, 1024)}
	p.queries = bound(tileWork/(p.contexts*dim), 8, 128)
	p.queries = min(p.queries, max(1, ceil(m, e.threads)))
	if e.tileRows > 0 {
		p.queries, p.contexts = e.tileRows, e.tileRows
	}
	p.queries, p.contexts = min(p.queries, m), min(p.contexts, n)
	free := e.memLimit - fixed
	for p.need()+perWorker > free {
		switch {
		case e.tileRows == 0 && p.queries > 8:
			p.queries /= 2
		case e.tileRows == 0 && p.contexts > 16:
			p.contexts /= 2
		default:
			return p, fmt.Errorf("engine: %w: %d bytes; %d×%d vectors of dimension %d need at least %d",
				kernels.ErrMemoryLimit, e.memLimit, m, n, dim, fixed+perWorker+p.need())
		}
	}
	p.span = max(1, tileWork/(p.queries*p.contexts*dim))
	p.workers = int(min(int64(e.threads), free/(p.need()+perWorker)))
	return p, nil
}

// need is the scratch of one worker: scores and norms of a block.
func (p plan) need() int64 { return 8 * (int64(p.queries)*int64(p.contexts) + int64(p.contexts)) }

func ceil(a, b int) int { return (a + b - 1) / b }

func bound(x, low, high int) int { return min(max(x, low), high) }

// each runs fn for the tasks 0, 1, … tasks−1 on at most workers goroutines, each with a token of the
// CPU budget and a worker number below workers of its own; it grows when tokens become free. The
// error of the lowest failing task wins, and all tasks below it have run: what comes back does not
// depend on the threads. It returns when no goroutine is left.
func (e *Engine) each(ctx context.Context, tasks, workers int, fn func(worker, task int) error) error {
	_, release, err := e.cores.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	g := &gang{e: e, ctx: ctx, fn: fn, workers: workers, running: 1, limit: tasks}
	g.work(0, release)
	g.wait.Wait()
	if g.err == nil && g.next < g.limit {
		return ctx.Err()
	}
	return g.err
}

type gang struct {
	e       *Engine
	ctx     context.Context
	fn      func(worker, task int) error
	workers int
	wait    sync.WaitGroup

	mu      sync.Mutex
	running int // workers started so far
	next    int // task to hand out
	limit   int // tasks from here on are not wanted
	err     error
}

func (g *gang) work(worker int, release func()) {
	defer release()
	for {
		g.grow()
		task, ok := g.take()
		if !ok {
			return
		}
		err := g.fn(worker, task)
		if err != nil {
			g.fail(task, err)
		}
		if g.e.cores.Yield(g.ctx) != nil {
			return
		}
	}
}

// grow starts another worker if there is a task and a token for it.
func (g *gang) grow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running >= g.workers || g.limit-g.next < 2 {
		return
	}
	release, ok := g.e.cores.TryAcquire()
	if !ok {
		return
	}
	worker := g.running
	g.running++
	g.wait.Go(func() { g.work(worker, release) })
}

func (g *gang) take() (task int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next >= g.limit || g.ctx.Err() != nil {
		return 0, false
	}
	g.next++
	return g.next - 1, true
}

func (g *gang) fail(task int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if task < g.limit {
		g.limit, g.err = task, err
	}
}

// scorer computes blocks of canonical scores in scratch memory of its own.
type scorer struct {
	e      *Engine
	metric kernels.Metric
	scores []float64
	norms  []float64
}

func (e *Engine) scorer(p plan, metric kernels.Metric) *scorer {
	return &scorer{e, metric, make([]float64, p.queries*p.contexts), make([]float64, p.contexts)}
}

// block returns the scores of q's rows [q0, q1), which is ready, against c's rows [c0, c1): row i's
// begin at i·(c1−c0). Where c is not ready, its rows are checked first.
func (s *scorer) block(q, c *operand, q0, q1, c0, c1 int) ([]float64, error) {
	right, width := c.Slice(c0, c1), c1-c0
	if !c.ready {
		if err := s.e.checkFinite(c, c0, c1); err != nil {
			return nil, err
		}
		if s.metric == kernels.Cosine {
			if err := s.e.kernels.Norms(s.norms, right); err != nil {
				return nil, err
			}
			right.Norms = s.norms[:width]
		}
	}
	out := s.scores[:(q1-q0)*width]
	if err := s.e.kernels.Scores(s.metric, out, width, q.Slice(q0, q1), right); err != nil {
		return nil, err
	}
	return out, nil
}

// scorers hands each worker its own scorer, made when it first asks.
type scorers struct {
	e      *Engine
	p      plan
	metric kernels.Metric
	of     []*scorer
}

func (e *Engine) scorers(p plan, metric kernels.Metric) *scorers {
	return &scorers{e, p, metric, make([]*scorer, p.workers)}
}

func (s *scorers) get(worker int) *scorer {
	if s.of[worker] == nil {
		s.of[worker] = s.e.scorer(s.p, s.metric)
	}
	return s.of[worker]
}

// grid calls fn for each block of the plan: one task is a block of queries × a span of blocks of
// contexts, which fn sees in order.
func (e *Engine) grid(ctx context.Context, p plan, m, n int, fn func(worker, q0, q1, c0, c1 int) error) error {
	step := p.span * p.contexts
	columns := ceil(n, step)
	return e.each(ctx, ceil(m, p.queries)*columns, p.workers, func(worker, task int) error {
		q0 := task / columns * p.queries
		q1 := min(m, q0+p.queries)
		from := task % columns * step
		for c0 := from; c0 < min(n, from+step); c0 += p.contexts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(worker, q0, q1, c0, min(n, c0+p.contexts)); err != nil {
				return err
			}
		}
		return nil
	})
}
