package llm

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"
)

// BusyError says how many requests wait. It unwraps to ErrBusy.
type BusyError struct {
	Limit int           // Options.Queue
	Retry time.Duration // in about which time those that wait will have begun, by the last requests; at least a second
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("llm: %v: %d, the limit; try again in about %v, or open the model with a longer queue",
		ErrBusy, e.Limit, e.Retry.Round(time.Second))
}

// RetryAfter is Retry, for servers.
func (e *BusyError) RetryAfter() time.Duration { return e.Retry }

func (e *BusyError) Unwrap() error { return ErrBusy }

const (
	// interactiveFor is how long after an interactive request the next one is expected: one thing is kept for it then.
	interactiveFor = 30 * time.Second
	maxRetry       = time.Minute
	// recent is how much the last use counts in the mean of their durations.
	recent = .2
)

// queue hands out things that one request uses at a time. Who waits gets one by priority, then by deadline, then by
// age. While interactive requests come, batch requests leave one thing free for the next of them, where there are
// several.
type queue[T any] struct {
	limit int              // of those that wait
	size  int              // things in all; 0: batch requests get the last one, too
	now   func() time.Time // nil: time.Now

	mu          sync.Mutex
	free        []T
	waiting     waiters[T]
	arrived     uint64
	interactive time.Time     // when the last such request came
	mean        time.Duration // of a use, the last ones more than those before; 0: none has ended
	refused     int64
}

func (q *queue[T]) clock() time.Time {
	if q.now == nil {
		return time.Now()
	}
	return q.now()
}

// mayHave tells whether a request may have a thing that is free; q.mu is held.
func (q *queue[T]) mayHave(priority int) bool {
	keep := 0
	if priority < 0 && q.size > 1 && !q.interactive.IsZero() && q.clock().Sub(q.interactive) < interactiveFor {
		keep = 1
	}
	return len(q.free) > keep
}

// used says how long a use took.
func (q *queue[T]) used(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mean == 0 {
		q.mean = d
	} else {
		q.mean += time.Duration(recent * float64(d-q.mean))
	}
}

// busy is the error of one that cannot wait; q.mu is held.
func (q *queue[T]) busy() *BusyError {
	retry := q.mean * time.Duration(len(q.waiting)+1) / time.Duration(max(1, q.size))
	return &BusyError{Limit: q.limit, Retry: min(max(retry, time.Second), maxRetry)}
}

// full is a *BusyError while one more request could not wait.
func (q *queue[T]) full() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.free) == 0 && len(q.waiting) >= q.limit {
		return q.busy()
	}
	return nil
}

type waiter[T any] struct {
	priority int
	deadline time.Time // zero: none
	arrival  uint64
	at       int    // in the heap; -1: no longer there
	ready    chan T // holds what it got
}

// take waits for something free. It returns ctx's error, ErrClosed once closing is closed, or a *BusyError.
func (q *queue[T]) take(ctx context.Context, closing <-chan struct{}, priority int) (T, error) {
	var none T
	select {
	case <-closing:
		return none, ErrClosed
	case <-ctx.Done():
		return none, ctx.Err()
	default:
	}
	q.mu.Lock()
	if priority >= Interactive {
		q.interactive = q.clock()
	}
	if q.mayHave(priority) {
		got := q.pop()
		q.mu.Unlock()
		return got, nil
	}
	if len(q.waiting) >= q.limit {
		defer q.mu.Unlock()
		q.refused++
		return none, q.busy()
	}
	q.arrived++
	w := &waiter[T]{priority: priority, arrival: q.arrived, ready: make(chan T, 1)}
	w.deadline, _ = ctx.Deadline()
	heap.Push(&q.waiting, w)
	q.mu.Unlock()

	var err error
	select {
	case got := <-w.ready:
		return got, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-closing:
		err = ErrClosed
	}
	q.mu.Lock()
	if w.at >= 0 {
		heap.Remove(&q.waiting, w.at)
		q.mu.Unlock()
		return none, err
	}
	q.mu.Unlock()
	q.give(<-w.ready) // it came at the same moment
	return none, err
}

// give returns something, or adds it.
func (q *queue[T]) give(t T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, t)
	for len(q.waiting) > 0 && q.mayHave(q.waiting[0].priority) {
		heap.Pop(&q.waiting).(*waiter[T]).ready <- q.pop()
	}
}

// pop takes what is free; q.mu is held.
func (q *queue[T]) pop() T {
	last := len(q.free) - 1
	got := q.free[last]
	q.free = q.free[:last]
	return got
}

// length is how many wait.
func (q *queue[T]) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// count adds what the queue knows to s.
func (q *queue[T]) count(s *Stats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Queued += len(q.waiting)
	s.QueueLimit, s.Slots, s.Refused, s.MeanTime = q.limit, q.size, q.refused, q.mean
}

type waiters[T any] []*waiter[T]

func (w waiters[T]) Len() int { return len(w) }

func (w waiters[T]) Less(i, j int) bool {
	a, b := w[i], w[j]
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case !a.deadline.Equal(b.deadline):
		return b.deadline.IsZero() || !a.deadline.IsZero() && a.deadline.Before(b.deadline)
	}
	return a.arrival < b.arrival
}

func (w waiters[T]) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = i, j
}

func (w *waiters[T]) Push(x any) {
	x.(*waiter[T]).at = len(*w)
	*w = append(*w, x.(*waiter[T]))
}

func (w *waiters[T]) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	x.at = -1
	return x
}
