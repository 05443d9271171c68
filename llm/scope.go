package llm

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
)

// Scope is a set of requests with the same rights. How much of a prompt is found in the KV cache can be counted and
// timed, and tells whoever sends prompts what the earlier ones begin with: so a request begins with the KV of requests
// of its own scope only. Those without one share the cache among themselves.
type Scope struct {
	id                         uint64 // never 0
	prompt, reused, completion atomic.Int64
}

// NewScope returns a scope that no request has yet.
func NewScope() *Scope { return &Scope{id: 1 + rand.Uint64N(1<<64-1)} }

// scoped is the key of a context's scope.
type scoped struct{}

// In returns a context whose requests have the scope, also those that a pipeline makes on the way to an answer. A nil
// scope leaves them without one.
func (s *Scope) In(ctx context.Context) context.Context { return context.WithValue(ctx, scoped{}, s) }

// ScopeOf returns the scope of a context's requests, nil without one.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scoped{}).(*Scope)
	return s
}

// ID tells scopes apart. That of nil is 0.
func (s *Scope) ID() uint64 {
	if s == nil {
		return 0
	}
	return s.id
}

// Count adds what a request of the scope has taken; generators call it.
func (s *Scope) Count(r Result) {
	if s == nil {
		return
	}
	s.prompt.Add(int64(r.PromptTokens))
	s.reused.Add(int64(r.CachedTokens))
	s.completion.Add(int64(r.CompletionTokens))
}

// Tokens counts those of the scope's requests that have ended: of their prompts, of these found in the cache, and
// of their completions.
func (s *Scope) Tokens() (prompt, reused, completion int64) {
	return s.prompt.Load(), s.reused.Load(), s.completion.Load()
}
