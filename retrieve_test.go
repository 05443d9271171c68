package sluice_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// tenths scores a document by a tenth of its length in bytes over 60.
type tenths struct{ lengths }

func (tenths) Score(ctx context.Context, query string, documents []string) (*embed.Scores, error) {
	s, err := lengths{}.Score(ctx, query, documents)
	for i := range s.Logits {
		s.Logits[i] = (s.Logits[i] - 60) / 10
	}
	return s, err
}

// TestSearch checks the results of each query, their texts, and the parts of their scores.
func TestSearch(t *testing.T) {
	enc := doubles.NewEncoder()
	w := newWorld(t, func(c *sluice.Config) { c.Scorer, c.Embedder = tenths{}, enc })
	w.ingest(t, "a.jsonl", doubles.Contexts)
	search := func(o retrieve.Options, queries ...string) []sluice.Found {
		t.Helper()
		found, err := w.Retrieve(t.Context(), queries, o)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := search(overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{K: 2, Explain: true}), "Which plankton?", "Wann läuft es?")
	if len(found) != 2 || found[0].Results[0].ID != "herring" || found[0].Passages[0].Chunk.Text != herring ||
		found[0].Passages[0].Score != found[0].Results[0].Score || found[0].Taken.Ranking != "cosine+cover+share" ||
		found[1].Taken.Ranking != "dense" || found[1].Taken.Reason == "" || found[0].Results[0].Parts.Cover == nil {
		t.Errorf("%+v", found)
	}
	if f := search(overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{Where: retrieve.Filter{{Field: "topic", Op: "=", Value: "go"}}}),
		"Which plankton of the sea?")[0]; len(f.Results) != 2 || f.Taken.Contexts != 2 {
		t.Errorf("a topic: %+v", f)
	}
	if f := search(overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{Rerank: 4}), "Which plankton?")[0]; f.Results[0].ID != "close" ||
		f.Taken.Reranked != 4 {
		t.Errorf("the longest text is the best one to the reranker: %+v", f)
	}

	// search by words needs no vectors
	before := enc.Calls.Load()
	if f := search(overlay.On(retrieve.DefaultOptions(), retrieve.Options{Mode: retrieve.BM25}), "plankton",
		"nothing")[0]; f.Results[0].ID != "herring" {
		t.Errorf("%+v", f)
	}
	if n := enc.Calls.Load() - before; n != 0 {
		t.Errorf("bm25 embeds %d times", n)
	}
}

func TestSearchRefuses(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", doubles.Contexts)
	colour := retrieve.Condition{Field: "colour", Op: "=", Value: "red"}
	like := retrieve.Condition{Field: "topic", Op: "like", Value: "x"}
	for says, o := range map[string]retrieve.Options{
		"no reranker is named":             {Rerank: 3},
		"mode: must be one of auto, ":      {Mode: "best"},
		"fusion: must be one of min-max":   {Fusion: "sum"},
		"weight: 2 is not between 0 and 1": {Weight: 2},
		`has no field "colour"`:            {Where: retrieve.Filter{colour}},
		`no operator "like" (known: != !~`: {Where: retrieve.Filter{like}},
	} {
		o = overlay.On(retrieve.DefaultOptions(), o)
		_, err := w.Retrieve(t.Context(), []string{"x"}, o)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		_, asked := w.Ask(t.Context(), "x", overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateOpen, Retrieve: o}))
		if asked == nil {
			t.Errorf("ask takes what is refused with %q", says)
		}
	}
}

// TestAskTakesTheOptionsOfSearches checks that Ask uses mode, filter, reranker and joined passages, and records them in
// the trace.
func TestAskTakesTheOptionsOfSearches(t *testing.T) {
	w := newWorld(t, func(c *sluice.Config) { c.Scorer = tenths{} })
	w.ingest(t, "a.jsonl", doubles.Contexts)
	a, err := w.Ask(t.Context(), "Which plankton of the northern sea?",
		overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen,
			Retrieve: retrieve.Options{K: 2, Rerank: 2, Explain: true,
				Where: retrieve.Filter{{Field: "topic", Op: "=", Value: "sea"}}}}))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{a.Trace.Retrieved[0].ID, a.Trace.Retrieved[1].ID}
	if r := a.Trace.Ranking; !slices.Equal(ids, []string{"herring", "lights"}) || r == nil || r.Mode != retrieve.Auto ||
		r.Where != "topic=sea" || r.Reranked != 2 || a.Trace.Retrieved[0].Parts.Reranker == nil {
		t.Errorf("%v, %+v", ids, a.Trace.Ranking)
	}
}

// TestSearchPseudoQueries checks that a search can go by the questions of a calibration that has kept them, and the
// error where it has not.
func TestSearchPseudoQueries(t *testing.T) {
	w := newWorld(t, nil)
	w.ingest(t, "a.jsonl", doubles.Contexts)
	o := overlay.On(retrieve.DefaultOptions(), retrieve.Options{Mode: retrieve.PseudoQuery})
	refused := func(says string) {
		t.Helper()
		_, err := w.Retrieve(t.Context(), []string{"plankton"}, o)
		if !errors.Is(err, retrieve.ErrNoQuestions) || !errors.Is(err, retrieve.ErrOption) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
	}
	calibrated := func(keep bool) {
		t.Helper()
		lines := `{"context_id":"lights","text":"Which plankton does the herring eat?"}
{"context_id":"defer","text":"When does a deferred function run?"}
`
		if _, err := w.Calibrate(t.Context(), calibrate.Options{Queries: strings.NewReader(lines), Source: "lines",
			KeepQuestions: keep}); err != nil {
			t.Fatal(err)
		}
	}
	refused("not calibrated")
	calibrated(false)
	refused("--keep-questions")
	calibrated(true)
	for range 2 {
		found, err := w.Retrieve(t.Context(), []string{"Which plankton does the herring eat?"}, o)
		if err != nil {
			t.Fatal(err)
		}
		if r := found[0].Results; len(r) != 2 || r[0].ID != "lights" || r[0].Score < .999 || r[1].ID != "defer" {
			t.Errorf("the question about the lighthouses is this one, two contexts have none: %+v", r)
		}
	}
}
