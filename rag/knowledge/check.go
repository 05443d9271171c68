package knowledge

import (
	"context"
	"strings"

	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/postings"
)

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
