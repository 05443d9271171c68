package cores

import "context"

// class is what a caller waits in: those of a lower one are served first.
type class int

const (
	interactive class = iota
	batch
	classes
)

// maxPassed is how often somebody who came later may be served before a batch job that waits: it goes on slowly, but
// on.
const maxPassed = 16

type batchKey struct{}

// AsBatch marks the work under a context as a batch job: whoever is not one gets the next free core before it.
func AsBatch(ctx context.Context) context.Context { return context.WithValue(ctx, batchKey{}, true) }

// IsBatch tells whether the work under a context is a batch job.
func IsBatch(ctx context.Context) bool { return ctx.Value(batchKey{}) != nil }

func classOf(ctx context.Context) class {
	if IsBatch(ctx) {
		return batch
	}
	return interactive
}

// nobody tells whether no one waits; b.mu is held.
func (b *Budget) nobody() bool { return len(b.waiting[interactive])+len(b.waiting[batch]) == 0 }

// next takes who is served next out of the queues; nil when nobody waits. b.mu is held.
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

// yields tells whether a holder of a class hands over to somebody who waits; b.mu is held.
func (b *Budget) yields(c class) bool {
	if c == batch || len(b.waiting[interactive]) > 0 {
		return !b.nobody()
	}
	if len(b.waiting[batch]) == 0 {
		return false
	}
	b.passed++ // whoever holds on passes those who wait, too
	return b.passed > maxPassed
}
