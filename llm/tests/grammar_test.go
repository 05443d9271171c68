//go:build native

package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestGrammarPaysForItsTime: requests beside one whose grammar takes longer than a decode get most of the decodes.
func TestGrammarPaysForItsTime(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 2048, CacheTokens: 4096, Slots: 2})
	heavy := "root ::= ("
	for i := range 1500 { // as many stacks at any time, so that a token takes several times as long as a decode
		if i > 0 {
			heavy += " | "
		}
		heavy += fmt.Sprintf(`x "%d"`, i)
	}
	heavy += ")\nx ::= [^d]{2000}"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, ended := 0, make(chan error)
	started := make(chan struct{})
	go func() {
		_, err := m.Generate(ctx, llm.Request{Prompt: "x", Grammar: heavy, MaxTokens: 800, Temperature: 1},
			func(string) error {
				if made++; made == 1 {
					close(started)
				}
				return nil
			})
		ended <- err
	}()
	<-started
	const tokens = 400
	res := generate(t, m, llm.Request{Prompt: "note", MaxTokens: tokens, Grammar: "root ::= [^a]*"})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the heavy one ended by itself after %d pieces: %v", made, err)
	}
	if res.CompletionTokens != tokens || made > tokens/2 {
		t.Errorf("%d tokens beside a heavy grammar's %d", res.CompletionTokens, made)
	}
}

// What a request's grammar has cost is owed by the next one, too: whoever sends ambiguous grammars again and again does
// not hold up the others.
func TestGrammarDebtOutlivesItsRequest(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 2048, CacheTokens: 4096, Slots: 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started, ended := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			_, _ = m.Generate(ctx, llm.Request{Prompt: "x", Grammar: ambiguous()["nested"], MaxTokens: 400}, nil)
			if n == 0 {
				close(started)
			}
		}
		ended <- n
	}()
	<-started
	const tokens = 400
	res := generate(t, m, llm.Request{Prompt: "note", MaxTokens: tokens, Grammar: "root ::= [^a]*"})
	cancel()
	// It needs about ten decodes a request.
	if n := <-ended; res.CompletionTokens != tokens || n > tokens/50 {
		t.Errorf("%d tokens beside %d requests with ambiguous grammars", res.CompletionTokens, n)
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
