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
	Limit int // Options.Queue
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("llm: %v: %d, the limit; try again later, or open the model with a longer queue",
		ErrBusy, e.Limit)
}

func (e *BusyError) Unwrap() error { return ErrBusy }

// queue hands out things that one request uses at a time. Who waits gets one by priority, then by deadline, then by
// age.
type queue[T any] struct {
	limit int // of those that wait

	mu      sync.Mutex
	free    []T
	waiting waiters[T]
	arrived uint64
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
	if n := len(q.free); n > 0 {
		got := q.free[n-1]
		q.free = q.free[:n-1]
		q.mu.Unlock()
		return got, nil
	}
	if len(q.waiting) >= q.limit {
		q.mu.Unlock()
		return none, &BusyError{Limit: q.limit}
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
	if len(q.waiting) == 0 {
		q.free = append(q.free, t)
		return
	}
	heap.Pop(&q.waiting).(*waiter[T]).ready <- t
}

// length is how many wait.
func (q *queue[T]) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
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
