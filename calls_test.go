package sluice_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// watched is an encoder that reports the priorities of its calls' contexts and blocks while it is held.
type watched struct {
	*doubles.Encoder
	mu    sync.Mutex
	batch []bool
	held  chan struct{} // nil: not held
	began chan struct{} // receives one for each call that is held
}

func (w *watched) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	w.mu.Lock()
	w.batch = append(w.batch, cores.IsBatch(ctx))
	held := w.held
	w.mu.Unlock()
	if held != nil {
		w.began <- struct{}{}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return w.Encoder.Embed(ctx, texts, role)
}

func (w *watched) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.began = make(chan struct{}), make(chan struct{}, 64)
}

// patient is a language model that blocks until its context ends.
type patient struct {
	*doubles.Model
	began chan struct{}
}

func (p *patient) Generate(ctx context.Context, r llm.Request, s func(string) error) (llm.Result, error) {
	p.began <- struct{}{}
	<-ctx.Done()
	return llm.Result{Finish: llm.FinishCancelled}, ctx.Err()
}

// TestInteractiveAndBatch checks that interactive calls get the next free core before ingest, calibration and batches.
func TestInteractiveAndBatch(t *testing.T) {
	enc := &watched{Encoder: doubles.NewEncoder()}
	w := newWorld(t, func(c *sluice.Config) { c.Embedder = enc })
	ctx := t.Context()
	questions := func() <-chan answer.Question {
		c := make(chan answer.Question, 1)
		c <- answer.Question{ID: "q", Text: "Why do lighthouses warn ships of rocks?"}
		close(c)
		return c
	}
	for _, c := range []struct {
		name  string
		batch bool
		call  func() error
	}{
		{"ingest", true, func() error { w.ingest(t, "a.jsonl", doubles.Contexts); return nil }},
		{"calibrate", true, func() error { w.calibrate(t); return nil }},
		{"ask", false, func() error { return second(w.Ask(ctx, "Which ships?", answer.DefaultOptions())) }},
		{"ask in a batch", true, func() error {
			return w.AskEach(ctx, questions(), answer.DefaultOptions(),
				func(answer.Question, *answer.Answer) error { return nil })
		}},
		{"gate", false, func() error { return second(w.Gate(ctx, []string{"Which ships?"})) }},
		{"retrieve", false, func() error {
			return second(w.Retrieve(ctx, []string{"Which ships?"}, retrieve.DefaultOptions()))
		}},
	} {
		enc.mu.Lock()
		enc.batch = nil
		enc.mu.Unlock()
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(enc.batch) == 0 {
			t.Errorf("%s embedded nothing", c.name)
		}
		for _, batch := range enc.batch {
			if batch != c.batch {
				t.Errorf("%s: as a batch job %v, want %v", c.name, batch, c.batch)
			}
		}
	}
}

// TestCloseBesideCallers checks that Close ends calls that embed and calls that generate with ErrClosed, and that later
// calls are refused.
func TestCloseBesideCallers(t *testing.T) {
	enc := &watched{Encoder: doubles.NewEncoder()}
	gen := &patient{doubles.NewModel(), make(chan struct{}, 64)}
	w := newWorld(t, func(c *sluice.Config) { c.Embedder, c.Generator = enc, gen })
	w.ingest(t, "a.jsonl", doubles.Contexts)
	w.calibrate(t)
	ctx := context.Background()
	errs := make(chan error, 64)
	calls := 0
	start := func(call func() error) {
		calls++
		go func() { errs <- call() }()
	}
	o := overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen})
	start(func() error { return second(w.Ask(ctx, "Which ships?", o)) })
	start(func() error {
		return w.AskEach(ctx, make(chan answer.Question), o, // waits for questions that never come
			func(answer.Question, *answer.Answer) error { return nil })
	})
	start(func() error {
		return second(w.Calibrate(ctx, calibrate.Options{Name: "other", PerContext: 1}))
	})
	<-gen.began
	<-gen.began
	enc.hold()
	start(func() error { return second(w.Gate(ctx, []string{"Which ships?"})) })
	start(func() error { return second(w.Retrieve(ctx, []string{"Which ships?"}, retrieve.DefaultOptions())) })
	start(func() error { return second(w.Ask(ctx, "Which ships?", o)) })
	start(func() error { return second(w.Embed(ctx, []string{"Which ships?"}, embed.Query)) })
	for range 4 {
		<-enc.began
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range calls {
		if err := <-errs; !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("a call beside Close returned %v", err)
		}
	}
	for range w.Documents().AllChunks(ctx) {
		calls++
	}
	if err := second(w.Documents().List(ctx)); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("a later call: %v", err)
	}
}

// TestCallersOwnContext checks that a call ended by its caller's context returns that context's error, not ErrClosed.
func TestCallersOwnContext(t *testing.T) {
	gen := &patient{doubles.NewModel(), make(chan struct{}, 1)}
	w := newWorld(t, func(c *sluice.Config) { c.Generator = gen })
	w.ingest(t, "a.jsonl", doubles.Contexts)
	ctx, cancel := context.WithCancel(t.Context())
	err := make(chan error)
	go func() {
		err <- second(w.Ask(ctx, "Which ships?", overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateOpen})))
	}()
	<-gen.began
	cancel()
	if err := <-err; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "closed") {
		t.Errorf("%v", err)
	}
}
