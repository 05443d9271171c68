package cores

import "context"

// class is the priority of a caller in the queue; lower classes are served first.
type class int

const (
	interactive class = iota
	batch
	classes
)

// maxPassed is how many later callers may be served before a waiting batch job, so that batch jobs are slowed down but
// not starved.
const maxPassed = 16

type batchKey struct{}

// AsBatch marks the work under a context as a batch job: all other work gets free cores first.
func AsBatch(ctx context.Context) context.Context { return context.WithValue(ctx, batchKey{}, true) }

// IsBatch reports whether the work under a context is a batch job.
func IsBatch(ctx context.Context) bool { return ctx.Value(batchKey{}) != nil }

func classOf(ctx context.Context) class {
	if IsBatch(ctx) {
		return batch
	}
	return interactive
}

// nobody reports whether the queues are empty; b.mu is held.
func (b *Budget) nobody() bool { return len(b.waiting[interactive])+len(b.waiting[batch]) == 0 }

// next removes the next waiter from the queues and returns it; nil if the queues are empty. b.mu is held.
func (b *Budget) next() *waiter {
	c := interactive
	switch {
	case b.nobody():
		return nil
	case len(b.waiting[interactive]) == 0, len(b.waiting[batch]) > 0 && b.passed >= maxPassed:
		c, b.passed = batch, 0
	case len(b.waiting[batch]) > 0:
		b.passed++
	}
	w := b.waiting[c][0]
	b.waiting[c] = b.waiting[c][1:]
	return w
}

// yields reports whether a holder of the given class must hand its token to a waiter; b.mu is held.
func (b *Budget) yields(c class) bool {
	if c == batch || len(b.waiting[interactive]) > 0 {
		return !b.nobody()
	}
	if len(b.waiting[batch]) == 0 {
		return false
	}
	b.passed++ // a holder that continues also passes the waiters
	return b.passed > maxPassed
}
