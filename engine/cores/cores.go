// Package cores is the one CPU budget of the process: an ONNX run takes one token, a kernel
// operation what is free (at least one), the language model asks before it decodes.
package cores

import (
	"context"
	"runtime"
	"sync"
)

// Budget is a number of CPU tokens. Whoever computes holds as many as it keeps threads busy.
// Waiters are served in order of arrival, batch jobs (AsBatch) behind all others.
type Budget struct {
	size int

	mu      sync.Mutex
	free    int
	waiting [classes][]*waiter // each wants at least one token
	passed  int                // how often a batch job that waits was passed since the last one was served
}

type waiter struct {
	want  int
	ready chan int // receives the number granted; buffered, so that granting never blocks
}

// New returns a budget of n tokens; n < 1 means Available().
func New(n int) *Budget {
	if n < 1 {
		n = Available()
	}
	return &Budget{size: n, free: n}
}

// Size returns the number of tokens in all.
func (b *Budget) Size() int { return b.size }

// Acquire takes what is free, at least one token and at most want (less than 1 counts as 1), and
// waits while nothing is. The error is ctx's; without one, release must be called, once or more often.
func (b *Budget) Acquire(ctx context.Context, want int) (granted int, release func(), err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	want = max(want, 1)
	b.mu.Lock()
	if b.free > 0 && b.nobody() {
		granted = min(want, b.free)
		b.free -= granted
		b.mu.Unlock()
		return granted, b.releaser(granted), nil
	}
	w := &waiter{want: want, ready: make(chan int, 1)}
	c := classOf(ctx)
	b.waiting[c] = append(b.waiting[c], w)
	b.mu.Unlock()

	select {
	case granted = <-w.ready:
		return granted, b.releaser(granted), nil
	case <-ctx.Done():
		b.abandon(w)
		return 0, nil, ctx.Err()
	}
}

// TryAcquire takes one token if one is free and nobody waits for it.
func (b *Budget) TryAcquire() (release func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free < 1 || !b.nobody() {
		return nil, false
	}
	b.free--
	return b.releaser(1), true
}

// Yield is for a long operation between two pieces of work: while somebody waits, it hands over one
// of the caller's tokens and queues behind those who wait for another. A batch job that waits gets the token of an
// interactive one at every 17th call only. After an error, which is ctx's,
// the caller has one token less in use, and still calls release.
func (b *Budget) Yield(ctx context.Context) error {
	b.mu.Lock()
	c := classOf(ctx)
	if !b.yields(c) {
		b.mu.Unlock()
		return ctx.Err()
	}
	w := &waiter{want: 1, ready: make(chan int, 1)}
	b.waiting[c] = append(b.waiting[c], w)
	b.give(1)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return ctx.Err()
	case <-ctx.Done():
		b.abandon(w)
		b.mu.Lock()
		b.free-- // below 0 at times: release will return the token that was handed over
		b.mu.Unlock()
		return ctx.Err()
	}
}

// Contended reports whether somebody waits.
func (b *Budget) Contended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.nobody()
}

// Free returns the number of tokens that nobody holds.
func (b *Budget) Free() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free
}

func (b *Budget) releaser(granted int) func() {
	var once sync.Once
	return func() {
		once.Do(func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.give(granted)
		})
	}
}

// give returns n tokens and serves waiters; b.mu is held.
func (b *Budget) give(n int) {
	b.free += n
	for b.free > 0 && !b.nobody() {
		w := b.next()
		granted := min(w.want, b.free)
		b.free -= granted
		w.ready <- granted
	}
}

// abandon takes a waiter out of the queue, or gives back what it was granted meanwhile.
func (b *Budget) abandon(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c, queue := range b.waiting {
		for i, other := range queue {
			if other == w {
				b.waiting[c] = append(queue[:i:i], queue[i+1:]...)
				return
			}
		}
	}
	b.give(<-w.ready)
}

// Available returns the number of CPUs that this process may keep busy: the least of GOMAXPROCS, the CPU
// affinity and the cgroup's CPU quota, rounded up; at least 1.
func Available() int {
	n := min(runtime.GOMAXPROCS(0), runtime.NumCPU()) // NumCPU is the affinity at the process's start
	if quota, ok := systemQuota(); ok {
		n = min(n, quota)
	}
	return max(n, 1)
}

// Take is Acquire of one token for paths that must not allocate: the token goes back by Give, once.
func (b *Budget) Take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.TryTake() {
		return nil
	}
	b.mu.Lock()
	w := &waiter{want: 1, ready: make(chan int, 1)}
	c := classOf(ctx)
	b.waiting[c] = append(b.waiting[c], w)
	b.give(0) // a token may have come back meanwhile
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		b.abandon(w)
		return ctx.Err()
	}
}

// TryTake takes one token if one is free and nobody waits for it.
func (b *Budget) TryTake() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free < 1 || !b.nobody() {
		return false
	}
	b.free--
	return true
}

// Give returns a token that Take or TryTake took.
func (b *Budget) Give() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(1)
}

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
