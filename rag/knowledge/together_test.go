package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// anotherProcess is the variable with the seconds that this test binary works on a store as another process.
const anotherProcess = "SLUICE_KNOWLEDGE_TEST_SECONDS"

func another(dir, seconds string) int {
	n, _ := strconv.ParseFloat(seconds, 64)
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(n*float64(time.Second)))
	defer stop()
	e, err := engine.New(engine.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	enc := doubles.NewEncoder()
	base := knowledge.New(knowledge.Config{Dir: filepath.Join(dir, "store"), Engine: e,
		Encoder: func(context.Context) (embed.Embedder, error) { return enc, nil },
		Logger:  slog.New(slog.NewTextHandler(io.Discard, nil))})
	err = errors.Join(write(ctx, base, dir, "other"), base.Close())
	if err != nil {
		fmt.Fprintln(os.Stderr, "another process:", err)
		return 1
	}
	return 0
}

// write ingests documents, replaces them by others, and deletes them, until ctx ends.
func write(ctx context.Context, base *knowledge.Base, dir, name string) error {
	rng := rand.New(rand.NewPCG(uint64(len(name)), 2))
	for round := 0; ; round++ {
		var lines strings.Builder
		for range 1 + rng.IntN(20) {
			fmt.Fprintf(&lines, "{\"id\":\"%s-%d\",\"text\":\"%s\"}\n", name, rng.IntN(60), chapters(round, round+1)[0])
		}
		path := filepath.Join(dir, name+".jsonl")
		err := os.WriteFile(path, []byte(lines.String()), 0o600)
		if err == nil {
			_, err = ingest.Run(ctx, base, ingest.Input{Paths: []string{path},
				Options: ingest.Options{NoChunk: true, CommitEvery: 8}})
		}
		if err == nil {
			var st *store.Store
			if st, err = base.Writer(ctx, nil); err == nil {
				_, err = st.DeleteDocuments(ctx, []string{fmt.Sprintf("%s-%d", name, rng.IntN(60))})
				err = base.Changed(err)
			}
			if errors.Is(err, store.ErrNotFound) { // it was not drawn yet
				err = nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("round %d of %s: %w", round, name, err)
		}
	}
}

// TestTogether: 8 goroutines ask while ingest, delete and calibrate run, here and in another process. Nothing fails,
// and every text that is found has the vector that was found. SLUICE_TOGETHER_SECONDS=60 is the long form, in which
// nobody may wait for a turn for more than 50 ms and the longest wait for a core.
func TestTogether(t *testing.T) {
	seconds := 2.0
	long := os.Getenv("SLUICE_TOGETHER_SECONDS")
	if long != "" {
		var err error
		if seconds, err = strconv.ParseFloat(long, 64); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{doubles.NewBase(t, func(c *knowledge.Config) {
		c.IndexRows, c.IndexSearches = 50, 20
		c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}), t}
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", doubles.Contexts)}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	calibrateOnce := func(ctx context.Context) error {
		_, err := calibrate.Run(ctx, w.Base.Base, calibrate.Input{Options: calibrate.Options{
			Queries: strings.NewReader(doubles.Questions), Source: "questions", Resamples: -1}})
		return err
	}
	if err := calibrateOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], w.Dir)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%v", anotherProcess, seconds))
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(seconds*float64(time.Second)))
	defer stop()
	var calls, calibrations atomic.Int64
	var g sync.WaitGroup
	until := func(what string, fn func(ctx context.Context, i int) error) {
		g.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				time.Sleep(2 * time.Millisecond) // as a generator takes at least; else all wait for a core
				if err := fn(ctx, i); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	for k := range 8 {
		if k%2 == 0 {
			until("ask", func(ctx context.Context, i int) error {
				calls.Add(1)
				_, err := answer.Run(ctx, w.Base.Base, answer.Input{Question: asked[i%len(asked)],
					Options: overlay.On(answer.DefaultOptions(),
						answer.Options{Gate: []answer.GateMode{answer.GateOpen, answer.GateAuto}[i/2%2]}),
					Model: func(context.Context) (llm.Generator, error) {
						return doubles.NewModel("So it is [1]."),
							nil
					}})
				return err
			})
			continue
		}
		until("search", func(ctx context.Context, i int) error { calls.Add(1); return w.searchAndCompare(ctx) })
	}
	var starved time.Duration // the longest that a goroutine has waited for a core after a sleep
	until("clock", func(context.Context, int) error {
		began := time.Now()
		time.Sleep(time.Millisecond)
		starved = max(starved, time.Since(began)-time.Millisecond)
		return nil
	})
	until("ingest and delete", func(ctx context.Context, _ int) error { return write(ctx, w.Base.Base, w.Dir, "this") })
	until("calibrate", func(ctx context.Context, _ int) error { calibrations.Add(1); return calibrateOnce(ctx) })
	g.Wait()
	if err := child.Wait(); err != nil {
		t.Errorf("another process: %v", err)
	}
	st, err := w.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := st.Generation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Check(t.Context()); err != nil {
		t.Error(err)
	}
	waited := w.LongestWaits()
	t.Logf("%d calls and %d calibrations beside %d transactions; the longest waits for a turn were %v, for a core %v",
		calls.Load(), calibrations.Load(), n, waited, starved)
	if calls.Load() < 8 || n < 8 {
		t.Error("too little happened")
	}
	for turn, d := range waited {
		if long != "" && d > 50*time.Millisecond+starved { // whoever has the turn may wait for a core
			t.Errorf("a call waited %v for its turn (%s)", d, turn)
		}
	}
}

// searchAndCompare searches and computes the scores again from the texts.
func (w *world) searchAndCompare(ctx context.Context) error {
	snap, enc, err := w.Searchable(ctx)
	if err != nil {
		return err
	}
	defer snap.Release()
	q, err := enc.Embed(ctx, asked[:1], embed.Query)
	if err != nil {
		return err
	}
	found, err := snap.Search(ctx, retrieve.Queries{Vectors: knowledge.Vectors(q)},
		overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 8, Mode: retrieve.Dense}))
	if err != nil {
		return err
	}
	var ids, texts []string
	for _, r := range found[0].Results {
		ids = append(ids, r.ID)
	}
	chunks, err := snap.Chunks(ctx, ids)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		texts = append(texts, c.EmbedText())
	}
	e, err := enc.Embed(ctx, texts, embed.Document)
	if err != nil {
		return err
	}
	for i, r := range found[0].Results {
		var score float64
		for j, x := range e.Row(i) {
			score += float64(x) * float64(q.Row(0)[j])
		}
		if math.Abs(score-r.Score) > 1e-6 {
			return fmt.Errorf("%s has score %v, its text %q has %v", r.ID, r.Score, texts[i], score)
		}
	}
	return nil
}
