package llm

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
)

// Scope is a set of requests with the same rights. How much of a prompt is found in the KV cache can be counted and
// timed, and would tell a sender what other prompts begin with: so a request only uses KV of requests of its own scope.
// Requests without a scope share the cache among themselves.
type Scope struct {
	id                         uint64 // never 0
	prompt, reused, completion atomic.Int64
}

// NewScope returns a scope that no request has yet.
func NewScope() *Scope { return &Scope{id: 1 + rand.Uint64N(1<<64-1)} }

// scoped is the key of a scope in a context.
type scoped struct{}

// In returns a context whose requests have the scope, the requests of pipelines included. A nil scope leaves them
// without one.
func (s *Scope) In(ctx context.Context) context.Context { return context.WithValue(ctx, scoped{}, s) }

// ScopeOf returns the scope of a context's requests, nil without one.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scoped{}).(*Scope)
	return s
}

// ID identifies the scope; 0 is the nil scope.
func (s *Scope) ID() uint64 {
	if s == nil {
		return 0
	}
	return s.id
}

// Count adds a request's tokens to the scope; generators call it.
func (s *Scope) Count(r Result) {
	if s == nil {
		return
	}
	s.prompt.Add(int64(r.PromptTokens))
	s.reused.Add(int64(r.CachedTokens))
	s.completion.Add(int64(r.CompletionTokens))
}

// Tokens returns the tokens of the scope's finished requests: of prompts, of these found in the cache, and of
// completions.
func (s *Scope) Tokens() (prompt, reused, completion int64) {
	return s.prompt.Load(), s.reused.Load(), s.completion.Load()
}
