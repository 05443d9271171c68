package knowledge

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// DecideEach decides for single contexts of the snapshot (rows, as retrieve.Result.Row has them) whether each alone
// would open the gate for a query: its text and its vector (1×d).
func (s *Snapshot) DecideEach(
	ctx context.Context, g *gate.Gate, text string, vector engine.Vectors, rows []int,
) ([]gate.Decision, error) {
	c := retrieve.Contexts{Vectors: s.View.Vectors, IDs: s.View.IDs}
	var bias kernels.Biases
	if g.ScoredBy().Words() {
		x, err := s.Postings(ctx)
		if err != nil {
			return nil, err
		}
		if bias, err = g.Bias(x, text); err != nil {
			return nil, err
		}
	}
	return g.Each(ctx, s.base.cfg.Engine, c, rows, vector, bias)
}

// Similarities returns the similarities of texts with a query (1×d), in the order of the texts. The texts need not be
// in the store.
func (b *Base) Similarities(
	ctx context.Context, metric kernels.Metric, vector engine.Vectors, texts []string,
) ([]float64, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	e, err := b.Embed(ctx, texts, embed.Document)
	if err != nil {
		return nil, err
	}
	hits, err := b.cfg.Engine.TopK(ctx, vector, Vectors(e), metric, len(texts), nil)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(texts))
	for _, h := range hits[0] {
		scores[h.Row] = h.Score
	}
	return scores, nil
}

// Rerank scores texts for a query with the base's cross-encoder. It returns probabilities in the order of the texts.
// The error is ErrOption if the base has no cross-encoder.
func (b *Base) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	if b.cfg.Scorer == nil {
		return nil, fmt.Errorf("%w: no reranker is named", ErrOption)
	}
	scorer, err := b.cfg.Scorer(ctx)
	if err != nil {
		return nil, err
	}
	found, err := scorer.Score(ctx, query, texts)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(texts))
	for i := range scores {
		scores[i] = 1 / (1 + math.Exp(-float64(found.Logits[i]))) // high values would be equal in float32
	}
	if found.Truncated > 0 {
		b.log.Info(fmt.Sprintf("the reranker cut %d of %d contexts at its limit", found.Truncated, len(texts)))
	}
	return scores, nil
}

// Reranker returns the digest of the base's cross-encoder, "" without one.
func (b *Base) Reranker(ctx context.Context) (string, error) {
	if b.cfg.Scorer == nil {
		return "", nil
	}
	scorer, err := b.cfg.Scorer(ctx)
	if errors.Is(err, ErrOption) { // none is named
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return scorer.Info().Digest, nil
}

// Extractor returns the base's reader. The error is ErrOption if the base has none.
func (b *Base) Extractor(ctx context.Context) (embed.Extractor, error) {
	if b.cfg.Extractor == nil {
		return nil, fmt.Errorf("%w: no reader is named", ErrOption)
	}
	return b.cfg.Extractor(ctx)
}

// Reads reports whether the base has a reader.
func (b *Base) Reads() bool { return b.cfg.Extractor != nil }
