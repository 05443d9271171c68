package sluice_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/domains"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// newShared is newWorld on a shared store, as another machine: with a cache of its own.
func newShared(t *testing.T, url string) *world {
	t.Helper()
	t.Setenv("SLUICE_CACHE", t.TempDir())
	w := newWorld(t, func(c *sluice.Config) { c.Store = url })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Store().Follow(ctx, time.Minute) // only what the database says is followed in time
	}()
	t.Cleanup(func() { stop(); <-done })
	return w
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal(what)
		}
	}
}

var sharedQuestions = []string{"When does a deferred function run, in which order?", "What does the harbour cost?"}

func decisionsOf(t *testing.T, w *world) []gate.Decision {
	t.Helper()
	all, err := w.Gate(t.Context(), sharedQuestions)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Calibrations and the router of a shared store are those of all processes, with the decisions of a store that is a
// folder.
func TestSharedCalibrationAndRouter(t *testing.T) {
	server := postgres.Start(t)
	url := server.URL()
	a, b, local := newShared(t, url), newShared(t, url), newWorld(t, nil)
	for _, w := range []*world{a, local} {
		w.ingest(t, "library.jsonl", doubles.Contexts)
	}
	eventually(t, "b has no documents", func() bool {
		list, err := b.Documents().List(t.Context())
		return err == nil && len(list) > 0
	})
	for _, w := range []*world{b, local} {
		w.calibrate(t)
	}
	eventually(t, "a is not calibrated", func() bool {
		r, err := a.Calibrations().Get(t.Context(), "")
		return err == nil && r.Calibration != nil
	})
	want := decisionsOf(t, local)
	for _, w := range []*world{a, b} {
		if got := decisionsOf(t, w); !slices.EqualFunc(got, want, func(x, y gate.Decision) bool {
			return x.Score == y.Score && x.Retrieve == y.Retrieve && x.Cutoff == y.Cutoff && x.ContextID == y.ContextID
		}) {
			t.Fatalf("%+v\n%+v", got, want)
		}
	}
	if _, err := a.Router().Train(t.Context(), domains.DefaultOptions()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b has no router", func() bool { _, err := b.Router().Get(t.Context()); return err == nil })
	if err := b.Router().Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a has a router yet", func() bool {
		_, err := a.Router().Get(t.Context())
		return errors.Is(err, store.ErrNotFound)
	})
}
