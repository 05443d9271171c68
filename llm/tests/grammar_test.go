//go:build native

package tests

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// ambiguous are grammars whose texts can be read in a number of ways that doubles with every character. The first one
// cannot tell which end will come, the second one where each of its parts began.
func ambiguous() map[string]string {
	return map[string]string{
		"nested": `root ::= [^d] root "b" | [^d] root "c" | "d"`,
		"joined": "root ::= x root y | x x root z | \"!\"\nx ::= [^!]\ny ::= \"a\" | \"b\" y\nz ::= \"a\" | \"c\" z",
	}
}

// TestAmbiguousGrammar: what a grammar may cost for a token is limited, the error says what it was, and others go on.
func TestAmbiguousGrammar(t *testing.T) {
	for name, grammar := range ambiguous() {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, llm.Options{ContextSize: 512, CacheTokens: 1024, Slots: 2})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // before there was a limit it never ended
			defer cancel()
			beside := make(chan llm.Result)
			go func() {
				res, err := m.Generate(ctx, llm.Request{Prompt: "note", MaxTokens: 300, Temperature: 1}, nil)
				if err != nil {
					t.Error("beside it:", err)
				}
				beside <- res
			}()
			res, err := m.Generate(ctx, llm.Request{Prompt: "x", Grammar: grammar, MaxTokens: 400}, nil)
			var limit *llm.GrammarLimitError
			if !errors.As(err, &limit) || !errors.Is(err, llm.ErrGrammar) || limit.Steps <= limit.Limit ||
				limit.Steps > 2*limit.Limit {
				t.Errorf("after %d tokens: %v (%+v)", res.CompletionTokens, err, limit)
			}
			if got := <-beside; got.CompletionTokens == 0 {
				t.Errorf("beside it: %+v", got)
			}
			if res := generate(t, m, llm.Request{Prompt: "x", MaxTokens: 4}); res.CompletionTokens == 0 {
				t.Errorf("afterwards: %+v", res)
			}
		})
	}
}

// heavy allows what "root ::= [^d]{2000}" does, up to the end, with as many stacks at any time as there are ends.
func heavy(ends int) string {
	grammar := "root ::= ("
	for i := range ends {
		if i > 0 {
			grammar += " | "
		}
		grammar += fmt.Sprintf(`x "%d"`, i)
	}
	return grammar + ")\nx ::= [^d]{2000}"
}

// allowedSteps returns how many steps of grammars the decoding thread may have done: 8 for each microsecond of a
// decode, or 4,096 a slot (sample_all in llm/binding/scheduler.cpp).
func allowedSteps(s llm.Stats) int64 {
	return 8*s.DecodeTime.Microseconds() + 4096*int64(s.Slots)*s.Decodes
}

// TestGrammarsBesideDecodes: what ambiguous grammars take beyond a small share happens on another thread, however many
// requests bring them, and a request beside them gets each decode. It counts steps, decodes and tokens.
func TestGrammarsBesideDecodes(t *testing.T) {
	grammars := ambiguous()
	grammars["heavy"] = heavy(1500)
	for name, grammar := range grammars {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, llm.Options{ContextSize: 2048, CacheTokens: 8192, Slots: 4})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var senders sync.WaitGroup
			for range 3 {
				senders.Go(func() {
					for ctx.Err() == nil {
						_, err := m.Generate(ctx, llm.Request{Prompt: "x", Grammar: grammar, MaxTokens: 400,
							Temperature: 1}, nil)
						if err != nil && !errors.Is(err, llm.ErrGrammar) && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					}
				})
			}
			for m.Stats().GrammarTokens < 3 {
				time.Sleep(time.Millisecond)
			}
			const tokens = 400
			before := m.Stats()
			res := generate(t, m, llm.Request{Prompt: "note", MaxTokens: tokens, Grammar: "root ::= [^a]*"})
			after := m.Stats()
			cancel()
			senders.Wait()
			settled(t, m)
			if res.CompletionTokens != tokens {
				t.Errorf("%d tokens", res.CompletionTokens)
			}
			// One decode for each of its tokens, and few in which only others had something to decode: before it began,
			// and behind it.
			if decodes := after.Decodes - before.Decodes; decodes > tokens+tokens/4 {
				t.Errorf("%d decodes for %d tokens", decodes, tokens)
			}
			if s := m.Stats(); s.GrammarSteps > allowedSteps(s) {
				t.Errorf("%d steps on the decoding thread, of %d: %+v", s.GrammarSteps, allowedSteps(s), s)
			}
		})
	}
}

// TestGrammarSameTokens: a token is the same, on whichever thread and in however many attempts its grammar is worked
// through. The two grammars allow the same text, and the second one needs some hundred steps for a token.
func TestGrammarSameTokens(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 512, CacheTokens: 1024, Slots: 2})
	for _, r := range []llm.Request{
		{Prompt: "x"},
		{Prompt: "x", Temperature: 1, Seed: 7},
		{Prompt: "x", Temperature: .8, TopK: 40, TopP: .9, MinP: .02, RepeatPenalty: 1.2, Seed: 8},
		{Prompt: "x", Temperature: 1, NoRepeatNGram: 2, Alternatives: 3, LogProbs: true, Seed: 10},
	} {
		r.MaxTokens = 60
		r.Grammar = "root ::= [^d]{2000}"
		light := generate(t, m, r)
		before := m.Stats().GrammarTokens
		r.Grammar = heavy(1500)
		got := generate(t, m, r)
		if got.Text != light.Text || !reflect.DeepEqual(got.LogProbs, light.LogProbs) {
			t.Errorf("%+v:\n%q\n%q", r, got.Text, light.Text)
		}
		if m.Stats().GrammarTokens-before < 30 {
			t.Errorf("%d tokens of %d were chosen on another thread", m.Stats().GrammarTokens-before, r.MaxTokens)
		}
	}
}

// TestGrammarCancelAndClose: a request whose token is being chosen ends at once when it is cancelled, whatever its
// grammar still does; and so does a model.
func TestGrammarCancelAndClose(t *testing.T) {
	for name, grammar := range ambiguous() {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, llm.Options{ContextSize: 2048, CacheTokens: 4096, Slots: 2})
			start := func(ctx context.Context) chan error {
				before := m.Stats().GrammarTokens
				ended := make(chan error, 1)
				go func() {
					var err error
					for err == nil || errors.Is(err, llm.ErrGrammar) {
						_, err = m.Generate(ctx, llm.Request{Prompt: "x", Grammar: grammar, MaxTokens: 400}, nil)
					}
					ended <- err
				}()
				for m.Stats().GrammarTokens == before {
					time.Sleep(time.Millisecond)
				}
				return ended
			}
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				ended := start(ctx)
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				settled(t, m) // without a decode that would make the scheduler look
			}
			ended := start(t.Context())
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, llm.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// A grammar whose beginning takes too much already ends its request while the sampler is being made, and leaks nothing
// (make asan).
func TestAmbiguousAtTheBeginning(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 512, Slots: 1})
	var grammar strings.Builder
	grammar.WriteString("root ::= x0")
	for i := range 7000 {
		fmt.Fprintf(&grammar, " | x \"%d\"", i)
	}
	grammar.WriteString("\nx0 ::= \"0\"\nx ::= [^d]\n")
	for range 3 {
		_, err := m.Generate(t.Context(), llm.Request{Prompt: "x", Grammar: grammar.String(), MaxTokens: 4}, nil)
		var limit *llm.GrammarLimitError
		if !errors.As(err, &limit) {
			t.Fatal(err)
		}
	}
}
