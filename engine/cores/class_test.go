package cores

import (
	"context"
	"slices"
	"sync"
	"testing"
)

// queueUp has waiters of the classes in a line ("b" batch, "i" interactive) wait one after the other, and returns what
// gives the order in which they were served once all have gone.
func queueUp(t *testing.T, b *Budget, line string) (served func() string) {
	t.Helper()
	var order []byte
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range line {
		ctx := context.Background()
		if line[i] == 'b' {
			ctx = AsBatch(ctx)
		}
		before := waiters(b)
		all.Go(func() {
			_, release, err := b.Acquire(ctx, 1)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, line[i])
			mu.Unlock()
			release()
		})
		waitFor(t, func() bool { return waiters(b) == before+1 })
	}
	return func() string {
		all.Wait()
		return string(order)
	}
}

func waiters(b *Budget) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting[interactive]) + len(b.waiting[batch])
}

func TestInteractiveBeforeBatch(t *testing.T) {
	for line, want := range map[string]string{
		"bbibi":                    "iibbb",
		"ibib":                     "iibb",
		"b" + repeat("i", 20):      repeat("i", 16) + "b" + repeat("i", 4), // a batch job goes on, slowly
		"bb" + repeat("i", 2*16+2): repeat("i", 16) + "b" + repeat("i", 16) + "b" + repeat("i", 2),
	} {
		b := New(1)
		_, release, err := b.Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		served := queueUp(t, b, line)
		release()
		if got := served(); got != want {
			t.Errorf("%s was served as %s, want %s", line, got, want)
		}
	}
}

func repeat(s string, n int) string { return string(slices.Repeat([]byte(s), n)) }

// TestYieldByClass: a batch job hands its core to who asks interactively, at once; an interactive one keeps it from
// batch jobs, but for every 17th time.
func TestYieldByClass(t *testing.T) {
	for _, c := range []struct {
		name, waits string
		ctx         context.Context
		yields      int // until the one who waits is served
	}{
		{"batch to interactive", "i", AsBatch(t.Context()), 1},
		{"batch to batch", "b", AsBatch(t.Context()), 1},
		{"interactive to interactive", "i", t.Context(), 1},
		{"interactive to batch", "b", t.Context(), 17},
	} {
		b := New(1)
		_, release, err := b.Acquire(c.ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		served := queueUp(t, b, c.waits)
		n := 0
		for ; waiters(b) > 0 && n < 100; n++ {
			if err := b.Yield(c.ctx); err != nil {
				t.Fatal(err)
			}
		}
		served()
		release()
		if n != c.yields || b.Free() != 1 {
			t.Errorf("%s: served after %d calls of Yield, want %d; %d free", c.name, n, c.yields, b.Free())
		}
	}
}

// A waiter leaves when its context ends, whatever it waits in.
func TestBatchWaiterHonoursItsContext(t *testing.T) {
	b := New(1)
	_, release, err := b.Acquire(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(AsBatch(t.Context()))
	gone := make(chan error)
	go func() { gone <- b.Take(ctx) }()
	waitFor(t, b.Contended)
	cancel()
	if err := <-gone; err == nil {
		t.Error("a cancelled batch job got a core")
	}
	release()
	if b.Free() != 1 || b.Contended() {
		t.Errorf("%d free", b.Free())
	}
}
