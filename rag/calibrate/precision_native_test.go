//go:build native

package calibrate

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

var (
	precision = flag.Bool("precision", false,
		"compare samples of squad16's questions with all of them (docs/adr/0019-evidence.md); minutes")
	precisionStore = flag.String("precision-store", "",
		"a store that has squad16's contexts by their ids, and others; it gets calibrations")
)

// remembering embeds each text once.
type remembering struct {
	embed.Embedder
	mu    sync.Mutex
	known map[string][]float32
}

func (r *remembering) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	for _, text := range texts {
		if r.known[text] == nil {
			missing = append(missing, text)
		}
	}
	found, err := r.Embedder.Embed(ctx, missing, role)
	if err != nil {
		return nil, err
	}
	for i, text := range missing {
		r.known[text] = found.Row(i)
	}
	out := &embed.Embeddings{Dim: found.Dim, Tokens: make([]int, len(texts))}
	for _, text := range texts {
		out.Data = append(out.Data, r.known[text]...)
	}
	return out, nil
}

// squad returns a base of squad16's contexts, or the store that the flag names, with all questions about them.
func squad(t *testing.T) (base *knowledge.Base, questions string) {
	t.Helper()
	enc := minilm.Open(t, embed.Options{})
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	once := &remembering{Embedder: enc, known: map[string][]float32{}}
	store := *precisionStore
	store = cmp.Or(store, filepath.Join(t.TempDir(), "store"))
	base = knowledge.New(knowledge.Config{Dir: store, Engine: e,
		Encoder: func(context.Context) (embed.Embedder, error) { return once, nil }})
	t.Cleanup(func() { _ = base.Close() })
	if *precisionStore == "" {
		file := filepath.Join(t.TempDir(), "contexts.jsonl")
		text := lines(t, datasets.Lines(t, "squad16/contexts.jsonl"), func(l datasets.Line) any {
			return map[string]string{"id": l.ID, "topic": l.Topic, "text": l.Text}
		})
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in := ingest.Input{Paths: []string{file}, Options: ingest.Options{NoChunk: true}}
		if _, err := ingest.Run(t.Context(), base, in); err != nil {
			t.Fatal(err)
		}
	}
	return base, lines(t, datasets.Lines(t, "squad16/queries.jsonl"), func(l datasets.Line) any {
		return map[string]string{"context_id": l.ContextID, "text": l.Text}
	})
}

// lines are JSON lines of a data set's.
func lines(t *testing.T, list []datasets.Line, as func(datasets.Line) any) string {
	t.Helper()
	var all strings.Builder
	for _, l := range list {
		text, err := json.Marshal(as(l))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n", text)
	}
	return all.String()
}

// TestPrecision compares the policy's value of all questions with those of samples that end by the width of their
// interval, of 20 seeds each.
func TestPrecision(t *testing.T) {
	if !*precision {
		t.Skip("SKIP: go test -tags native ./rag/calibrate -run Precision -v -args -precision")
	}
	base, questions := squad(t)
	run := func(o Options) *Result {
		o.Queries, o.Source, o.KeepBytes, o.Policy = strings.NewReader(questions), "squad16", new(int64), "maximum:p5"
		r, err := Run(t.Context(), base, Input{Options: o})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, o := range []Options{{Score: "cosine", PerContext: 2}, {Score: "cosine+cover:0.5", PerContext: 2},
		{Score: "cosine", PerContext: 1000}, {Score: "cosine+cover:0.5", PerContext: 1000}} {
		o.Name, o.Sample = "full", All
		full := run(o)
		all := full.Effects()[0]
		t.Logf("%s, at most %d a context: %d questions about %d of %d contexts: P = %.4f (%.4f to %.4f)", o.Score,
			o.PerContext, full.Queries.Queries, full.Queries.Sampled, full.Corpus.Contexts, full.PolicyValue,
			full.Bootstrap.Low, full.Bootstrap.High)
		o.Name, o.Sample, o.Precise = "sampled", 0, true
		for _, o.narrow = range []float64{.1, gate.NarrowInterval, .05} {
			report(t, full, &all, o, run)
		}
	}
}

const seeds = 20

// report prints what the samples of a width come to.
func report(t *testing.T, full *Result, all *gate.Effect, o Options, run func(Options) *Result) {
	t.Helper()
	covered, contexts, questions, width, off, most := 0, 0, 0, 0., 0., 0.
	least, largest := math.Inf(1), 0.
	ended := map[string]int{}
	for seed := range uint64(seeds) {
		o.Seed = seed + 1
		r := run(o)
		b, p := r.Bootstrap, full.PolicyValue
		if b.Low <= p && p <= b.High {
			covered++
		}
		ended[r.Queries.Ended]++
		contexts, questions = contexts+r.Queries.Sampled, questions+r.Queries.Queries
		width += r.IntervalWidth() / seeds
		off += math.Abs(r.PolicyValue-p) / seeds
		most = max(most, math.Abs(r.PolicyValue-p))
		share := float64(all.Opens(all.InScope, r.Cutoff)) / float64(len(all.InScope))
		least, largest = min(least, share), max(largest, share)
	}
	t.Logf("  narrow %.3f: %.0f contexts, %.0f questions, width %.4f; off by %.4f (at most %.4f); covers %d of %d; opens "+
		"for %.3f to %.3f of all questions; ended by %v", o.narrow, float64(contexts)/seeds, float64(questions)/seeds,
		width, off, most, covered, seeds, least, largest, ended)
}
