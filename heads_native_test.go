//go:build native

package sluice_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// openHeads opens a system with a classifier and a reranker of random weights.
func openHeads(t *testing.T, kind string, labels ...string) *sluice.Sluice {
	t.Helper()
	classifier, reranker := t.TempDir(), t.TempDir()
	for dir, s := range map[string]checkpoint.Spec{
		classifier: {Family: "bert", Kind: kind, Labels: labels},
		reranker:   {Family: "xlm-roberta", Kind: "reranker", Labels: []string{"x"}},
	} {
		if err := checkpoint.Write(dir, s); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sluice.Open(t.Context(), sluice.Config{Store: t.TempDir(), Classifier: classifier, Reranker: reranker})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestClassifySpansRerank(t *testing.T) {
	texts := []string{"the gate is open", ""}
	s := openHeads(t, "classifier", "good", "bad")
	if parts, err := s.Models().LabelsParts(t.Context()); errors.Is(err, embed.ErrLibrary) {
		t.Skipf("SKIP: %v", err)
	} else if err != nil || parts {
		t.Fatalf("%t, %v", parts, err)
	}
	classes, err := s.Models().Classify(t.Context(), texts)
	if err != nil || len(classes.Probabilities) != 4 || classes.Labels[1] != "bad" {
		t.Errorf("%+v, %v", classes, err)
	}
	if _, err := s.Models().Spans(t.Context(), texts); !errors.Is(err, sluice.ErrOption) ||
		!strings.Contains(err.Error(), "use Classify") {
		t.Errorf("%v", err)
	}
	scores, err := s.Models().Rerank(t.Context(), "the gate", append(texts, "near"))
	if err != nil || len(scores.Logits) != 3 || len(scores.Ranked(2)) != 2 {
		t.Errorf("%+v, %v", scores, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Models().Rerank(t.Context(), "the gate", texts); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	s = openHeads(t, "token-classifier", "O", "B-X", "I-X")
	spans, err := s.Models().Spans(t.Context(), texts)
	if err != nil || len(spans.Texts) != 2 || len(spans.Texts[1]) != 0 {
		t.Errorf("%+v, %v", spans, err)
	}
	if _, err := s.Models().Classify(t.Context(), texts); !errors.Is(err, sluice.ErrOption) ||
		!strings.Contains(err.Error(), "use Spans") {
		t.Errorf("%v", err)
	}
}

// TestEntailmentChecksAnswers checks that a sentence that word overlap does not decide gets the model's probability.
func TestEntailmentChecksAnswers(t *testing.T) {
	dir := t.TempDir()
	if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert", Kind: "entailment",
		Labels: []string{"contradiction", "entailment", "neutral"}}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *sluice.Config) { c.Entailment = dir })
	w.ingest(t, "a.jsonl", doubles.Contexts)
	const said = "Lighthouses warn sailing ships of icebergs, pirates and rocks."
	w.gen.Answers = []string{said}
	a, err := w.Ask(t.Context(), "Why do lighthouses warn ships?", overlay.On(answer.DefaultOptions(),
		answer.Options{Style: answer.Write}))
	if errors.Is(err, embed.ErrLibrary) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil || len(a.Trace.Checked) != 1 || len(a.Trace.Checked[0].Places) != 1 {
		t.Fatalf("%+v, %v", a.Trace.Checked, err)
	}
	got := a.Trace.Checked[0]
	e, err := embed.OpenEntailment(t.Context(), dir, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	place := got.Places[0]
	if place.Start != 0 {
		t.Fatalf("%+v", place)
	}
	const premise = "Lighthouses warn ships of rocks and shallow water with a rotating lamp."
	want, err := e.Entails(t.Context(), []string{premise}, []string{said})
	if d := got.Score - want[0]; err != nil || d > 1e-6 || d < -1e-6 || got.Backed != (want[0] >= .5) {
		t.Errorf("%+v, %v expected, %v", got, want, err)
	}
}

// TestRerankedSearch checks that a search is ordered by the cross-encoder, with the scores that Rerank gives.
func TestRerankedSearch(t *testing.T) {
	dir := t.TempDir()
	if err := checkpoint.Write(dir,
		checkpoint.Spec{Family: "xlm-roberta", Kind: "reranker", Labels: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *sluice.Config) { c.Reranker = dir })
	w.ingest(t, "a.jsonl", doubles.Contexts)
	const query = "Why do lighthouses warn ships?"
	found, err := w.Retrieve(t.Context(), []string{query}, overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{Rerank: 4, Explain: true}))
	if errors.Is(err, embed.ErrLibrary) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range found[0].Passages {
		texts = append(texts, p.Chunk.EmbedText())
	}
	scores, err := w.Models().Rerank(t.Context(), query, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range found[0].Results {
		if d := r.Score - float64(scores.Probability(i)); d > 1e-6 || d < -1e-6 || *r.Parts.Reranker != r.Score ||
			i > 0 && r.Score > found[0].Results[i-1].Score {
			t.Errorf("result %d has %v, the reranker %v", i, r.Score, scores.Probability(i))
		}
	}
	if len(found[0].Results) != 4 || found[0].Taken.Reranked != 4 {
		t.Errorf("%+v", found[0])
	}
}
