//go:build native

package sluice_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
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
	if parts, err := s.LabelsParts(t.Context()); errors.Is(err, embed.ErrLibrary) {
		t.Skipf("SKIP: %v", err)
	} else if err != nil || parts {
		t.Fatalf("%t, %v", parts, err)
	}
	classes, err := s.Classify(t.Context(), texts)
	if err != nil || len(classes.Probabilities) != 4 || classes.Labels[1] != "bad" {
		t.Errorf("%+v, %v", classes, err)
	}
	if _, err := s.Spans(t.Context(), texts); !errors.Is(err, sluice.ErrOption) ||
		!strings.Contains(err.Error(), "use Classify") {
		t.Errorf("%v", err)
	}
	scores, err := s.Rerank(t.Context(), "the gate", append(texts, "near"))
	if err != nil || len(scores.Logits) != 3 || len(scores.Ranked(2)) != 2 {
		t.Errorf("%+v, %v", scores, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Rerank(t.Context(), "the gate", texts); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	s = openHeads(t, "token-classifier", "O", "B-X", "I-X")
	spans, err := s.Spans(t.Context(), texts)
	if err != nil || len(spans.Texts) != 2 || len(spans.Texts[1]) != 0 {
		t.Errorf("%+v, %v", spans, err)
	}
	if _, err := s.Classify(t.Context(), texts); !errors.Is(err, sluice.ErrOption) ||
		!strings.Contains(err.Error(), "use Spans") {
		t.Errorf("%v", err)
	}
}
