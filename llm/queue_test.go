package llm

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func (q *queue[T]) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

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

// TestQueueKeepsOneForInteractive: while interactive requests come, batch requests do not take the last slot, and get
// it when none has come for a while.
func TestQueueKeepsOneForInteractive(t *testing.T) { synctest.Test(t, keepsOneForInteractive) }

func keepsOneForInteractive(t *testing.T) {
	q := &queue[int]{limit: 10, size: 2}
	take := func(priority int) int {
		t.Helper()
		got, err := q.take(t.Context(), nil, priority)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	waits := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		got, err := q.take(ctx, nil, Batch)
		if err == nil {
			q.give(got)
		}
		return err != nil
	}
	q.give(1)
	q.give(2)
	a, b := take(Batch), take(Batch) // no interactive request has come
	q.give(a)
	q.give(b)
	q.give(take(Interactive))
	a = take(Batch)
	if !waits() {
		t.Error("a batch request took the last slot")
	}
	b = take(Interactive) // at once
	q.give(b)
	time.Sleep(interactiveFor)
	b = take(Batch)
	q.give(a)
	q.give(b)

	// A batch request that waits gets its slot as soon as one more than the kept one is free.
	q.give(take(Interactive))
	a, b = take(0), take(0)
	served := line(t, q, []func(context.Context) (context.Context, int){
		func(ctx context.Context) (context.Context, int) { return ctx, Batch }})
	q.give(a)
	select {
	case <-served:
		t.Error("a batch request was given the last slot")
	case <-time.After(20 * time.Millisecond):
	}
	q.give(b)
	<-served
}

// TestQueueRetry: the estimate grows with what requests take and with how many wait, and has bounds.
func TestQueueRetry(t *testing.T) {
	q := &queue[int]{limit: 3, size: 2}
	refuse := func() time.Duration {
		t.Helper()
		_, err := q.take(t.Context(), nil, 0)
		var busy *BusyError
		if !errors.As(err, &busy) || !errors.Is(err, ErrBusy) || busy.RetryAfter() != busy.Retry {
			t.Fatal(err)
		}
		return busy.Retry
	}
	plain := func(ctx context.Context) (context.Context, int) { return ctx, 0 }
	served := line(t, q, []func(context.Context) (context.Context, int){plain, plain, plain})
	if d := refuse(); d != time.Second || !errors.Is(q.full(), ErrBusy) {
		t.Error("nothing has ended yet:", d, q.full())
	}
	q.used(10 * time.Second)
	if d := refuse(); d != 20*time.Second { // four that take 10 s each, in two slots
		t.Error(d)
	}
	q.used(5 * time.Second)
	if d := refuse(); d != 18*time.Second {
		t.Error(d)
	}
	q.used(time.Hour)
	if d := refuse(); d != maxRetry {
		t.Error(d)
	}
	for range 3 {
		q.give(0)
		<-served
	}
	var s Stats
	if q.count(&s); s.Refused != 4 || s.Slots != 2 || s.QueueLimit != 3 || s.Queued != 0 || q.full() != nil {
		t.Errorf("%+v, %v", s, q.full())
	}
}
