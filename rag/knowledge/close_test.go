package knowledge_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// TestCloseBesideCallers: who is under way gets ErrClosed or an answer, and what it reads is there until it returns.
func TestCloseBesideCallers(t *testing.T) {
	for range 5 {
		w := newWorld(t, 20, 5)
		w.add(chapters(0, 100)...)
		var g sync.WaitGroup
		for i := range 6 {
			g.Go(func() {
				for {
					var err error
					if i == 0 {
						_, err = w.Reader(t.Context())
					} else {
						err = w.searchAndCompare(t.Context())
					}
					if err == nil {
						continue
					}
					if !errors.Is(err, knowledge.ErrClosed) {
						t.Error(err)
					}
					return
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		g.Wait()
	}
}

// TestCloseBetweenSteps: a call that holds a snapshot goes on to its next step, and no further.
func TestCloseBetweenSteps(t *testing.T) {
	w := newWorld(t, 1000, 1000)
	w.add("ships", "harbours")
	snap, enc, err := w.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q, err := enc.Embed(t.Context(), []string{"ships"}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	vectors := snap.View.Vectors
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := snap.Search(t.Context(), retrieve.Queries{Vectors: knowledge.Vectors(q)},
		overlay.On(retrieve.DefaultOptions(),
			retrieve.Options{K: 1, Mode: retrieve.Dense})); !errors.Is(err, knowledge.ErrClosed) {
		t.Error(err)
	}
	if _, err := snap.Chunks(t.Context(), []string{"ships"}); !errors.Is(err, knowledge.ErrClosed) {
		t.Error(err)
	}
	if _, err := snap.Gate(t.Context(), enc.Info().Encoder); !errors.Is(err, knowledge.ErrClosed) {
		t.Error(err)
	}
	sum := float32(0)
	for _, x := range vectors.Data { // still mapped
		sum += x
	}
	if sum == 0 {
		t.Error("no vectors")
	}
	snap.Release()
	for name, err := range map[string]error{
		"snapshot": second(w.Snapshot(t.Context())), "reader": second(w.Reader(t.Context())),
		"writer": second(w.Writer(t.Context(), nil)),
	} {
		if !errors.Is(err, knowledge.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestWaitersHonourTheirContext: while the index of a snapshot is prepared, or a writer is at work, who waits stops
// when their context ends.
func TestWaitersHonourTheirContext(t *testing.T) {
	w := newWorld(t, 1000, 1000)
	w.add("ships", "harbours")
	release := w.HoldTurns()
	defer release()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if _, err := w.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
