package knowledge_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// TestFollow: a base that follows its store needs no turn of anything to answer, sees what another one writes, and
// until it looks stays with what it has.
func TestFollow(t *testing.T) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	w := doubles.NewBase(t, func(c *knowledge.Config) { c.Logger = quiet })
	other := knowledge.New(knowledge.Config{Dir: w.Base.Dir(), Engine: w.Engine, Logger: quiet,
		Encoder: func(context.Context) (embed.Embedder, error) { return w.Encoder, nil }})
	t.Cleanup(func() { _ = other.Close() })
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		w.Follow(ctx, time.Millisecond)
	}()
	t.Cleanup(func() { stop(); <-followed })
	add := func(name, text string) {
		t.Helper()
		in := ingest.Input{Paths: []string{w.File(t, name, text)}, Options: ingest.Options{NoChunk: true}}
		if _, err := ingest.Run(t.Context(), other, in); err != nil {
			t.Fatal(err)
		}
	}
	ids := func() (found []string, err error) {
		const question = "Do lighthouses warn ships of rocks?"
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		snap, enc, err := w.Searchable(ctx)
		if err != nil {
			return nil, err
		}
		defer snap.Release()
		e, err := w.Embed(ctx, []string{question}, embed.Query)
		if err != nil {
			return nil, err
		}
		q := retrieve.Queries{Texts: []string{question}, Vectors: knowledge.Vectors(e)}
		g, err := snap.Gate(ctx, enc.Info().Encoder)
		if err != nil {
			return nil, err
		}
		if _, err := snap.Decide(ctx, g, q); err != nil {
			return nil, err
		}
		lists, err := snap.Search(ctx, q, overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 100}))
		for _, l := range lists {
			for _, r := range l.Results {
				found = append(found, r.ID)
			}
		}
		return found, err
	}
	if _, err := ids(); !errors.Is(err, store.ErrNoStore) {
		t.Fatalf("before there is a store: %v", err)
	}
	add("a.jsonl", doubles.Contexts)
	questions := calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"}
	if _, err := calibrate.Run(t.Context(), other, calibrate.Input{Options: questions}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { _, err := ids(); return err == nil })

	add("b.jsonl", `{"id":"second","text":"A second lamp warns ships of the same rocks."}`)
	if err := w.Refresh(); err != nil {
		t.Fatal(err)
	}
	for _, release := range []func(){w.HoldTurns(), w.HoldWords()} {
		defer release()
	}
	found, err := ids()
	if err != nil || !slices.Contains(found, "second") {
		t.Fatalf("%v, %v", found, err)
	}
	add("c.jsonl", `{"id":"third","text":"A third lamp warns ships of rocks, too."}`) // which nobody can take now
	if found, err = ids(); err != nil || slices.Contains(found, "third") {
		t.Errorf("%v, %v", found, err)
	}
}

// eventually waits for something to become true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not become true in 20 s")
		}
	}
}
