package sluice_test

import (
	"context"
	"encoding/json"
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
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Sluice over the small library, with what it logged.
type world struct {
	*sluice.Sluice
	dir string
	gen *doubles.Model
	log *strings.Builder
}

func newWorld(t *testing.T, change func(*sluice.Config)) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), gen: doubles.NewModel("An answer [2]."), log: &strings.Builder{}}
	cfg := sluice.Config{Store: filepath.Join(w.dir, "store"), Embedder: doubles.NewEncoder(), Generator: w.gen, Logger: slog.New(slog.NewTextHandler(w.log, nil))}
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

func (w *world) ingest(t *testing.T, name, text string) sluice.IngestResult {
	t.Helper()
	return w.ingestWith(t, name, text, sluice.IngestOptions{NoChunk: true})
}

func (w *world) ingestWith(t *testing.T, name, text string, o sluice.IngestOptions) sluice.IngestResult {
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

func (w *world) calibrate(t *testing.T) *sluice.CalibrateResult {
	t.Helper()
	r, err := w.Calibrate(t.Context(), sluice.CalibrateOptions{Queries: strings.NewReader(asked), Source: "asked"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLaterCallsSeeEarlierWrites(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.Retrieve(t.Context(), []string{"x"}, sluice.RetrieveOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without a store: %v", err)
	}
	w.ingest(t, "a.jsonl", library)
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
	if n, err := w.DeleteDocuments(t.Context(), []string{"fire"}); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if again, err := w.Gate(t.Context(), question); err != nil || again[0].Retrieve {
		t.Errorf("%+v %v", again, err)
	}
}

func TestAnotherProcessIsSeenAfterRefresh(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	reader := newWorld(t, func(c *sluice.Config) { c.Store = filepath.Join(w.dir, "store") })
	count := func() int {
		r, err := reader.Retrieve(t.Context(), []string{"x"}, sluice.RetrieveOptions{K: 100})
		if err != nil {
			t.Fatal(err)
		}
		return len(r[0])
	}
	first := count()
	w.ingest(t, "b.jsonl", `{"id":"fire","text":"The volcano on the island erupts every year."}`)
	if n := count(); n != first {
		t.Errorf("the picture changed by itself: %d, %d", first, n)
	}
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != first+1 {
		t.Errorf("%d contexts after Refresh, want %d", n, first+1)
	}
}

func TestCallsMayRunTogetherWithIngest(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	w.calibrate(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := w.Retrieve(context.WithoutCancel(t.Context()), []string{"lighthouses", "herring"}, sluice.RetrieveOptions{K: i + 1}); err != nil {
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

func TestCalibrateHasTheModelWriteQuestions(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	w.gen.Answers = []string{" does a deferred function run when the surrounding function returns?"}
	r, err := w.Calibrate(t.Context(), sluice.CalibrateOptions{PerContext: 1, RankLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Queries.Kind != "generated" || r.Queries.Model != "script" || r.Report == nil || r.Report.Generated != 4 || int64(r.Report.Kept) != r.Positive.N {
		t.Errorf("%+v %+v", r.Queries, r.Report)
	}
	var sum int
	for _, n := range r.Queries.Rejected {
		sum += n
	}
	if sum+r.Report.Kept != r.Report.Generated {
		t.Errorf("%d rejected and %d kept of %d", sum, r.Report.Kept, r.Report.Generated)
	}
	asked := len(w.gen.Requests())
	if _, err := w.Calibrate(t.Context(), sluice.CalibrateOptions{PerContext: 1, RankLimit: 1, Policy: "min"}); err != nil || len(w.gen.Requests()) != asked {
		t.Errorf("%v: %d questions were written again", err, len(w.gen.Requests())-asked)
	}
}

// The user's template for pseudo-queries is used, not only read.
func TestCalibrateAsksWithTheUsersTemplate(t *testing.T) {
	templates := t.TempDir()
	if err := os.WriteFile(filepath.Join(templates, "questions.tmpl"), []byte("=== user\nAsk {{.N}} times about: {{.Text}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *sluice.Config) { c.Templates = templates })
	w.ingest(t, "a.jsonl", library)
	w.gen.Answers = []string{"When does a deferred function run, in which order?\nWhy do lighthouses warn ships of rocks?"}
	if _, err := w.Calibrate(t.Context(), sluice.CalibrateOptions{PerContext: 2}); err != nil {
		t.Fatal(err)
	}
	if len(w.gen.Requests()) != 4 {
		t.Fatalf("%d requests for 4 contexts", len(w.gen.Requests()))
	}
	for _, r := range w.gen.Requests() {
		if len(r.Messages) != 1 || !strings.HasPrefix(r.Messages[0].Content, "Ask 2 times about: ") {
			t.Errorf("%+v", r)
		}
	}
}

func TestCalibrationJSONHasNoBulk(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	text, err := json.Marshal(w.calibrate(t))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "context_digests") || strings.Contains(string(text), "negative_histogram") || !strings.Contains(string(text), `"positive":{"n":4,`) {
		t.Errorf("%s", text)
	}
	var kept gate.Calibration
	file, err := os.ReadFile(filepath.Join(w.dir, "store", "calibration", "default.cal.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &kept); err != nil || len(kept.ContextDigests) != 4*8 {
		t.Errorf("the artifact lacks them: %v, %d bytes", err, len(kept.ContextDigests))
	}
}

func TestTransformationsSearchWithTheirQueries(t *testing.T) {
	for transform, c := range map[prompt.Transform]struct {
		answer string
		first  string // best context
		calls  int
	}{
		prompt.None:       {"", "lights", 1},
		prompt.Rewrite:    {"What does the herring feed on?", "herring", 2},
		prompt.HyDE:       {"The herring feeds on plankton of the northern sea.", "herring", 2},
		prompt.MultiQuery: {"1. What does sending on a closed channel cause?\n2. Does a deferred function run last in first out?", "defer", 2},
	} {
		t.Run(string(transform), func(t *testing.T) {
			w := newWorld(t, nil)
			w.ingest(t, "a.jsonl", library)
			w.gen.Answers = []string{c.answer, "Done [1]."}
			a, err := w.Ask(t.Context(), "What do lighthouses warn of?", sluice.AskOptions{Gate: sluice.GateOpen, Transform: transform})
			if err != nil {
				t.Fatal(err)
			}
			if a.Trace.Transform != transform || a.Trace.LLMCalls != c.calls || len(w.gen.Requests()) != c.calls {
				t.Errorf("transform %q with %d calls, %d requests", a.Trace.Transform, a.Trace.LLMCalls, len(w.gen.Requests()))
			}
			if got := a.Trace.Retrieved; len(got) != 4 || got[0].ID != c.first {
				t.Errorf("retrieved %v with %v, want %s", got, a.Trace.Queries, c.first)
			}
		})
	}
}

// The gate decides on what is searched for: a question that is out of scope as it stands opens it when its
// rewritten form is in scope, and stays out when the transformation is off.
func TestGateDecidesOnTheTransformedQuestion(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	w.calibrate(t)
	const question = "How long should I boil an egg?"
	w.gen.Answers = []string{"Three minutes."}
	plain, err := w.Ask(t.Context(), question, sluice.AskOptions{})
	if err != nil || plain.Retrieved || plain.Trace.LLMCalls != 1 {
		t.Fatalf("retrieved %v, %v", plain, err)
	}
	w.gen.Reset()
	w.gen.Answers = []string{"1. Why do lighthouses warn ships of rocks?\n2. When does a deferred function run, in which order?", "Rocks [1]."}
	a, err := w.Ask(t.Context(), question, sluice.AskOptions{Transform: prompt.MultiQuery})
	if err != nil {
		t.Fatal(err)
	}
	if !a.Retrieved || a.Trace.LLMCalls != 2 || a.Trace.Gate == nil || a.Trace.Gate.Score <= plain.Trace.Gate.Score {
		t.Errorf("queries %v, gate %+v, %d calls", a.Trace.Queries, a.Trace.Gate, a.Trace.LLMCalls)
	}
}

func TestAskCutsToTheWindowAndSaysSo(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	w.gen.Window = 110
	a, err := w.Ask(t.Context(), "What do lighthouses warn of?", sluice.AskOptions{Gate: sluice.GateOpen, MaxTokens: 20})
	if err != nil {
		t.Fatal(err)
	}
	if a.Trace.DroppedPassages+a.Trace.TruncatedPassages == 0 || !strings.Contains(w.log.String(), "short of tokens") || len(a.Citations) >= 4 {
		t.Errorf("%+v\n%s", a.Trace, w.log)
	}
	w.gen.Window = 30
	if _, err := w.Ask(t.Context(), "What do lighthouses warn of?", sluice.AskOptions{Gate: sluice.GateOpen, MaxTokens: 20}); !errors.Is(err, prompt.ErrBudget) {
		t.Errorf("%v", err)
	}
}

func TestAskStopsWithItsStream(t *testing.T) {
	w := newWorld(t, nil)
	gone := errors.New("the reader has gone")
	_, err := w.Ask(t.Context(), "x", sluice.AskOptions{Gate: sluice.GateClosed, Stream: func(string) error { return gone }})
	if !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, cfg := range []sluice.Config{{StaleTolerance: 2}, {Threads: -1}, {ContextTokens: -1}} {
		if _, err := sluice.Open(t.Context(), cfg); !errors.Is(err, sluice.ErrOption) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	for name, err := range map[string]error{
		"gate mode":    second(w.Ask(t.Context(), "x", sluice.AskOptions{Gate: "ajar"})),
		"answer":       second(w.Ask(t.Context(), "x", sluice.AskOptions{MaxTokens: -1})),
		"commit every": second(w.Ingest(t.Context(), []string{w.dir}, sluice.IngestOptions{CommitEvery: -1})),
		"chunk":        second(w.Ingest(t.Context(), []string{w.dir}, sluice.IngestOptions{Chunk: "10"})),
		"name":         second(w.Calibrate(t.Context(), sluice.CalibrateOptions{Name: "a/b"})),
		"sample":       second(w.Calibrate(t.Context(), sluice.CalibrateOptions{Sample: -1})),
		"plot":         second(w.Calibrate(t.Context(), sluice.CalibrateOptions{Plot: "x.pdf"})),
	} {
		if !errors.Is(err, sluice.ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestClosedIsClosed(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", library)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"embed":    second(w.Embed(t.Context(), []string{"x"}, 0)),
		"retrieve": second(w.Retrieve(t.Context(), []string{"x"}, sluice.RetrieveOptions{})),
		"ask":      second(w.Ask(t.Context(), "x", sluice.AskOptions{Gate: sluice.GateClosed})),
	} {
		if !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is embedded is the heading with the text: a chunk is found by words of its heading alone, and a
// changed heading makes it another vector.
func TestHeadingsAreEmbedded(t *testing.T) {
	w := newWorld(t, nil)
	o := sluice.IngestOptions{Chunk: "60/0"}
	danube := "# Danube\n\n" + strings.Repeat("It rises in the hills and feeds two mills before the sea. ", 4)
	cargo := "\n\n" + strings.Repeat("Cargo ships carry grain and ore on it all the year round. ", 4) + "\n"
	w.ingestWith(t, "a.md", danube+"\n\n# Elbe"+cargo, o)
	best := func(query string) (string, float64) {
		r, err := w.Retrieve(t.Context(), []string{query}, sluice.RetrieveOptions{K: 1})
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Chunks(t.Context(), []string{r[0][0].ID})
		if err != nil {
			t.Fatal(err)
		}
		return c[0].Heading, r[0][0].Score
	}
	if heading, score := best("elbe"); heading != "Elbe" || score <= 0 {
		t.Errorf("%q with %v", heading, score)
	}
	r := w.ingestWith(t, "a.md", danube+"\n\n# Rhine"+cargo, o)
	if r.Embedded != 1 || r.Known != 1 {
		t.Errorf("a changed heading: %+v", r)
	}
	if heading, score := best("rhine"); heading != "Rhine" || score <= 0 {
		t.Errorf("%q with %v", heading, score)
	}
}
