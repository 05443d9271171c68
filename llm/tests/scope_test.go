//go:build native

package tests

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// TestArchScopes: what one scope's requests have read is found by its own later ones, and by no other's. Without scopes
// everything is found, as it is by one user.
func TestArchScopes(t *testing.T) {
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 3)
		a, b := llm.NewScope(), llm.NewScope()
		ask := func(s *llm.Scope, prompt string) llm.Result {
			t.Helper()
			r, err := m.Generate(s.In(t.Context()), greedy(prompt, 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		secret := prose(5, 60)
		read := ask(a, secret)
		for _, s := range []*llm.Scope{b, nil} { // each the first time
			if r := ask(s, secret+" the castle"); r.CachedTokens != 0 {
				t.Errorf("%d of %d tokens that another scope has read are found", r.CachedTokens, read.PromptTokens)
			}
		}
		if r := ask(a, secret+" the window"); r.CachedTokens != read.PromptTokens {
			t.Errorf("%d of %d tokens of the scope's own are found", r.CachedTokens, read.PromptTokens)
		}
		prompt, reused, completion := a.Tokens()
		if reused != int64(read.PromptTokens) || prompt < 2*reused || completion > 2 {
			t.Errorf("the scope has counted %d, %d, %d tokens", prompt, reused, completion)
		}
		if _, reused, _ := b.Tokens(); reused != 0 {
			t.Errorf("the other one has counted %d tokens as found", reused)
		}
		if got := m.Stats().ReusedTokens; got != int64(read.PromptTokens) {
			t.Errorf("the model has counted %d tokens as found", got)
		}
	})
}

// TestArchScopesOfPins: a pin is of its context's scope, too.
func TestArchScopesOfPins(t *testing.T) {
	for _, name := range []string{"qwen2", "mamba"} {
		m := openPreset(t, preset(t, name), 1)
		a, b := llm.NewScope(), llm.NewScope()
		pin, err := m.PinPrompt(a.In(t.Context()), prose(9, 50))
		if err != nil {
			t.Fatal(err)
		}
		defer pin.Release()
		for _, s := range []*llm.Scope{a, b, nil, a} {
			want := 0
			if s == a {
				want = pin.Tokens
			}
			r, err := m.Generate(s.In(t.Context()), greedy(prose(9, 50)+" the castle", 1), nil)
			if err != nil || r.CachedTokens != want {
				t.Errorf("%s: %d of %d pinned tokens are found, not %d: %v", name, r.CachedTokens, pin.Tokens, want,
					err)
			}
		}
	}
}

// TestArchScopesTogether: a prompt that another scope's request is reading is neither copied nor waited for: both are
// read side by side, whatever they have in common.
func TestArchScopesTogether(t *testing.T) {
	for _, same := range []bool{true, false} {
		begun, proceed, both := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var m *llm.Model
		decodes, ended := 0, [3]int{} // before which decode so many were done
		m = openTiny(t, llm.Options{ContextSize: 512, CacheTokens: 2048, Slots: 4, BatchSize: 16,
			Acquire: func() (int, func()) {
				if decodes++; decodes == 1 {
					close(begun)
					<-proceed
				}
				if n := m.Stats().Finished[llm.FinishLength]; ended[n] == 0 {
					if ended[n] = decodes; n == 2 {
						close(both)
					}
				}
				return 1, nil
			}})
		ctx, end := context.WithCancel(t.Context())
		var all, two sync.WaitGroup
		all.Go(func() { _, _ = m.Generate(ctx, greedy(prose(1, 3), 450), nil) }) // it keeps the scheduler meanwhile
		<-begun
		scopes := []*llm.Scope{llm.NewScope(), llm.NewScope()}
		if same {
			scopes[1] = scopes[0]
		}
		results := make([]llm.Result, 2)
		for i, s := range scopes {
			two.Go(func() {
				var err error
				if results[i], err = m.Generate(s.In(t.Context()), greedy(prose(7, 100), 1), nil); err != nil {
					t.Error(err)
				}
			})
		}
		for m.Stats().Queued < 2 {
			time.Sleep(time.Millisecond)
		}
		close(proceed)
		two.Wait()
		<-both
		end()
		all.Wait()
		if err := m.Close(); err != nil { // the scheduler has ended
			t.Fatal(err)
		}
		found := results[0].CachedTokens + results[1].CachedTokens
		if (found > 0) != same || results[0].PromptTokens < 100 {
			t.Errorf("same scope %v: %d of %d tokens are found", same, found, results[0].PromptTokens)
		}
		if !same && ended[1]*3 < ended[2]*2 {
			t.Errorf("one is done before decode %d, the other one before %d: it has waited", ended[1], ended[2])
		}
	}
}
