package cores

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestTakeAndGive(t *testing.T) {
	b, ctx := New(2), context.Background()
	if err := b.Take(ctx); err != nil || !b.TryTake() || b.TryTake() {
		t.Fatalf("two tokens and no third: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if err := b.Take(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("nothing is free: %v", err)
	}
	got := make(chan error)
	go func() { got <- b.Take(ctx) }()
	for !b.Contended() {
		time.Sleep(time.Millisecond)
	}
	b.Give()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if b.TryTake() {
		t.Fatal("a token that was handed over is free")
	}
	b.Give()
	b.Give()
	if b.Free() != 2 {
		t.Fatalf("%d free, want 2", b.Free())
	}
	if allocs := testing.AllocsPerRun(100, func() {
		if b.Take(ctx) == nil {
			b.Give()
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
