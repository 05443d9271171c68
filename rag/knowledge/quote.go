package knowledge

import (
	"context"

	"github.com/sluice-rag/sluice/engine"
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
