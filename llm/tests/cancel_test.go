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

// settled waits until no slot is in use: a cancelled request ends at the next batch boundary.
func settled(t *testing.T, m *llm.Model) {
	t.Helper()
	for range 1000 {
		if s := m.Stats(); s.Active == 0 && s.Queued == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the slot is never freed: %+v", m.Stats())
}

func TestCancelWhileDecoding(t *testing.T) {
	m := openModel(t, llm.Options{Slots: 1, ContextSize: 1024})
	ctx, cancel := context.WithCancel(context.Background())
	var text strings.Builder
	res, err := m.Generate(ctx, llm.Request{Prompt: "Once upon a time", MaxTokens: 1000}, func(p string) error {
		if text.WriteString(p); text.Len() > 20 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || res.Finish != llm.FinishCancelled ||
		!strings.HasPrefix(text.String(), res.Text) || res.Text == "" {
		t.Errorf("%+v, %v", res, err)
	}
	settled(t, m)
	if made := m.Stats().Tokens; made > 500 {
		t.Errorf("%d tokens were decoded although the request was cancelled after a few", made)
	}
	if res := generate(t, m, llm.Request{Prompt: "Once", MaxTokens: 2}); res.CompletionTokens != 2 {
		t.Errorf("afterwards: %+v", res)
	}
}

// errorLog keeps what is logged as an error.
type errorLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *errorLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *errorLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level >= slog.LevelError {
		l.lines = append(l.lines, r.Message)
	}
	return nil
}

// The third piece of the prompt cancels: the rest is not read, and nobody calls that an error.
func TestCancelWhileReading(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var decodes atomic.Int64
	logged := &errorLog{Handler: slog.DiscardHandler}
	m := openModel(t, llm.Options{Slots: 1, ContextSize: 4096, BatchSize: 32, Logger: slog.New(logged),
		Acquire: func() (int, func()) {
			if decodes.Add(1) == 3 {
				cancel()
			}
			return 1, nil
		}})
	prompt := strings.Repeat("the quick brown fox jumps over the lazy dog ", 200)
	n, err := m.CountTokens(prompt)
	if err != nil || n < 1500 {
		t.Fatal(n, err)
	}
	res, err := m.Generate(ctx, llm.Request{Prompt: prompt, MaxTokens: 8}, nil)
	if !errors.Is(err, context.Canceled) || res.Text != "" {
		t.Errorf("%+v, %v", res, err)
	}
	settled(t, m)
	if read := m.Stats().Tokens; read > int64(n/2) {
		t.Errorf("%d of %d prompt tokens were read", read, n)
	}
	if res := generate(t, m, llm.Request{Prompt: "What is new?", MaxTokens: 2}); res.CompletionTokens != 2 {
		t.Errorf("afterwards: %+v", res)
	}
	m.Close()
	logged.mu.Lock()
	defer logged.mu.Unlock()
	if len(logged.lines) > 0 {
		t.Errorf("logged as errors: %q", logged.lines)
	}
}

// A request that another one keeps waiting can be cancelled while it waits, and one that runs beside a cancelled one is
// not disturbed.
func TestCancelBesideOthers(t *testing.T) {
	m := openModel(t, llm.Options{Slots: 1, ContextSize: 512})
	alone := generate(t, m, llm.Request{Prompt: "Once upon a time", MaxTokens: 30}).Text
	started, end := make(chan struct{}), make(chan error, 1)
	var got strings.Builder
	go func() {
		first := true
		_, err := m.Generate(context.Background(), llm.Request{Prompt: "Once upon a time", MaxTokens: 30},
			func(p string) error {
				if got.WriteString(p); first {
					close(started)
					first = false
				}
				return nil
			})
		end <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.Generate(ctx, llm.Request{Prompt: "x"}, nil); !errors.Is(err, context.Canceled) {
		t.Error("waiting:", err)
	}
	if err := <-end; err != nil || got.String() != alone {
		t.Errorf("beside it: %q instead of %q, %v", got.String(), alone, err)
	}
}

func TestCallbackEnds(t *testing.T) {
	m := openModel(t, llm.Options{Slots: 1, ContextSize: 512})
	enough := errors.New("enough")
	calls := 0
	res, err := m.Generate(context.Background(), llm.Request{Prompt: "Once upon a time", MaxTokens: 400},
		func(string) error {
			if calls++; calls == 3 {
				return enough
			}
			return nil
		})
	if err != enough || calls != 3 || res.Finish != llm.FinishCancelled || res.Text == "" {
		t.Errorf("%d calls, %+v, %v", calls, res, err)
	}
	settled(t, m)

	func() {
		defer func() {
			if recover() != "callback" {
				t.Error("the panic did not come through")
			}
		}()
		m.Generate(context.Background(), llm.Request{Prompt: "Once upon a time", MaxTokens: 400}, func(string) error {
			panic("callback")
		})
	}()
	settled(t, m)
}

// A callback that blocks holds up nobody but its own request.
func TestCallbackBlocks(t *testing.T) {
	m := openModel(t, llm.Options{Slots: 2, ContextSize: 512})
	blocked, release, end := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		_, err := m.Generate(context.Background(), llm.Request{Prompt: "Once upon a time", MaxTokens: 20},
			func(string) error {
				if first {
					first = false
					close(blocked)
					<-release
				}
				return nil
			})
		end <- err
	}()
	<-blocked
	if res := generate(t, m, llm.Request{Prompt: "Twice upon a time", MaxTokens: 20}); res.CompletionTokens == 0 {
		t.Errorf("%+v", res)
	}
	close(release)
	if err := <-end; err != nil {
		t.Error(err)
	}
}

func TestCloseWhileGenerating(t *testing.T) {
	m := openModel(t, llm.Options{Slots: 2, ContextSize: 1024})
	started, end := make(chan struct{}, 4), make(chan error, 4)
	for range 4 { // two of them wait for a slot
		go func() {
			first := true
			_, err := m.Generate(context.Background(), llm.Request{Prompt: "Once upon a time", MaxTokens: 900},
				func(string) error {
					if first {
						first = false
						started <- struct{}{}
					}
					return nil
				})
			end <- err
		}()
	}
	<-started
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for range 4 {
		if err := <-end; !errors.Is(err, llm.ErrClosed) {
			t.Error("a request that ran:", err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error("closing twice:", err)
	}
	if _, err := m.Generate(context.Background(), llm.Request{Prompt: "x"}, nil); !errors.Is(err, llm.ErrClosed) {
		t.Error("Generate:", err)
	}
	if _, err := m.Tokenize("x"); !errors.Is(err, llm.ErrClosed) {
		t.Error("Tokenize:", err)
	}
}

func TestDeadline(t *testing.T) {
	m := sharedModel(t)
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
	defer cancel()
	_, err := m.Generate(ctx, llm.Request{Prompt: "Once upon a time", MaxTokens: 1500}, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	settled(t, m)
}
