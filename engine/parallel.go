package engine

import "context"

// Parallel runs fn for the tasks 0, 1, … tasks−1 on the engine's threads, within the CPU budget: for what an
// adapter has to do around an operation. Tasks take turns best at 0.1 to 10 ms. The error of the lowest failing task
// wins; it returns when no goroutine is left.
func (e *Engine) Parallel(ctx context.Context, tasks int, fn func(task int) error) error {
	return e.each(ctx, tasks, e.threads, func(_, task int) error { return fn(task) })
}
