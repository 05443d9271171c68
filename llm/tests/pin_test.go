//go:build native

package tests

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// While a text is being pinned, others tokenise and generate.
func TestPinBlocksNobody(t *testing.T) {
	reading, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m := openTiny(t, llm.Options{ContextSize: 512, CacheTokens: 2048, Slots: 2,
		Acquire: func() (int, func()) {
			once.Do(func() { close(reading); <-proceed })
			return 1, nil
		}})
	pinned := make(chan error)
	go func() {
		pin, err := m.PinPrompt(t.Context(), prose(1, 40))
		if err == nil {
			pin.Release()
		}
		pinned <- err
	}()
	<-reading
	tokenized := make(chan error, 1)
	go func() {
		_, err := m.Tokenize("hello")
		tokenized <- err
	}()
	select {
	case err := <-tokenized:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Tokenize waits for the pin")
	}
	close(proceed)
	if err := <-pinned; err != nil {
		t.Error(err)
	}
}

// A pin whose context ends, or whose model is closed, is given up after the decode under way, and nothing stays.
func TestPinEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var decodes atomic.Int64
	end := cancel
	m := openModel(t,
		llm.Options{Slots: 1, ContextSize: 2048, CacheTokens: 4096, BatchSize: 32,
			Logger: slog.New(slog.DiscardHandler),
			Acquire: func() (int, func()) {
				if decodes.Add(1) == 3 {
					end()
				}
				return 1, nil
			}})
	long := strings.Repeat("the quick brown fox jumps over the lazy dog ", 150)
	if _, err := m.PinPrompt(ctx, long); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	settled(t, m)
	if s := m.Stats(); s.PinnedTokens != 0 || s.Tokens > 200 {
		t.Errorf("%+v", s)
	}
	if _, err := m.PinPrompt(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	pin, err := m.PinPrompt(t.Context(), "the quick brown fox")
	if err != nil {
		t.Fatal(err)
	}
	pin.Release()
	closed := make(chan struct{})
	end = func() {
		go func() { m.Close(); close(closed) }()
		time.Sleep(50 * time.Millisecond) // the decode that Close comes to
	}
	decodes.Store(0)
	if _, err := m.PinPrompt(t.Context(), "other "+long); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	<-closed
}
