//go:build native

package embed

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestOpenEndsWithItsContext: what a model is opened for does not wait until it is open once its context has ended,
// here for a runtime that is held by somebody else, and what was opened is freed.
func TestOpenEndsWithItsContext(t *testing.T) {
	dir := minilm(t)
	needLibrary(t)
	ortRuntime.mu.Lock()
	before := ortRuntime.users
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		_, err := Open(&told{Context: ctx, first: sync.OnceFunc(func() { close(begun) })}, dir, Options{})
		ended <- err
	}()
	<-begun
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, ErrModel) {
		t.Error(err)
	}
	ortRuntime.mu.Unlock()
	e := openEncoder(t, dir, Options{}) // behind or beside the one that was given up
	embedAll(t, e, []string{"still there"}, Document)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	for { // the test's own time limit ends this
		ortRuntime.mu.Lock()
		users := ortRuntime.users
		ortRuntime.mu.Unlock()
		if users == before {
			return
		}
		runtime.Gosched()
	}
}

// told is a context that tells when it is asked for the first time whether it has ended, which it has not then.
type told struct {
	context.Context
	first func()
}

func (c *told) Err() error {
	err := c.Context.Err()
	c.first()
	return err
}

// looked is a context that ends when it has been asked so often.
type looked struct {
	context.Context
	asked, limit atomic.Int64
}

func (l *looked) Err() error {
	if l.asked.Add(1) > l.limit.Load() {
		return context.Canceled
	}
	return nil
}

// TestDigestEndsWithItsContext: of a file that takes long, no more is read.
func TestDigestEndsWithItsContext(t *testing.T) {
	ctx := &looked{Context: t.Context()}
	ctx.limit.Store(1)
	_, err := hashFile(ctx, filepath.Join(minilm(t), "model.safetensors"))
	if n := ctx.asked.Load(); !errors.Is(err, context.Canceled) || errors.Is(err, ErrModel) || n > 4 {
		t.Errorf("%v after %d looks", err, n)
	}
}
