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

// TestInteractiveUnderLoad: while batch requests keep every slot and the queue busy, interactive requests start before
// all batch requests that wait.
func TestInteractiveUnderLoad(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 256, CacheTokens: 1024, Slots: 2, Queue: 64})
	ctx, cancel := context.WithCancel(t.Context())
	var batch sync.WaitGroup
	var mu sync.Mutex
	ended := 0
	for range 12 {
		batch.Go(func() {
			for ctx.Err() == nil {
				_, err := m.Generate(ctx,
					llm.Request{Prompt: "note", MaxTokens: 60, Temperature: 1, Priority: llm.Batch}, nil)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				mu.Lock()
				ended++
				mu.Unlock()
			}
		})
	}
	for m.Stats().Queued < 8 {
		time.Sleep(time.Millisecond)
	}
	late := 0
	for range 8 {
		mu.Lock()
		before := ended
		mu.Unlock()
		started := -1
		_, err := m.Generate(t.Context(), llm.Request{Prompt: "text", MaxTokens: 3, Priority: llm.Interactive},
			func(string) error {
				mu.Lock()
				defer mu.Unlock()
				if started < 0 {
					started = ended - before
				}
				return nil
			})
		if err != nil {
			t.Error(err)
		}
		// It waits for one of two that run, or for none; more may end before this goroutine calls, or sees its text.
		if started > 4 {
			late++
		}
	}
	if late > 4 {
		t.Errorf("%d of 8 interactive requests began after more than 4 of the 12 batch requests under way", late)
	}
	cancel()
	batch.Wait()
}

// TestReady: a model is ready while a request would be taken, and says when to come back.
func TestReady(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 1024, Slots: 1, Queue: -1})
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
