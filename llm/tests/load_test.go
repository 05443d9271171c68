//go:build native

package tests

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// TestInteractiveUnderLoad: while batch requests keep every slot and the queue busy, an interactive request is answered
// when one of those that run has ended.
func TestInteractiveUnderLoad(t *testing.T) {
	decodes := make(chan struct{}) // a decode waits until it has received
	m := openTiny(t, llm.Options{ContextSize: 256, CacheTokens: 1024, Slots: 2, Queue: 64,
		Acquire: func() (int, func()) {
			<-decodes
			return 1, func() {}
		}})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	const batch, tokens = 12, 60
	for range batch {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := m.Generate(ctx,
					llm.Request{Prompt: "note", MaxTokens: tokens, Temperature: 1, Priority: llm.Batch}, nil)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	arrived := func(n int) {
		for s := m.Stats(); s.Active+s.Queued != n; s = m.Stats() {
			time.Sleep(time.Millisecond)
		}
	}
	for range 8 {
		arrived(batch)
		answered := make(chan error, 1)
		go func() {
			_, err := m.Generate(t.Context(), llm.Request{Prompt: "text", MaxTokens: 3, Priority: llm.Interactive}, nil)
			answered <- err
		}()
		arrived(batch + 1)
		for range tokens + 20 { // those that wait have five times as many before them
			decodes <- struct{}{}
		}
		select {
		case err := <-answered:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the interactive request waits for batch requests that waited before it")
		}
	}
	cancel()
	close(decodes)
	all.Wait()
}

// TestReady: a model is ready while a request would be taken, and says when to come back.
func TestReady(t *testing.T) {
	decodes := make(chan struct{}, 16) // the first ones do not wait
	for range cap(decodes) {
		decodes <- struct{}{}
	}
	m := openTiny(t, llm.Options{ContextSize: 1024, Slots: 1, Queue: -1, Acquire: func() (int, func()) {
		<-decodes
		return 1, func() {}
	}})
	if err := m.Ready(); err != nil {
		t.Error(err)
	}
	generate(t, m, llm.Request{Prompt: "x", MaxTokens: 2})
	before := m.Stats()
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error)
	go func() {
		first := true
		_, err := m.Generate(ctx, llm.Request{Prompt: "note", MaxTokens: 900, Temperature: 1}, func(string) error {
			if first {
				close(started)
			}
			first = false
			return nil
		})
		ended <- err
	}()
	<-started
	var busy *llm.BusyError
	if err := m.Ready(); !errors.As(err, &busy) || busy.Retry < time.Second || busy.Retry > time.Minute {
		t.Error("with all of it busy:", err)
	}
	if _, err := m.Generate(t.Context(), llm.Request{Prompt: "x"}, nil); !errors.Is(err, llm.ErrBusy) {
		t.Error(err)
	}
	// Whoever leaves frees the slot, and no cell of another request is in its way.
	cancel()
	close(decodes)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	settled(t, m)
	// the slot goes back last
	for end := time.Now().Add(10 * time.Second); m.Ready() != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	res := generate(t, m, llm.Request{Prompt: "x", MaxTokens: 1000})
	if s := m.Stats(); s.Refused != before.Refused+1 || s.Slots != 1 || s.MeanTime <= 0 || res.CompletionTokens < 900 {
		t.Errorf("%+v, %+v", s, res)
	}
	m.Close()
	if err := m.Ready(); !errors.Is(err, llm.ErrClosed) {
		t.Error(err)
	}
}
