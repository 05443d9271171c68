//go:build native

package pseudo

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// readContexts reads the first n contexts of each topic of squad16.
func readContexts(t *testing.T, n int) (chunks []corpus.Chunk) {
	t.Helper()
	count := map[string]int{}
	for _, c := range datasets.Lines(t, "squad16/contexts.jsonl") {
		if count[c.Topic]++; count[c.Topic] <= n {
			chunks = append(chunks, corpus.Chunk{ID: c.ID, Topic: c.Topic, Text: c.Text})
		}
	}
	return chunks
}

// open returns the default encoder and language model.
func open(t *testing.T) (*embed.Encoder, *llm.Model) {
	t.Helper()
	dir, err := models.Locate("all-MiniLM-L6-v2")
	if err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	gguf, err := models.LocateGGUF("SmolLM2-135M-Instruct")
	if err != nil {
		t.Skipf("SKIP: the default language model is not there: %v", err)
	}
	enc, err := embed.Open(t.Context(), dir, embed.Options{})
	if errors.Is(err, embed.ErrUnavailable) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = enc.Close() })
	model, err := llm.Open(t.Context(), gguf, llm.Options{ContextSize: 2048, Threads: 1})
	if errors.Is(err, llm.ErrUnavailable) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	return enc, model
}

// TestGenerateNative: the default model writes questions about real contexts that the encoder finds their
// contexts by.
func TestGenerateNative(t *testing.T) {
	chunks := readContexts(t, 2)
	enc, model := open(t)
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = c.Text
	}
	v, err := enc.Embed(t.Context(), texts, embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	c := Contexts{Vectors: engine.Vectors{Data: v.Data, Rows: len(chunks), Dim: v.Dim}, Chunks: chunks}
	got, report, err := Generate(t.Context(), model, enc, newEngine(t), c, Options{Sample: 3, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range got {
		t.Logf("%s: %s", q.ContextID, q.Text)
	}
	t.Logf("%+v", report)
	if report.Contexts != 3 || report.Calls != 9 || report.Kept < 4 || report.Barren > 1 {
		t.Errorf("%+v: too few questions of 9 can be used", report)
	}
	if total(report) != report.Generated {
		t.Errorf("%+v: not everything is counted", report)
	}
	for _, q := range got {
		if !strings.HasSuffix(q.Text, "?") {
			t.Errorf("%q is kept and does not end like a question", q.Text)
		}
	}
}

// TestGenerateTogetherNative: the questions are the same whether contexts are asked about one at a time or together.
func TestGenerateTogetherNative(t *testing.T) {
	texts := []string{
		"The herring lives in large schools and feeds on plankton. It spawns in autumn off the coast of Norway.",
		"A deferred function runs when the surrounding function returns, in last in first out order.",
		"Lighthouses warn ships of rocks and shallow water with a rotating lamp. The first ones burned wood.",
		"Sending on a closed channel causes a run time panic. Receiving from it gives the zero value of its type.",
		"The Danube rises in the Black Forest of Germany and flows through ten countries to the Black Sea.",
	}
	enc, model := open(t)
	v, err := enc.Embed(t.Context(), texts, embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	c := Contexts{Vectors: engine.Vectors{Data: v.Data, Rows: len(texts), Dim: v.Dim}}
	for i, text := range texts {
		c.Chunks = append(c.Chunks, corpus.Chunk{ID: fmt.Sprint("c", i), Text: text})
	}
	generate := func(parallel, want int) []Query {
		o := Options{Seed: 1, PerContext: 2, Parallel: parallel}
		queries, report, err := Generate(t.Context(), model, enc, newEngine(t), c, o)
		if err != nil || report.Parallel != want {
			t.Fatalf("%d at a time: %v", report.Parallel, err)
		}
		return queries
	}
	if diff := cmp.Diff(generate(1, 1), generate(0, model.Parallel())); diff != "" || model.Parallel() < 2 {
		t.Errorf("-one at a time, +%d at a time:\n%s", model.Parallel(), diff)
	}
}
