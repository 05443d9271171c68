package knowledge_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// held is an engine whose searches wait until they may go on.
type held struct {
	engine.Interface
	begun chan int      // the queries of a search that has begun
	goOn  chan struct{} // closed: all may
	calls atomic.Int64
}

func (h *held) TopK(
	ctx context.Context, q, c engine.Vectors, metric kernels.Metric, k int, bias []engine.Biases,
) ([][]engine.Hit, error) {
	h.calls.Add(1)
	h.begun <- q.Rows
	select {
	case <-h.goOn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return h.Interface.TopK(ctx, q, c, metric, k, bias)
}

// joins is a snapshot with a prepared set of 300 rows, an engine that waits, and 64 queries.
type joins struct {
	*world
	snap    *knowledge.Snapshot
	held    *held
	rows    engine.Vectors
	queries engine.Vectors
}

func newJoins(t *testing.T) *joins {
	t.Helper()
	w := newWorld(t, 1000, 1000)
	w.JoinFrom(1)
	texts := chapters(0, 301)
	w.add(texts...)
	w.remove(texts[7])
	snap, _, err := w.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(snap.Release)
	rows, err := snap.Vectors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rows.Set == nil {
		t.Fatal("no prepared set")
	}
	e, err := w.Embed(t.Context(), chapters(1000, 1064), embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	h := &held{Interface: w.Engine, begun: make(chan int, 1000), goOn: make(chan struct{})}
	return &joins{w, snap, h, rows, knowledge.Vectors(e)}
}

func (j *joins) query(i int) engine.Vectors {
	d := j.queries.Dim
	return engine.Vectors{Data: j.queries.Data[i*d : (i+1)*d], Rows: 1, Dim: d}
}

func (j *joins) search(ctx context.Context, q engine.Vectors, k int, bias []engine.Biases) ([][]engine.Hit, error) {
	return j.snap.Joined(j.held).TopK(ctx, q, j.rows, j.snap.Metric(), k, bias)
}

// waiting waits until so many searches wait.
func (j *joins) waiting(n int) {
	j.t.Helper()
	for start := time.Now(); j.snap.Waiting() != n; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			j.t.Fatalf("%d searches wait, not %d", j.snap.Waiting(), n)
		}
	}
}

// TestSearchesThatComeTogetherAreOne: the first search goes at once, the next 40 by one call of the engine, with the
// bits of searches by themselves: for one hit or eight, with biases and without.
func TestSearchesThatComeTogetherAreOne(t *testing.T) {
	j := newJoins(t)
	var g sync.WaitGroup
	rng := rand.New(rand.NewPCG(1, 1))
	ask := func(i int) {
		k := 1 + rng.IntN(8)
		var bias []engine.Biases
		if i%3 == 1 {
			bias = []engine.Biases{engine.BiasList{{Row: rng.IntN(100), Value: .3}, {Row: 100 + i, Value: .1}}}
		}
		g.Go(func() {
			got, err := j.search(t.Context(), j.query(i), k, bias)
			if err != nil {
				t.Error(err)
				return
			}
			want, err := j.Engine.TopK(t.Context(), j.query(i), j.rows, j.snap.Metric(), k, bias)
			if err != nil || !cmp.Equal(got, want) {
				t.Errorf("query %d, k %d: %v; %s", i, k, err, cmp.Diff(want, got))
			}
		})
	}
	ask(0)
	if n := <-j.held.begun; n != 1 {
		t.Fatalf("the first search is of %d queries", n)
	}
	for i := 1; i < 41; i++ {
		ask(i)
	}
	j.waiting(40)
	close(j.held.goOn)
	g.Wait()
	if n := <-j.held.begun; n != 40 || j.held.calls.Load() != 2 {
		t.Errorf("%d calls of the engine, the second of %d queries", j.held.calls.Load(), n)
	}
}

// TestSearchesThatAreNotJoined: batch jobs, calls of many queries, and those that go by other vectors.
func TestSearchesThatAreNotJoined(t *testing.T) {
	j := newJoins(t)
	var g sync.WaitGroup
	plain := j.snap.View.Vectors
	for i, ask := range []func() ([][]engine.Hit, error){
		func() ([][]engine.Hit, error) { return j.search(t.Context(), j.query(0), 3, nil) },
		func() ([][]engine.Hit, error) { return j.search(cores.AsBatch(t.Context()), j.query(0), 3, nil) },
		func() ([][]engine.Hit, error) { return j.search(t.Context(), j.queries, 3, nil) },
		func() ([][]engine.Hit, error) { return j.search(t.Context(), j.query(0), 100, nil) },
		func() ([][]engine.Hit, error) {
			return j.snap.Joined(j.held).TopK(t.Context(), j.query(0), plain, j.snap.Metric(), 3, nil)
		},
	} {
		g.Go(func() {
			if _, err := ask(); err != nil {
				t.Errorf("search %d: %v", i, err)
			}
		})
	}
	for range 5 {
		<-j.held.begun // all at once
	}
	close(j.held.goOn)
	g.Wait()
}

// TestOneThatLeavesDisturbsNobody: a caller that waits returns when its context ends, the others of its batch get their
// hits, and a batch that all have left is stopped.
func TestOneThatLeavesDisturbsNobody(t *testing.T) {
	j := newJoins(t)
	ctx, leave := context.WithCancel(t.Context())
	type end struct {
		hits [][]engine.Hit
		err  error
	}
	ask := func(ctx context.Context, i int) chan end {
		c := make(chan end, 1)
		go func() {
			hits, err := j.search(ctx, j.query(i), 3, nil)
			c <- end{hits, err}
		}()
		return c
	}
	first := ask(t.Context(), 0)
	<-j.held.begun
	early := ask(ctx, 1)
	j.waiting(1)
	leave()
	if e := <-early; !errors.Is(e.err, context.Canceled) {
		t.Errorf("who leaves before the batch: %v", e.err)
	}
	ctx, leave = context.WithCancel(t.Context())
	leaver, stays := ask(ctx, 2), ask(t.Context(), 3)
	j.waiting(2)
	j.held.goOn <- struct{}{} // the first search alone
	if e := <-first; e.err != nil {
		t.Error(e.err)
	}
	if n := <-j.held.begun; n != 2 {
		t.Fatalf("a batch of %d queries", n)
	}
	leave()
	if e := <-leaver; !errors.Is(e.err, context.Canceled) {
		t.Errorf("who leaves in the midst of the batch: %v", e.err)
	}
	j.held.goOn <- struct{}{}
	want, err := j.Engine.TopK(t.Context(), j.query(3), j.rows, j.snap.Metric(), 3, nil)
	if e := <-stays; e.err != nil || err != nil || !cmp.Equal(e.hits, want) {
		t.Errorf("who stays: %v, %v", e.err, cmp.Diff(want, e.hits))
	}
	first = ask(t.Context(), 0)
	<-j.held.begun
	ctx, leave = context.WithCancel(t.Context())
	a, b := ask(ctx, 1), ask(ctx, 2)
	j.waiting(2)
	j.held.goOn <- struct{}{}
	<-first
	<-j.held.begun // the batch of the two, which never may go on
	leave()
	<-a
	<-b
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = j.search(t.Context(), j.query(4), 3, nil) // as soon as the batch has stopped
	}()
	if n := <-j.held.begun; n != 1 {
		t.Errorf("a search of %d queries", n)
	}
	close(j.held.goOn)
	<-ended
}

// TestErrorsAreTheirOwn: a query that is not finite has an error, the others of its batch have their hits.
func TestErrorsAreTheirOwn(t *testing.T) {
	j := newJoins(t)
	var g sync.WaitGroup
	bad := engine.Vectors{Data: make([]float32, j.queries.Dim), Rows: 1, Dim: j.queries.Dim}
	bad.Data[2] = float32(math.NaN())
	g.Go(func() {
		if _, err := j.search(t.Context(), j.query(0), 3, nil); err != nil {
			t.Error(err)
		}
	})
	<-j.held.begun
	g.Go(func() {
		_, err := j.search(t.Context(), bad, 3, nil)
		if !errors.Is(err, kernels.ErrNonFinite) || !strings.Contains(err.Error(), "row 0") {
			t.Errorf("NaN: %v", err)
		}
	})
	for i := 1; i < 5; i++ {
		g.Go(func() {
			if hits, err := j.search(t.Context(), j.query(i), 3, nil); err != nil || len(hits[0]) != 3 {
				t.Errorf("query %d: %v", i, err)
			}
		})
	}
	j.waiting(5)
	close(j.held.goOn)
	g.Wait()
}

// TestCloseBesideJoinedSearches: a base closes while searches wait for one that is under way.
func TestCloseBesideJoinedSearches(t *testing.T) {
	j := newJoins(t)
	var g sync.WaitGroup
	ask := func(i int) {
		g.Go(func() {
			if _, err := j.search(t.Context(), j.query(i), 3, nil); err != nil &&
				!errors.Is(err, knowledge.ErrClosed) &&
				!errors.Is(err, engine.ErrClosed) {
				t.Error(err)
			}
		})
	}
	ask(0)
	<-j.held.begun
	for i := 1; i < 9; i++ {
		ask(i)
	}
	j.waiting(8)
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	close(j.held.goOn)
	g.Wait()
}

// TestJoinedSearchesAndChanges: searches of ten callers, some of whom leave, beside writes that replace the snapshot.
func TestJoinedSearchesAndChanges(t *testing.T) {
	w := newWorld(t, 100, 50)
	w.JoinFrom(1)
	w.add(chapters(0, 300)...)
	ctx, stop := context.WithCancel(t.Context())
	var g sync.WaitGroup
	for range 10 {
		g.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for ctx.Err() == nil {
				own, leave := context.WithTimeout(ctx, time.Duration(rng.IntN(4000))*time.Microsecond)
				if err := w.searchAndCompare(own); err != nil && own.Err() == nil {
					t.Error(err)
				}
				leave()
			}
		})
	}
	for i := range 10 {
		w.add(chapters(300+10*i, 310+10*i)...)
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	g.Wait()
}

// counted returns how often a base has searched vectors, before and after.
func (w *world) counted(fn func()) int64 {
	before := w.Searches()
	fn()
	return w.Searches() - before
}

// TestOneSearchForGateAndPassages: what DecideFor and SearchFrom say is what Decide and Search say, with one search
// instead of two where the gate and the ranking go by the same similarities.
func TestOneSearchForGateAndPassages(t *testing.T) {
	for _, score := range []string{"cosine", "cosine+cover:1"} {
		w := &world{doubles.NewBase(t, nil), t}
		in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", doubles.Contexts)},
			Options: ingest.Options{NoChunk: true}}
		if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
			t.Fatal(err)
		}
		if _, err := calibrate.Run(t.Context(), w.Base.Base, calibrate.Input{Options: calibrate.Options{
			Queries: strings.NewReader(doubles.Questions), Source: "questions", Resamples: -1,
			Score: score}}); err != nil {
			t.Fatal(err)
		}
		snap, enc, err := w.Searchable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Release()
		g, err := snap.Gate(t.Context(), enc.Info().Encoder)
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{"Do lighthouses warn ships of rocks?", "what is a violin?", "zzz"}
		e, err := w.Embed(t.Context(), texts, embed.Query)
		if err != nil {
			t.Fatal(err)
		}
		q := retrieve.Queries{Texts: texts, Vectors: knowledge.Vectors(e)}
		for _, c := range []struct {
			name  string
			o     retrieve.Options
			texts bool
			one   bool
		}{
			{"dense", overlay.On(retrieve.DefaultOptions(), retrieve.Options{Mode: retrieve.Dense, K: 4}), true, true},
			{"mmr", overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{Mode: retrieve.Dense, K: 3, MMR: .5}), true, true},
			{"explain", overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{Mode: retrieve.Dense, K: 3, Explain: true}), true, true},
			{"auto, no texts", overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 4}), false, true},
			{"no router", overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{Mode: retrieve.Dense, K: 4, Route: []string{"auto"}}), true, true},
			{"auto", overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 4}), true, false},
			{"another metric", overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{Mode: retrieve.Dense, Metric: "l2"}), true, false},
			{"hybrid", overlay.On(retrieve.DefaultOptions(), retrieve.Options{Mode: retrieve.Hybrid}), true, false},
			{"where", overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{Mode: retrieve.Dense, Where: where(t, "topic=sea")}), true, false},
		} {
			q := q
			if !c.texts {
				if score != "cosine" {
					continue
				}
				q.Texts = nil
			}
			decisions, err := snap.Decide(t.Context(), g, q)
			if err != nil {
				t.Fatal(c.name, err)
			}
			lists, err := snap.Search(t.Context(), q, c.o)
			if err != nil {
				t.Fatal(c.name, err)
			}
			var gotDecisions []gate.Decision
			var gotLists []retrieve.List
			n := w.counted(func() {
				var near *knowledge.Nearest
				if gotDecisions, near, err = snap.DecideFor(t.Context(), g, q, c.o); err == nil {
					gotLists, err = snap.SearchFrom(t.Context(), q, c.o, near)
				}
			})
			if err != nil {
				t.Fatal(c.name, err)
			}
			if d := cmp.Diff(decisions, gotDecisions) + cmp.Diff(lists, gotLists); d != "" {
				t.Errorf("%s, %s: %s", score, c.name, d)
			}
			if want := n == 1; want != (c.one && score == "cosine") {
				t.Errorf("%s, %s: %d searches", score, c.name, n)
			}
			if _, near, err := snap.DecideFor(t.Context(), g, q, c.o); err != nil {
				t.Fatal(err)
			} else if got, err := snap.SearchFrom(t.Context(), q, overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{Mode: retrieve.Dense, K: 20}),
				near); err != nil {
				t.Fatal(err)
			} else if want, err := snap.Search(t.Context(), q,
				overlay.On(retrieve.DefaultOptions(), retrieve.Options{Mode: retrieve.Dense, K: 20})); err != nil ||
				!cmp.Equal(want, got) {
				t.Errorf("%s, %s: found for fewer results than are asked for: %v", score, c.name, err)
			}
		}
	}
}

func where(t *testing.T, words ...string) retrieve.Filter {
	t.Helper()
	f, err := retrieve.ParseFilter(words)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
