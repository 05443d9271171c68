// Package workers is the worker pool of the engine: it runs numbered tasks on goroutines, each of which
// holds a token of the process's CPU budget while it computes, and reports progress.
package workers

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/panics"
)

// Pool runs tasks on at most Threads goroutines within the CPU budget. It holds no goroutine between calls.
type Pool struct {
	Budget  *cores.Budget
	Threads int
}

// Each runs fn for the tasks 0, 1, … tasks−1 on at most `workers` goroutines (0 means p.Threads), each with
// a token of the CPU budget and a worker number below `workers` of its own; it adds goroutines when tokens
// become free. The error of the lowest failing task wins, and all tasks below it have run: what comes back
// does not depend on the threads. It returns when no goroutine is left.
func (p *Pool) Each(ctx context.Context, tasks, workers int, fn func(worker, task int) error) error {
	_, release, err := p.Budget.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	if workers == 0 {
		workers = p.Threads
	}
	r := &run{budget: p.Budget, ctx: ctx, fn: fn, workers: workers, running: 1, limit: tasks}
	r.work(0, release)
	r.wait.Wait()
	if r.err == nil && r.next < r.limit {
		return ctx.Err()
	}
	return r.err
}

// Ranges calls fn for each of n items, in tasks of 256 items.
func (p *Pool) Ranges(ctx context.Context, n int, fn func(i int)) error {
	const block = 256
	return p.Each(ctx, Ceil(n, block), 0, func(_, task int) error {
		for i := task * block; i < min(n, (task+1)*block); i++ {
			fn(i)
		}
		return nil
	})
}

// run is one call of Each.
type run struct {
	budget  *cores.Budget
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

func (r *run) work(worker int, release func()) {
	defer release()
	for {
		r.grow()
		task, ok := r.take()
		if !ok {
			return
		}
		err := r.do(worker, task)
		if err != nil {
			r.fail(task, err)
		}
		if r.budget.Yield(r.ctx) != nil {
			return
		}
	}
}

// do is fn, whose panic is the task's error: on a goroutine of ours it would end the process.
func (r *run) do(worker, task int) (err error) {
	defer panics.Into(&err)
	return r.fn(worker, task)
}

// grow starts another worker if there is a task and a token for it.
func (r *run) grow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running >= r.workers || r.limit-r.next < 2 {
		return
	}
	release, ok := r.budget.TryAcquire()
	if !ok {
		return
	}
	worker := r.running
	r.running++
	r.wait.Go(func() { r.work(worker, release) })
}

func (r *run) take() (task int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next >= r.limit || r.ctx.Err() != nil {
		return 0, false
	}
	r.next++
	return r.next - 1, true
}

func (r *run) fail(task int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if task < r.limit {
		r.limit, r.err = task, err
	}
}

// Ceil returns a/b, rounded up.
func Ceil(a, b int) int { return (a + b - 1) / b }

// Clamp is x, or the end of [low, high] that it lies beyond.
func Clamp(x, low, high int) int { return min(max(x, low), high) }

// Stretch is how many items are gone over at most between two looks at the context.
const Stretch = 1 << 16

// Over calls fn for the ranges of at most Stretch items that make up [0, n), in order, and looks at the context before
// each of them.
func Over(ctx context.Context, n int, fn func(from, to int)) error {
	for from := 0; from < n; from += Stretch {
		if err := ctx.Err(); err != nil {
			return err
		}
		fn(from, min(n, from+Stretch))
	}
	return ctx.Err()
}

// Sort sorts a list on the pool's goroutines. Items that compare as equal come in any order, the same one whatever the
// number of threads. It takes memory for a second list; after an error the list holds anything.
func Sort[T any](ctx context.Context, p *Pool, list []T, compare func(a, b T) int) error {
	n := len(list)
	err := p.Each(ctx, Ceil(n, Stretch), 0, func(_, task int) error {
		slices.SortFunc(list[task*Stretch:min(n, (task+1)*Stretch)], compare)
		return nil
	})
	if err != nil || n <= Stretch {
		return err
	}
	from, to := list, make([]T, n)
	for size := Stretch; size < n; size *= 2 {
		err := p.Each(ctx, Ceil(n, 2*size), 0, func(_, task int) error {
			begin := task * 2 * size
			middle, end := min(begin+size, n), min(begin+2*size, n)
			return merge(ctx, from[begin:middle], from[middle:end], to[begin:end], compare)
		})
		if err != nil {
			return err
		}
		from, to = to, from
	}
	if &from[0] == &list[0] {
		return nil
	}
	return Over(ctx, n, func(begin, end int) { copy(list[begin:end], from[begin:end]) })
}

// merge merges two sorted lists into out.
func merge[T any](ctx context.Context, a, b, out []T, compare func(a, b T) int) error {
	return Over(ctx, len(out), func(from, to int) {
		for i := from; i < to; i++ {
			if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
				out[i], a = a[0], a[1:]
			} else {
				out[i], b = b[0], b[1:]
			}
		}
	})
}

// Meter reports progress from one goroutine at a time. A nil Meter reports nothing.
type Meter struct {
	report func(done, total int64)

	mu          sync.Mutex
	done, total int64
}

// NewMeter counts up to total; report may be nil.
func NewMeter(report func(done, total int64), total int64) *Meter {
	return &Meter{report: report, total: total}
}

// Add counts n more; what is done again counts once.
func (m *Meter) Add(n int64) {
	if m == nil || m.report == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = min(m.done+n, m.total)
	m.report(m.done, m.total)
}

// End says that all is done, whatever was left out.
func (m *Meter) End() {
	if m != nil && m.done < m.total {
		m.Add(m.total - m.done)
	}
}
