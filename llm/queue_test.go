package llm

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// line starts requests that wait one after the other and returns what tells in which order they were served.
func line(t *testing.T, q *queue[int], requests []func(context.Context) (context.Context, int)) chan int {
	t.Helper()
	served := make(chan int, len(requests))
	for i, request := range requests {
		ctx, priority := request(t.Context())
		go func() {
			if _, err := q.take(ctx, nil, priority); err != nil {
				t.Error(err)
			}
			served <- i
		}()
		for q.length() != i+1 {
			time.Sleep(time.Millisecond)
		}
	}
	return served
}

func TestQueueOrder(t *testing.T) {
	q := &queue[int]{limit: 10}
	within := func(d time.Duration, priority int) func(context.Context) (context.Context, int) {
		return func(ctx context.Context) (context.Context, int) {
			ctx, cancel := context.WithTimeout(ctx, d)
			t.Cleanup(cancel)
			return ctx, priority
		}
	}
	plain := func(priority int) func(context.Context) (context.Context, int) {
		return func(ctx context.Context) (context.Context, int) { return ctx, priority }
	}
	served := line(t, q, []func(context.Context) (context.Context, int){
		plain(Batch), plain(0), plain(0), within(time.Hour, 0), within(time.Minute, 0), plain(Interactive),
		within(time.Minute, Batch),
	})
	for _, want := range []int{5, 4, 3, 1, 2, 6, 0} {
		q.give(0)
		if got := <-served; got != want {
			t.Errorf("served %d, want %d", got, want)
		}
	}
}

func TestQueueLimit(t *testing.T) {
	for _, limit := range []int{0, 2} {
		q := &queue[int]{limit: limit}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range limit {
			waiting.Go(func() {
				if _, err := q.take(ctx, nil, 0); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			for q.length() != i+1 {
				time.Sleep(time.Millisecond)
			}
		}
		var busy *BusyError
		if _, err := q.take(ctx, nil, 0); !errors.As(err, &busy) || busy.Limit != limit || !errors.Is(err, ErrBusy) {
			t.Errorf("limit %d: %v", limit, err)
		}
		cancel()
		waiting.Wait()
		if _, err := q.take(ctx, nil, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("limit %d, cancelled: %v", limit, err)
		}
	}
}

// TestQueueLosesNothing: whatever comes at the same moment, every thing is served to one request at a time and comes
// back.
func TestQueueLosesNothing(t *testing.T) {
	const things, requests = 3, 2000
	q := &queue[int]{limit: requests}
	for i := range things {
		q.give(i)
	}
	var used [things]sync.Mutex
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*time.Microsecond)
			defer cancel()
			if i%3 == 0 {
				ctx = t.Context()
			}
			thing, err := q.take(ctx, nil, i%5)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			if !used[thing].TryLock() {
				t.Error("served twice at a time")
				return
			}
			used[thing].Unlock()
			q.give(thing)
		})
	}
	all.Wait()
	closing := make(chan struct{})
	close(closing)
	if _, err := q.take(t.Context(), closing, 0); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if len(q.free) != things || q.length() != 0 {
		t.Errorf("%d of %d are back, %d wait", len(q.free), things, q.length())
	}
}
