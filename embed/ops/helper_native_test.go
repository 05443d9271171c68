//go:build native

package ops

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A helper's thread is given back once: when the run is over, or during the run when somebody else wants it.
func TestHelper(t *testing.T) {
	d := &Domain{}
	defer d.closeHelpers()
	var gone int
	var contended bool
	_ = d.WithHelper(func() bool { return contended }, func() { gone++ }, func() error {
		h := &d.helpers[0]
		if h.leaveIfAsked(); gone != 0 {
			t.Error("it leaves though nobody wants the thread")
		}
		contended = true
		h.leaveIfAsked()
		if h.leaveIfAsked(); gone != 1 {
			t.Errorf("somebody wants the thread: given back %d times", gone)
		}
		// Another run gets another helper: this one still belongs to the first run.
		return d.WithHelper(func() bool { return false }, func() { gone++ }, func() error {
			if !d.helpers[1].taken.Load() {
				t.Error("the second run shares the first one's helper")
			}
			return nil
		})
	})
	if gone != 2 || d.helpers[0].taken.Load() || d.helpers[1].taken.Load() {
		t.Errorf("two runs are over: threads given back %d times", gone)
	}
}

// More runs than helpers: the others go without, and their threads are given back at once.
func TestMoreRunsThanHelpers(t *testing.T) {
	d := &Domain{}
	defer d.closeHelpers()
	var gone atomic.Int32
	var all sync.WaitGroup
	begun, end := make(chan bool), make(chan bool)
	for range helpers + 3 {
		all.Go(func() {
			_ = d.WithHelper(func() bool { return false }, func() { gone.Add(1) }, func() error {
				begun <- true
				<-end
				return nil
			})
		})
	}
	for range helpers + 3 {
		<-begun
	}
	if gone.Load() != 3 {
		t.Errorf("%d threads given back of 3 without a helper", gone.Load())
	}
	close(end)
	all.Wait()
	if gone.Load() != helpers+3 {
		t.Errorf("%d threads given back of %d", gone.Load(), helpers+3)
	}
}
