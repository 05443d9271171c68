package knowledge

import (
	"context"
	"strings"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/quote"
)

// Quotes chooses the sentences of passages that answer a question, better first, as quote.Choose says, with the engine
// and the encoder of the base. The vectors are the question's, a row for each way in which it was put; what its words
// count is known from the snapshot's texts.
func (s *Snapshot) Quotes(
	ctx context.Context, o quote.Options, vectors engine.Vectors, passages []string,
) ([]quote.Quote, error) {
	x, err := s.Postings(ctx)
	if err != nil {
		return nil, err
	}
	q, err := x.Query(o.Question, postings.Scoring{Kind: postings.Cover, Content: true})
	if err != nil {
		return nil, err
	}
	o.Engine, o.Embed = s.base.cfg.Engine, s.base.sentences(s.Metric()).Embed
	return quote.Choose(ctx, o, vectors, q, passages)
}

// Evidence weighs how well passages answer a question, as quote.Weigh says. ok is false if they have no sentence.
func (s *Snapshot) Evidence(ctx context.Context, question string, vectors engine.Vectors, passages []string) (
	e quote.Support, ok bool, err error,
) {
	x, err := s.Postings(ctx)
	if err != nil {
		return e, false, err
	}
	q, err := x.Query(question, postings.Scoring{Kind: postings.Cover})
	if err != nil {
		return e, false, err
	}
	o := quote.Options{Engine: s.base.cfg.Engine, Embed: s.base.sentences(s.Metric()).Embed, Question: question}
	return quote.Weigh(ctx, o, vectors, q, s.base.QuestionLanguage(question), passages)
}

// Check says of each sentence of an answer to a question whether passages back it, as check.Check does. What words
// weigh is known from the snapshot's texts, and in doubt Config.Entails decides, or the encoder. found is what a reader
// has found in the passages; it may be nil.
func (s *Snapshot) Check(ctx context.Context, question, answer string, passages []string, found []check.Found) (
	[]check.Sentence, error,
) {
	x, err := s.Postings(ctx)
	if err != nil {
		return nil, err
	}
	words := func(text string) ([]check.Word, error) {
		q, err := x.Query(text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			return nil, err
		}
		list := make([]check.Word, len(q.Terms()))
		for i, t := range q.Terms() {
			list[i] = check.Word{Term: t.Text, Weight: t.IDF}
		}
		return list, nil
	}
	o := check.Options{Words: words, Entities: s.base.finder().Find, Question: question, Found: found,
		Language: s.base.Language(strings.Join(passages, " "))}
	if s.base.cfg.Entails != nil {
		o.Scorer = check.Entailment(s.base.cfg.Entails)
	} else {
		o.Scorer = check.Cosine(s.base.cfg.Engine, s.base.sentences(s.Metric()).Embed)
	}
	return check.Check(ctx, o, answer, passages)
}

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
