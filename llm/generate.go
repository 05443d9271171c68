//go:build native

package llm

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
)

// Generate answers a request; see Generator.
func (m *Model) Generate(ctx context.Context, req Request, stream func(piece string) error) (Result, error) {
	if err := req.Check(); err != nil {
		return Result{}, err
	}
	if !m.enter() {
		return Result{}, ErrClosed
	}
	defer m.users.Done()
	p, err := m.prompt(req)
	if err != nil {
		return Result{}, err
	}
	begun := time.Now()
	h, err := m.slots.take(ctx, m.closing, req.Priority)
	if err != nil {
		return Result{Finish: FinishCancelled}, err
	}
	waited := time.Since(begun)
	r := &run{h: h, scope: ScopeOf(ctx), seed: req.Seed, calls: p.calls, begun: time.Now(),
		more: make(chan struct{}, 1), done: make(chan struct{})}
	if r.seed < 0 {
		r.seed = rand.Int64N(MaxSeed + 1)
	}
	r.call = generateCall(p, req, r.seed, r.scope)
	h.prepare(r.call)
	m.users.Add(1) // while the caller's own registration holds
	go r.predict(m, req)
	res, err := r.follow(ctx, m.closing, stream)
	res.QueueTime += waited
	return res, err
}

// run is a prediction in progress. Two goroutines share it: one waits in C, where upstream calls back with text while
// it holds a lock of all predictions, so the callback only appends; the caller's passes the text to the stream
// function.
type run struct {
	h     *handle
	scope *Scope
	seed  int64
	call  *call
	calls *callReader // nil: without tools
	begun time.Time
	more  chan struct{} // holds a token when there is new text
	done  chan struct{} // closed when result and err are final

	mu       sync.Mutex
	pieces   strings.Builder
	finished bool // the handle may serve another request
	result   Result
	err      error
}

func (r *run) predict(m *Model, req Request) {
	defer m.users.Done()
	defer r.call.free()
	result, err := r.ask(req)
	r.h.drainLog(m.opts.Logger)
	r.mu.Lock()
	r.result, r.err, r.finished = result, err, true
	r.mu.Unlock()
	m.slots.used(time.Since(r.begun))
	m.slots.give(r.h)
	close(r.done)
}

// ask has llama.cpp answer, and returns the outcome.
func (r *run) ask(req Request) (result Result, err error) {
	defer panics.Into(&err)
	result, err = r.h.run(r.call, r.push)
	r.scope.Count(result)
	if req.LogProbs {
		result.LogProbs = r.h.logProbs(req.Alternatives)
	}
	return result, err
}

// push is upstream's token callback.
func (r *run) push(piece string) bool {
	r.mu.Lock()
	r.pieces.WriteString(unescapeNUL(piece))
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default: // the consumer has yet to take earlier text
	}
	return true
}

func (r *run) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.pieces.String()
	r.pieces.Reset()
	return text
}

// cancel ends the prediction without waiting for it.
func (r *run) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.finished {
		r.h.cancel()
	}
}

// follow hands text to stream until the prediction ends or is to end.
func (r *run) follow(ctx context.Context, closing <-chan struct{}, stream func(string) error) (Result, error) {
	defer r.cancel() // also when stream panics
	var text strings.Builder
	deliver := func(piece string) error {
		text.WriteString(piece)
		if piece == "" || stream == nil {
			return nil
		}
		return stream(piece)
	}
	partial := func(err error) (Result, error) {
		return Result{Text: text.String(), Finish: FinishCancelled, Seed: r.seed}, err
	}
	for {
		select {
		case <-ctx.Done():
			return partial(ctx.Err())
		case <-closing:
			return partial(ErrClosed)
		case <-r.more:
			if err := deliver(r.calls.push(r.take())); err != nil {
				return partial(err)
			}
		case <-r.done:
			calls, rest := r.calls.finish(r.take())
			if err := deliver(rest); err != nil {
				return partial(err)
			}
			res := r.result
			res.Text, res.Seed = text.String(), r.seed
			res.LogProbs = said(res.LogProbs, res.Text)
			if len(calls) > 0 && r.err == nil {
				res.ToolCalls, res.Finish = calls, FinishTools
			}
			return res, r.err
		}
	}
}

// said returns the tokens that a text is made of, without the tokens that a stop string has cut off. If the tokens do
// not begin with the text, because tool calls were taken out of it, for instance, it returns all of them.
func said(list []TokenLogProb, text string) []TokenLogProb {
	rest := text
	for i, t := range list {
		switch {
		case rest == "":
			return list[:i]
		case strings.HasPrefix(t.Text, rest): // the stop string may begin within a token
			rest = ""
		case !strings.HasPrefix(rest, t.Text):
			return list
		}
		rest = strings.TrimPrefix(rest, t.Text)
	}
	return list
}
