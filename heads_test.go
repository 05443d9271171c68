package sluice_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
)

// lengths scores a document by its length.
type lengths struct{}

func (lengths) Score(_ context.Context, _ string, documents []string) (*embed.Scores, error) {
	s := &embed.Scores{}
	for _, d := range documents {
		s.Logits = append(s.Logits, float32(len(d)))
	}
	return s, nil
}

func (lengths) Info() embed.Info { return embed.Info{} }

func TestHeadsNeedAName(t *testing.T) {
	s, err := sluice.Open(t.Context(), sluice.Config{Store: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, classify := s.Models().Classify(t.Context(), nil)
	_, spans := s.Models().Spans(t.Context(), nil)
	_, parts := s.Models().LabelsParts(t.Context())
	_, rerank := s.Models().Rerank(t.Context(), "x", nil)
	for _, err := range []error{classify, spans, parts, rerank} {
		if !errors.Is(err, sluice.ErrOption) || !strings.Contains(err.Error(), "is named") {
			t.Errorf("%v", err)
		}
	}
}

func TestRerankWithAScorer(t *testing.T) {
	s, err := sluice.Open(t.Context(), sluice.Config{Store: t.TempDir(), Scorer: lengths{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scores, err := s.Models().Rerank(t.Context(), "x", []string{"aa", "aaaa", "", "bbbb"})
	if err != nil || !slices.Equal(scores.Ranked(0), []int{1, 3, 0, 2}) {
		t.Errorf("%+v, %v", scores, err)
	}
}
