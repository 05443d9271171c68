// Package worker holds what a process needs once, whatever number of tasks a runner gives it at a time: the engine, and
// the turn that tasks take, so that the memory limit is the process's.
package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
)

// MemoryVariable names the environment variable with the bytes that a worker's process may take; without it,
// DefaultMemory.
const (
	MemoryVariable = "SLUICE_WORKER_MEMORY"
	DefaultMemory  = 4 << 30
)

var errMemory = errors.New("worker: memory")

// Memory returns the bytes that the process may take.
func Memory() (int64, error) {
	text := os.Getenv(MemoryVariable)
	if text == "" {
		return DefaultMemory, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 64<<20 {
		return 0, fmt.Errorf("%w: %s is %q; at least %d bytes", errMemory, MemoryVariable, text, 64<<20)
	}
	return n, nil
}

// Process is what the tasks of a process share.
type Process struct {
	Engine *engine.Engine
	turn   chan struct{}

	mu       sync.Mutex
	encoders map[string]embed.Embedder
}

// Shared returns what the tasks of this process share. It is made by the first task: a runner makes and drops its
// functions as it likes, and several at a time.
var Shared = sync.OnceValues(func() (*Process, error) {
	limit, err := Memory()
	if err != nil {
		return nil, err
	}
	debug.SetMemoryLimit(limit)
	e, err := engine.New(engine.Options{MemLimit: limit / 2})
	if err != nil {
		return nil, err
	}
	return &Process{Engine: e, turn: make(chan struct{}, 1), encoders: map[string]embed.Embedder{}}, nil
})

// Turn waits until no other task works, and returns what the tasks share, and what ends the turn.
func Turn(ctx context.Context) (p *Process, end func(), err error) {
	if p, err = Shared(); err != nil {
		return nil, nil, err
	}
	select {
	case p.turn <- struct{}{}:
		return p, func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// opener opens encoders. It is the program's, as database drivers are: a runner makes the functions that need one.
var opener atomic.Pointer[func(ctx context.Context, name string) (embed.Embedder, error)]

// OpenEncodersBy says how the process opens an encoder; without, each is embed.Open's folder.
func OpenEncodersBy(open func(ctx context.Context, name string) (embed.Embedder, error)) {
	opener.Store(&open)
}

// Encoder returns an encoder, which is opened once.
func (p *Process) Encoder(ctx context.Context, name string) (embed.Embedder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.encoders[name]; e != nil {
		return e, nil
	}
	open := func(ctx context.Context, name string) (embed.Embedder, error) {
		return embed.Open(ctx, name, embed.Options{Name: filepath.Base(name)})
	}
	if by := opener.Load(); by != nil {
		open = *by
	}
	e, err := open(ctx, name)
	if err != nil {
		return nil, err
	}
	p.encoders[name] = e
	return e, nil
}
