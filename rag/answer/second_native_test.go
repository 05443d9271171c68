//go:build native

package answer_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// TestSecondQuestionWithACrossEncoder: its best probability is a feature with a weight of its own; a base with another
// one, or none, is not asked by that calibration.
func TestSecondQuestionWithACrossEncoder(t *testing.T) {
	open := func(layers int) (embed.Scorer, string) {
		dir := t.TempDir()
		spec := checkpoint.Spec{Family: "bert", Kind: "reranker", Labels: []string{"relevance"}, Layers: layers}
		if err := checkpoint.Write(dir, spec); err != nil {
			t.Fatal(err)
		}
		s, err := embed.OpenReranker(t.Context(), dir, embed.Options{})
		if errors.Is(err, embed.ErrLibrary) {
			t.Skipf("SKIP: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s, s.Info().Digest
	}
	scorer, digest := open(1)
	w, second := newHarbourWith(t, func(c *knowledge.Config) {
		c.Scorer = func(context.Context) (embed.Scorer, error) { return scorer, nil }
	})
	if second.Reranker != digest || len(second.Weights) != 3 || second.Weights[2] == 0 {
		t.Fatalf("%+v of %s", second, digest)
	}
	ask := func() *answer.Sufficient {
		w.Model.Reset("Coal [1].")
		a, err := w.ask(t, "What does the ship dabok carry to the island?", overlay.On(answer.DefaultOptions(),
			answer.Options{Style: answer.Write}))
		if err != nil {
			t.Fatal(err)
		}
		return a.Trace.Second
	}
	s := ask()
	if s == nil || s.Reranker == nil || s.Verdict != gate.Answers {
		t.Fatalf("%+v", s)
	}
	want := second.Weights[0] + second.Weights[1]*s.Evidence + second.Weights[2]**s.Reranker
	if math.Abs(s.Score-want) > 1e-9 || *s.Reranker <= 0 || *s.Reranker >= 1 {
		t.Errorf("%+v, expected %v", s, want)
	}
	if scorer, _ = open(2); ask() != nil {
		t.Error("another cross-encoder than the calibration's was asked")
	}
}
