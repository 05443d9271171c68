//go:build native

package llm

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/internal/panics"
)

// Pin is a prompt's beginning that stays in the KV cache. Release it.
type Pin struct {
	Tokens int // that it holds

	model  *Model
	number int64
	once   sync.Once
}

// Pin reads the messages, usually a system prompt, and keeps them in the KV cache, so that every request of the same
// Scope that begins with them starts from there. It returns when they are read, beside other requests and pins. There
// may be 8 pins, and a request of the whole context must still fit beside them (Options.CacheTokens). When ctx ends it
// returns ctx's error and nothing is pinned; when the model is closed, ErrClosed.
func (m *Model) Pin(ctx context.Context, msgs []Message) (*Pin, error) {
	// Two conversations that begin with these messages tell how far the template's text for them goes.
	var text [2]string
	for i, next := range []string{"a", "b"} {
		var err error
		c := chat{messages: append(slices.Clone(msgs), Message{Role: User, Content: next})}
		if err = (Request{Messages: c.messages}).Check(); err != nil {
			return nil, err
		}
		if text[i], err = m.render(m.thinks().chat(c, NoEffort), m.literal); err != nil {
			return nil, err
		}
	}
	return m.pin(ctx, strings.ToValidUTF8(common(text[0], text[1]), ""), true)
}

// PinPrompt is Pin for a raw prompt's beginning.
func (m *Model) PinPrompt(ctx context.Context, text string) (*Pin, error) {
	return m.pin(ctx, text, false)
}

func (m *Model) pin(ctx context.Context, text string, marked bool) (*Pin, error) {
	if !m.enter() {
		return nil, ErrClosed
	}
	defer m.users.Done()
	h, err := m.pins.take(ctx, m.closing, 0)
	if err != nil {
		return nil, err
	}
	defer m.pins.give(h)
	c := newCall(m.valid(text), marked, ScopeOf(ctx))
	defer c.free()
	c.c.pin = true
	h.prepare(c)
	done := make(chan struct{})
	p := &Pin{model: m}
	go func() {
		defer close(done)
		defer panics.Into(&err)
		var r Result
		r, err = h.run(c, nil)
		p.number, p.Tokens = int64(c.c.result.pin), r.PromptTokens
	}()
	var ended error
	select {
	case <-done:
		if err != nil {
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
		ended = ctx.Err()
	case <-m.closing:
		ended = ErrClosed
	}
	h.cancel()
	<-done // at the next batch boundary
	if err == nil {
		p.unpin() // it was made at the same moment
	}
	return nil, ended
}

// Release gives the pin's part of the cache back; requests that run on it go on.
func (p *Pin) Release() {
	p.once.Do(func() {
		if p.model.enter() {
			defer p.model.users.Done()
			p.unpin()
		}
	})
}

func (p *Pin) unpin() { p.model.tok.unpin(p.number) }
