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
	if len(req.Messages) > 0 && req.Grammar == "" && len(req.Schema) == 0 && !p.calls.readsHeader() {
		r.reader = p.think.reader()
	}
	m.users.Add(1) // while the caller's own registration holds
	go r.predict(m, p, req)
	res, err := r.follow(ctx, m.closing, req.Thinking.Stream, stream)
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
	calls *callReader // nil: without tools
	// reader finds thinking that a model begins although the prompt does not have it think; nil: the request has a
	// grammar, a schema, no messages, or calls whose headers are read by calls
	reader *ThinkReader
	begun  time.Time
	more   chan struct{} // holds a token when there is new text
	done   chan struct{} // closed when result and err are final

	mu        sync.Mutex
	thoughts  strings.Builder
	pieces    strings.Builder
	cancelled bool
	finished  bool // the handle may serve another request
	result    Result
	err       error
}

func (r *run) predict(m *Model, p prompt, req Request) {
	defer m.users.Done()
	result, err := r.ask(m, p, req)
	r.h.drainLog(m.opts.Logger)
	r.mu.Lock()
	r.result, r.err, r.finished = result, err, true
	r.mu.Unlock()
	m.slots.used(time.Since(r.begun))
	m.slots.give(r.h)
	close(r.done)
}

func (r *run) ask(m *Model, p prompt, req Request) (result Result, err error) {
	defer panics.Into(&err)
	if req.Thinking.On() && p.think.form != nil {
		result, err = r.thinkAndAnswer(m, p, req)
	} else {
		result, err = r.answer(m, p, req)
	}
	r.scope.Count(result)
	return result, err
}

// answer generates the answer. Where the model begins a call without the marks of its format, it goes on from the text
// before as if the request had asked for this call, so that the call is in the format and fits the function's schema.
func (r *run) answer(m *Model, p prompt, req Request) (Result, error) {
	if f := p.think.form; f != nil && f.end != "" {
		req.Stop = append([]string{f.end}, req.Stop...)
	}
	var text strings.Builder
	called := ""
	result, err := r.generate(p, req, func(piece string) bool {
		if piece, called = p.bare.push(piece); piece != "" {
			text.WriteString(piece)
			r.hand(&r.pieces, piece)
		}
		return called == ""
	})
	if called == "" || err != nil || r.isCancelled() {
		r.hand(&r.pieces, p.bare.finish())
	} else {
		one := p.calls.format
		one.Next, req.ToolChoice = "", called
		if err = p.constrain(req, one, true); err != nil {
			return result, err
		}
		p.text += m.literal.text(text.String())
		var call Result
		if req.MaxTokens > 0 {
			req.MaxTokens = max(1, req.MaxTokens-result.CompletionTokens)
		}
		call, err = r.generate(p, req, func(piece string) bool {
			r.hand(&r.pieces, piece)
			return true
		})
		result = result.then(call)
	}
	if req.LogProbs {
		result.LogProbs = r.h.logProbs(req.Alternatives)
	}
	return result, err
}

// generate has llama.cpp continue a prompt. push is upstream's token callback.
func (r *run) generate(p prompt, req Request, push func(piece string) bool) (Result, error) {
	c := generateCall(p, req, r.seed, r.scope)
	defer c.free()
	r.mu.Lock()
	if r.cancelled { // preparing would clear it
		r.mu.Unlock()
		return Result{Finish: FinishCancelled}, nil
	}
	r.h.prepare(c)
	r.mu.Unlock()
	return r.h.run(c, func(piece string) bool { return push(unescapeNUL(piece)) })
}

func (r *run) hand(to *strings.Builder, piece string) {
	r.mu.Lock()
	to.WriteString(piece)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default: // the consumer has yet to take earlier text
	}
}

func (r *run) take() (thought, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	thought, text = r.thoughts.String(), r.pieces.String()
	r.thoughts.Reset()
	r.pieces.Reset()
	more, text := r.reader.Push(text)
	return thought + more, text
}

// cancel ends the prediction without waiting for it.
func (r *run) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelled = true
	if !r.finished {
		r.h.cancel()
	}
}

// follow hands text to the stream functions until the prediction ends or is to end.
func (r *run) follow(ctx context.Context, closing <-chan struct{}, think, stream func(string) error) (Result, error) {
	defer r.cancel() // also when a stream function panics
	thought, text := output{stream: think}, output{stream: stream}
	partial := func(err error) (Result, error) {
		return Result{Text: text.String(), Thought: thought.String(), Finish: FinishCancelled, Seed: r.seed}, err
	}
	for {
		select {
		case <-ctx.Done():
			return partial(ctx.Err())
		case <-closing:
			return partial(ErrClosed)
		case <-r.more:
			aside, piece := r.take()
			if err := thought.add(aside); err != nil {
				return partial(err)
			}
			if err := text.add(r.calls.push(piece)); err != nil {
				return partial(err)
			}
		case <-r.done:
			aside, piece := r.take()
			lastAside, last := r.reader.Finish()
			calls, cut, rest := r.calls.finish(piece + last)
			if err := thought.add(aside + lastAside); err != nil {
				return partial(err)
			}
			if err := text.add(rest); err != nil {
				return partial(err)
			}
			res := r.result
			res.Text, res.Thought, res.Seed = text.String(), thought.String(), r.seed
			res.LogProbs = said(res.LogProbs, res.Text)
			if len(calls) > 0 && r.err == nil {
				if res.ToolCalls = calls; !cut {
					res.Finish = FinishTools
				}
			}
			return res, r.err
		}
	}
}

// output is text that was handed to a stream function, which may be nil.
type output struct {
	strings.Builder
	stream func(piece string) error
}

func (o *output) add(piece string) error {
	o.WriteString(piece)
	if piece == "" || o.stream == nil {
		return nil
	}
	return o.stream(piece)
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
