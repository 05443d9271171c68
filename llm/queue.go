package llm

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"
)

// BusyError says how many requests wait. It unwraps to ErrBusy.
type BusyError struct {
	Limit int           // Options.Queue
	Retry time.Duration // after which the waiting requests will about have begun, by the last ones; at least a second
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("llm: %v: %d, the limit; try again in about %v, or open the model with a longer queue",
		ErrBusy, e.Limit, e.Retry.Round(time.Second))
}

// RetryAfter is Retry, for servers.
func (e *BusyError) RetryAfter() time.Duration { return e.Retry }

func (e *BusyError) Unwrap() error { return ErrBusy }

const (
	// interactiveFor is how long after an interactive request one thing is kept free for the next one.
	interactiveFor = 30 * time.Second
	maxRetry       = time.Minute
	// recent is how much the last use counts in the mean of their durations.
	recent = .2
)

// queue hands out things that one request uses at a time: by priority, then by deadline, then by age. While interactive
// requests come, batch requests leave one thing free for the next of them, where there are several.
type queue[T any] struct {
	limit int // of waiting requests
	size  int // things in all; 0: batch requests get the last one, too

	mu          sync.Mutex
	free        []T
	waiting     []*waiter[T]  // in the order of their turns
	interactive time.Time     // when the last such request came
	mean        time.Duration // of a use, the last ones more than those before; 0: none has ended
	refused     int64
}

// mayHave reports whether a request may have a thing that is free; q.mu is held.
func (q *queue[T]) mayHave(priority int) bool {
	keep := 0
	if priority < 0 && q.size > 1 && time.Since(q.interactive) < interactiveFor {
		keep = 1
	}
	return len(q.free) > keep
}

func (q *queue[T]) used(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mean == 0 {
		q.mean = d
	} else {
		q.mean += time.Duration(recent * float64(d-q.mean))
	}
}

// busy returns the error of a request that cannot wait; q.mu is held.
func (q *queue[T]) busy() *BusyError {
	retry := q.mean * time.Duration(len(q.waiting)+1) / time.Duration(max(1, q.size))
	return &BusyError{Limit: q.limit, Retry: min(max(retry, time.Second), maxRetry)}
}

// full returns a *BusyError while one more request could not wait.
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
	ready    chan T    // holds what it got
}

// after orders a waiter that comes now: whether it gets its turn after another one, which was there before.
func (w *waiter[T]) after(other *waiter[T]) bool {
	if w.priority != other.priority {
		return w.priority < other.priority
	}
	return w.deadline.IsZero() || !other.deadline.IsZero() && !w.deadline.Before(other.deadline)
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
		q.interactive = time.Now()
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
	w := &waiter[T]{priority: priority, ready: make(chan T, 1)}
	w.deadline, _ = ctx.Deadline()
	at := sort.Search(len(q.waiting), func(i int) bool { return !w.after(q.waiting[i]) })
	q.waiting = slices.Insert(q.waiting, at, w)
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
	at = slices.Index(q.waiting, w)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	q.mu.Unlock()
	if at < 0 {
		q.give(<-w.ready) // it came at the same moment
	}
	return none, err
}

// give returns something, or adds it.
func (q *queue[T]) give(t T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, t)
	for len(q.waiting) > 0 && q.mayHave(q.waiting[0].priority) {
		first := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		first.ready <- q.pop()
	}
}

// pop takes a free thing; q.mu is held.
func (q *queue[T]) pop() T {
	last := len(q.free) - 1
	got := q.free[last]
	q.free = q.free[:last]
	return got
}

func (q *queue[T]) count(s *Stats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Queued += len(q.waiting)
	s.QueueLimit, s.Slots, s.Refused, s.MeanTime = q.limit, q.size, q.refused, q.mean
}
