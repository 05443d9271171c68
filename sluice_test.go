package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Sluice over the small library, with its log.
type world struct {
	*sluice.Sluice
	dir string
	gen *doubles.Model
	log *strings.Builder
}

func newWorld(t *testing.T, change func(*sluice.Config)) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), gen: doubles.NewModel("An answer [2]."), log: &strings.Builder{}}
	cfg := sluice.Config{Store: filepath.Join(w.dir, "store"), Embedder: doubles.NewEncoder(), Generator: w.gen,
		Logger: slog.New(slog.NewTextHandler(w.log, nil))}
	if change != nil {
		change(&cfg)
	}
	s, err := sluice.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w.Sluice = s
	return w
}

func (w *world) ingest(t *testing.T, name, text string) ingest.Result {
	t.Helper()
	return w.ingestWith(t, name, text, ingest.Options{NoChunk: true})
}

func (w *world) ingestWith(t *testing.T, name, text string, o ingest.Options) ingest.Result {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := w.Ingest(t.Context(), []string{path}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) calibrate(t *testing.T) *calibrate.Result {
	t.Helper()
	r, err := w.Calibrate(t.Context(),
		calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "asked"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// onRuntime is the small encoder on a runtime that changes its vectors.
type onRuntime struct {
	embed.Embedder
	name string
	by   float32
}

func (e onRuntime) Info() embed.Info {
	i := e.Embedder.Info()
	i.Runtime.Library = e.name
	return i
}

func (e onRuntime) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	v, err := e.Embedder.Embed(ctx, texts, role)
	if err == nil {
		v.Data[0] += e.by
	}
	return v, err
}

// TestRuntimeOfTheEncoder checks that a store's vectors are used with the runtime that computed them, and with others
// that compute the same vectors.
func TestRuntimeOfTheEncoder(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	on := func(name string, by float32) *world {
		return newWorld(t, func(c *sluice.Config) {
			c.Store, c.Embedder = store, onRuntime{doubles.NewEncoder(), name, by}
		})
	}
	on("first", 0).ingest(t, "a.txt", "The pump opens the valve.")
	ask := func(w *world) error {
		_, err := w.Retrieve(t.Context(), []string{"pump"}, retrieve.DefaultOptions())
		return err
	}
	if err := ask(on("second", 5e-6)); err != nil {
		t.Error(err)
	}
	if err := ask(on("third", 5e-5)); !errors.Is(err, embed.ErrRuntime) {
		t.Errorf("another runtime with other vectors: %v", err)
	}
}

func TestLaterCallsSeeEarlierWrites(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.Retrieve(t.Context(), []string{"x"}, retrieve.DefaultOptions()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without a store: %v", err)
	}
	w.ingest(t, "a.jsonl", doubles.Contexts)
	w.calibrate(t)
	question := []string{"Which volcano erupts on the island?"}
	before, err := w.Gate(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	w.ingest(t, "b.jsonl", `{"id":"fire","text":"The volcano on the island erupts every year."}`)
	after, err := w.Gate(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	if before[0].Retrieve || !after[0].Retrieve || after[0].ContextID != "fire" || after[0].Stale != .2 {
		t.Errorf("before %+v, after %+v", before[0], after[0])
	}
	if !strings.Contains(w.log.String(), "stale by 20 %") {
		t.Errorf("staleness was not said: %s", w.log)
	}
	if n, err := w.Documents().Delete(t.Context(), []string{"fire"}); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if again, err := w.Gate(t.Context(), question); err != nil || again[0].Retrieve {
		t.Errorf("%+v %v", again, err)
	}
}

func TestAnotherProcessIsSeen(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", doubles.Contexts)
	reader := newWorld(t, func(c *sluice.Config) { c.Store = filepath.Join(w.dir, "store") })
	count := func() int {
		r, err := reader.Retrieve(t.Context(), []string{"x"}, overlay.On(retrieve.DefaultOptions(),
			retrieve.Options{K: 100}))
		if err != nil {
			t.Fatal(err)
		}
		return len(r[0].Results)
	}
	first := count()
	w.ingest(t, "b.jsonl", `{"id":"fire","text":"The volcano on the island erupts every year."}`)
	if n := count(); n != first+1 {
		t.Errorf("%d contexts after another process's ingest, want %d", n, first+1)
	}
	if _, err := w.Documents().Delete(t.Context(), []string{"fire"}); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != first {
		t.Errorf("%d contexts after another process's deletion, want %d", n, first)
	}
	w.calibrate(t)
	if _, err := reader.Gate(t.Context(), []string{"x"}); err != nil {
		t.Errorf("another process's calibration: %v", err)
	}
}

func TestCallsMayRunTogetherWithIngest(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", doubles.Contexts)
	w.calibrate(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := w.Retrieve(context.WithoutCancel(t.Context()), []string{"lighthouses", "herring"},
					overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: i + 1})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 5 {
		w.ingest(t, "more.jsonl", fmt.Sprintf(`{"id":"n%d","text":"Number %d of the later contexts."}`, i, i))
	}
	wg.Wait()
}

func TestOptionsAreChecked(t *testing.T) {
	for _, cfg := range []sluice.Config{{StaleTolerance: new(2.)}, {Threads: -1}, {ContextTokens: -1}} {
		if _, err := sluice.Open(t.Context(), cfg); !errors.Is(err, sluice.ErrOption) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", doubles.Contexts)
	for name, err := range map[string]error{
		"gate mode": second(w.Ask(t.Context(), "x", overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: "ajar"}))),
		"answer": second(w.Ask(t.Context(), "x", overlay.On(answer.DefaultOptions(),
			answer.Options{MaxTokens: -1}))),
		"commit every": second(w.Ingest(t.Context(), []string{w.dir}, ingest.Options{CommitEvery: -1})),
		"chunk":        second(w.Ingest(t.Context(), []string{w.dir}, ingest.Options{Chunk: "10"})),
		"name":         second(w.Calibrate(t.Context(), calibrate.Options{Name: "a/b"})),
		"sample":       second(w.Calibrate(t.Context(), calibrate.Options{Sample: -1})),
	} {
		if !errors.Is(err, sluice.ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestClosedIsClosed(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", doubles.Contexts)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"embed":    second(w.Embed(t.Context(), []string{"x"}, 0)),
		"retrieve": second(w.Retrieve(t.Context(), []string{"x"}, retrieve.DefaultOptions())),
		"ask": second(w.Ask(t.Context(), "x", overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateClosed}))),
	} {
		if !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
