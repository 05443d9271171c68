package sluice

import (
	"context"
	"errors"
	"testing"
)

// TestLazyWaitersHonourTheirContext checks that a call waiting for another call to open a model returns when its own
// context ends, and that the opening goes on.
func TestLazyWaitersHonourTheirContext(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	l := newLazy(func(context.Context) (int, func() error, error) {
		close(begun)
		<-goOn
		return 7, func() error { return nil }, nil
	})
	opened := make(chan int)
	go func() {
		v, _ := l.get(context.Background())
		opened <- v
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a waiter whose context has ended: %v", err)
	}
	close(goOn)
	if v := <-opened; v != 7 {
		t.Errorf("opened %d", v)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.get(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
