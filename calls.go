package sluice

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// calls tracks the API calls under way, so that Close can end them.
type calls struct {
	mu      sync.Mutex
	closed  bool
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newCalls() *calls {
	c := &calls{}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// enter begins a call whose context also ends with Close. leave ends the call, and replaces an error that Close has
// caused by ErrClosed.
func (c *calls) enter(ctx context.Context) (_ context.Context, leave func(err *error), _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	c.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func(err *error) {
		if *err != nil && errors.Is(context.Cause(ctx), ErrClosed) { // also if the error does not wrap the context's
			*err = ErrClosed
		}
		unlink()
		cancel(nil)
		c.running.Done()
	}, nil
}

// during runs f as a call of the API: its context also ends with Close, and an error that Close has caused becomes
// ErrClosed.
func during[T any](ctx context.Context, s *Sluice, f func(context.Context) (T, error)) (v T, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return v, err
	}
	defer leave(&err)
	return f(ctx)
}

// run is during for an f that has no result.
func run(ctx context.Context, s *Sluice, f func(context.Context) error) error {
	_, err := during(ctx, s, func(ctx context.Context) (none struct{}, _ error) { return none, f(ctx) })
	return err
}

// reading runs f as during does, with the store open for reading.
func reading[T any](ctx context.Context, s *Sluice, f func(context.Context, *store.Store) (T, error)) (T, error) {
	return during(ctx, s, func(ctx context.Context) (v T, err error) {
		st, err := s.base.Reader(ctx)
		if err != nil {
			return v, err
		}
		return f(ctx, st)
	})
}

// writing runs f as during does, with the store open for writing. Later calls see what f has changed.
func writing[T any](ctx context.Context, s *Sluice, f func(context.Context, *store.Store) (T, error)) (T, error) {
	return during(ctx, s, func(ctx context.Context) (v T, err error) {
		st, err := s.base.Writer(ctx, nil)
		if err != nil {
			return v, err
		}
		v, err = f(ctx, st)
		return v, s.base.Changed(err)
	})
}

// looking runs f as during does, with a snapshot of the store.
func looking[T any](
	ctx context.Context, s *Sluice, f func(context.Context, *knowledge.Snapshot) (T, error),
) (T, error) {
	return during(ctx, s, func(ctx context.Context) (v T, err error) {
		snap, err := s.base.Snapshot(ctx)
		if err != nil {
			return v, err
		}
		defer snap.Release()
		return f(ctx, snap)
	})
}

// sequence returns an iterator that runs of as during does and yields the chunks that of produces. If of fails, its
// error is the last element.
func sequence(
	ctx context.Context, s *Sluice, of func(ctx context.Context, yield func(corpus.Chunk, error) bool) error,
) iter.Seq2[corpus.Chunk, error] {
	return func(yield func(corpus.Chunk, error) bool) {
		err := run(ctx, s, func(ctx context.Context) error {
			return of(ctx, func(c corpus.Chunk, err error) bool {
				if err != nil && context.Cause(ctx) == ErrClosed {
					err = ErrClosed
				}
				return yield(c, err)
			})
		})
		if err != nil {
			yield(corpus.Chunk{}, err)
		}
	}
}

// close ends the calls under way, waits for them, and refuses later calls.
func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
}

// lazy opens a value when it is first needed. A failure is not remembered: the next call tries again.
type lazy[T any] struct {
	open func(context.Context) (T, func() error, error)

	turn   chan struct{}     // holds a token while a goroutine opens, reads or closes the value
	opened atomic.Pointer[T] // the opened value, for peek
	value  T
	closer func() error
	loaded bool
	closed bool
}

func newLazy[T any](open func(context.Context) (T, func() error, error)) *lazy[T] {
	return &lazy[T]{open: open, turn: make(chan struct{}, 1)}
}

// get returns the value and opens it if necessary. While another call opens it, get waits until ctx ends.
func (l *lazy[T]) get(ctx context.Context) (v T, err error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return v, ctx.Err()
	}
	if l.closed {
		return v, ErrClosed
	}
	if !l.loaded {
		if l.value, l.closer, err = l.open(ctx); err != nil {
			return v, err
		}
		l.loaded = true
		l.opened.Store(&l.value)
	}
	return l.value, nil
}

// peek returns the value if it has been opened, also after close.
func (l *lazy[T]) peek() (v T, ok bool) {
	if p := l.opened.Load(); p != nil {
		return *p, true
	}
	return v, false
}

// close closes the value if it is open; later calls of get return ErrClosed.
func (l *lazy[T]) close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.closed = true
	if !l.loaded || l.closer == nil {
		return nil
	}
	l.loaded = false
	return l.closer()
}
