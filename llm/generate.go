//go:build native

package llm

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	llama "github.com/go-skynet/go-llama.cpp"

	"github.com/sluice-rag/sluice/internal/panics"
)

// repeatLast is how many tokens the penalties look back.
const repeatLast = 64

// Generate answers a request; see Generator.
func (m *Model) Generate(ctx context.Context, req Request, stream func(piece string) error) (Result, error) {
	if err := req.check(); err != nil {
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
		r.seed = rand.Int64N(maxSeed + 1)
	}
	h.prepare(len(p.text), p.marked, r.texts.orNull(p.calls.written()), uint32(r.seed), r.scope, req)
	m.users.Add(1) // while the caller's own registration holds
	go r.predict(m, p, req)
	res, err := r.follow(ctx, m.closing, stream)
	res.QueueTime += waited
	return res, err
}

// run is a prediction under way. Two goroutines share it: one sits in C, where upstream calls back with text while it
// holds a lock of all predictions, so the callback only appends; the caller's takes the text to the stream function.
type run struct {
	h     *handle
	scope *Scope
	seed  int64
	calls *callReader // nil: without tools
	texts cStrings    // that C reads until the prediction ends
	begun time.Time
	more  chan struct{} // holds a token when there is new text
	done  chan struct{} // closed when result and err are final

	mu       sync.Mutex
	pieces   strings.Builder
	finished bool // the handle belongs to somebody else
	result   Result
	err      error
}

func (r *run) predict(m *Model, p prompt, req Request) {
	defer m.users.Done()
	defer r.texts.free()
	result, err := r.ask(m, p, req)
	r.h.drainLog(m.opts.Logger)
	r.mu.Lock()
	r.result, r.err, r.finished = result, err, true
	r.mu.Unlock()
	m.slots.used(time.Since(r.begun))
	m.slots.give(r.h)
	close(r.done)
}

// ask has upstream predict, and returns how that has ended.
func (r *run) ask(m *Model, p prompt, req Request) (result Result, err error) {
	defer panics.Into(&err)
	_, failed := r.h.llama.Predict(p.text,
		llama.SetTokenCallback(r.push),
		llama.SetTokens(1), // the size of a result buffer that nobody reads; prepare set the limit
		llama.SetTemperature(float32(req.Temperature)),
		llama.SetTopK(req.TopK),
		llama.SetTopP(orOff(req.TopP)),
		llama.SetPenalty(orOff(req.RepeatPenalty)),
		llama.SetFrequencyPenalty(float32(req.FrequencyPenalty)),
		llama.SetPresencePenalty(float32(req.PresencePenalty)),
		llama.SetRepeat(repeatLast),
		llama.WithGrammar(p.grammar),
		llama.SetStopWords(req.Stop...),
	)
	if failed != nil {
		r.h.llama.SetTokenCallback(nil) // upstream leaves it registered then
	}
	result, err = r.h.last()
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
	default: // the consumer has not yet taken the text before this
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
	defer r.cancel() // whatever makes us leave, a panic of stream included
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
			if len(calls) > 0 && r.err == nil {
				res.ToolCalls, res.Finish = calls, FinishTools
			}
			return res, r.err
		}
	}
}
