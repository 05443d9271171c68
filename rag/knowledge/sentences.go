package knowledge

import (
	"context"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/excerpt"
)

// Sentences finds in each passage the sentence that is nearest to the queries of its list, as excerpt.Nearest says.
func (b *Base) Sentences(
	ctx context.Context, metric kernels.Metric, queries []engine.Vectors, passages [][]string,
) ([][]*excerpt.Sentence, error) {
	return excerpt.Nearest(ctx, b.sentences(metric), queries, passages)
}

// SentenceScores finds the sentences of each passage with their scores for the queries of its list, as excerpt.Scores
// says.
func (b *Base) SentenceScores(
	ctx context.Context, metric kernels.Metric, queries []engine.Vectors, passages [][]string,
) ([][][]excerpt.Sentence, error) {
	return excerpt.Scores(ctx, b.sentences(metric), queries, passages)
}

// sentences are options with the base's encoder, whose vectors of sentences are kept.
func (b *Base) sentences(metric kernels.Metric) excerpt.Options {
	return excerpt.Options{Engine: b.cfg.Engine, Metric: metric, Embed: func(ctx context.Context, texts []string) (
		engine.Vectors, error) {
		enc, err := b.Encoder(ctx)
		if err != nil {
			return engine.Vectors{}, err
		}
		return b.kept.embed(ctx, enc, texts)
	}}
}
