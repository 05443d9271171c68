package sluice_test

import (
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// counting is an encoder that counts.
type counting struct{ embed.Embedder }

func (counting) Stats() embed.Stats { return embed.Stats{Calls: 7} }

func TestStats(t *testing.T) {
	w := newWorld(t, func(c *sluice.Config) { c.Embedder = counting{doubles.NewEncoder()} })
	if s := w.Stats(); s.Encoder != nil || s.Model != nil || s.Reranker != nil || s.Classifier != nil {
		t.Errorf("before a model is open: %+v", s)
	}
	if _, err := w.Embed(t.Context(), []string{"a"}, embed.Query); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Encoder == nil || s.Encoder.Calls != 7 || s.Model != nil {
		t.Errorf("with an encoder: %+v", s)
	}
}
