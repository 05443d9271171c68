//go:build native

package embed

import (
	"flag"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

var shapes = flag.Bool("shapes", false, "compare rerankers of the sizes of published models with NumPy (minutes)")

// TestPublishedShapes is TestRerankersAgainstNumPy at the sizes of models that people use, but for their vocabulary.
func TestPublishedShapes(t *testing.T) {
	if !*shapes {
		t.Skip("SKIP: takes minutes; run with -shapes")
	}
	needLibrary(t)
	base := func(family string) checkpoint.Spec {
		return checkpoint.Spec{Family: family, Hidden: 768, Heads: 12, Layers: 12, Positions: 514}
	}
	deberta := base("deberta-v2")
	deberta.Positions, deberta.Deberta.Buckets = 512, 256
	separate := deberta
	separate.Layers, separate.Deberta.Separate, separate.Deberta.Types = 6, true, 2
	for as, s := range map[string]checkpoint.Spec{
		"ms-marco-MiniLM-L-6-v2": {Family: "bert", Hidden: 384, Heads: 12, Layers: 6, Positions: 512},
		"bert-base":              base("bert"),
		"distilbert-base":        {Family: "distilbert", Hidden: 768, Heads: 12, Layers: 6, Positions: 512},
		"roberta-base":           base("roberta"),
		"bge-reranker-base":      base("xlm-roberta"),
		"camembert-base":         base("camembert"),
		"mpnet-base":             base("mpnet"),
		"deberta-v3-base":        deberta,
		"deberta-v2, own projections of positions": separate,
	} {
		t.Run(as, func(t *testing.T) {
			s.Prefixed, s.Labels, s.Kind, s.MaxTokens = true, []string{"LABEL_0"}, "reranker", 160
			dir := writeCheckpoint(t, s)
			r := openReranker(t, dir, Options{})
			checkScores(t, r, dir, "when is the gate open?", strings.Repeat("the knowledge base ", 60))
		})
	}
}
