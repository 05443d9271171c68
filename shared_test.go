package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
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

// All processes of a shared store use the calibration and the router that one of them has made, and decide as with a
// store that is a folder.
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

// A URL that cannot be used is refused at once, without the password in the error.
func TestSharedURL(t *testing.T) {
	for _, url := range []string{"postgres://u:secret@h/d?base=Not-A-Name", "postgres://u:secret@h:port/d",
		"postgres://u:secret@h/d?sslmode=perhaps"} {
		_, err := sluice.Open(t.Context(), sluice.Config{Store: url})
		if !errors.Is(err, store.ErrInput) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A log in the database of a store that is a folder is refused at once; beside a shared store, a folder's decisions are
// not logged.
func TestLogInTheDatabase(t *testing.T) {
	o := decisions.Options{File: decisions.Database}
	if _, err := sluice.Open(t.Context(), sluice.Config{Store: t.TempDir(), Decisions: o}); !errors.Is(err,
		decisions.ErrFile) {
		t.Errorf("of a folder: %v", err)
	}
	t.Setenv("SLUICE_CACHE", t.TempDir())
	w := newWorld(t, func(c *sluice.Config) { c.Store, c.Decisions = "postgres://localhost/none", o })
	folder := w.With(t.TempDir())
	defer folder.Close()
	if !w.Decisions().Logged() || folder.Decisions().Logged() || w.Decisions().Scores() == nil ||
		folder.Decisions().Scores() != nil {
		t.Error("which stores' decisions are logged in the database")
	}
}

// TestSharedSize measures a shared store of SLUICE_SHARED_ROWS chunks beside a local one: how long a server takes to
// start from nothing and from its replica, and what a decision takes.
func TestSharedSize(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv("SLUICE_SHARED_ROWS"))
	if err != nil {
		t.Skip("SKIP: SLUICE_SHARED_ROWS is not set: it names the number of chunks")
	}
	var documents, questions strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	words := func(n int) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "w%d ", int(math.Exp(r.Float64()*9)))
		}
		return b.String()
	}
	for i := range rows {
		text := words(40)
		fmt.Fprintf(&documents, "{\"id\":\"d%d\",\"text\":%q}\n", i, text)
		if i < 500 {
			fmt.Fprintf(&questions, "{\"context_id\":\"d%d\",\"text\":%q}\n", i, text[:len(text)/3])
		}
	}
	local := newWorld(t, nil)
	began := time.Now()
	said := func(what string) {
		t.Logf("%-40s %8.2f s", what, time.Since(began).Seconds())
		began = time.Now()
	}
	local.ingest(t, "d.jsonl", documents.String())
	said("ingest into a folder")
	if _, err := local.Calibrate(t.Context(), calibrate.Options{Queries: strings.NewReader(questions.String()),
		Source: "asked"}); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(t.TempDir(), "archive"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	began = time.Now()
	if _, err := local.Store().Export(t.Context(), archive, nil); err != nil {
		t.Fatal(err)
	}
	said("export")
	url := postgres.Start(t).URL()
	first := newShared(t, url)
	if _, err := first.Store().Restore(t.Context(), archive, false); err != nil {
		t.Fatal(err)
	}
	said("restore into PostgreSQL")
	again := newWorld(t, nil)
	if _, err := again.Store().Restore(t.Context(), archive, false); err != nil {
		t.Fatal(err)
	}
	said("restore into a folder")
	decisionsOf(t, again)
	said("start from that")
	cache := t.TempDir()
	for _, from := range []string{"start from nothing, to the first decision", "start from the replica"} {
		t.Setenv("SLUICE_CACHE", cache)
		began = time.Now()
		w := newWorld(t, func(c *sluice.Config) { c.Store = url })
		decisionsOf(t, w)
		said(from)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	second := newShared(t, url)
	var times [2][]float64
	for i := range 800 {
		question := []string{words(12)}
		var got [2][]gate.Decision
		for k, w := range []*world{again, second} {
			began := time.Now()
			if got[k], err = w.Gate(t.Context(), question); err != nil {
				t.Fatal(err)
			}
			if i >= 500 {
				times[k] = append(times[k], time.Since(began).Seconds()*1000)
			}
		}
		if got[0][0].Score != got[1][0].Score || got[0][0].ContextID != got[1][0].ContextID {
			t.Fatalf("%+v\n%+v", got[0], got[1])
		}
	}
	for k := range times {
		slices.Sort(times[k])
	}
	t.Logf("a decision, median: folder %.3f ms, replica %.3f ms", times[0][150], times[1][150])
}
