//go:build native

package embed

import (
	"context"
	"fmt"
)

// Reranker scores how well documents answer a query: a cross-encoder, which reads both as one sequence. It is safe for
// concurrent use.
type Reranker struct{ *model }

var _ Scorer = (*Reranker)(nil)

// OpenReranker loads a sequence-classification checkpoint with one label (BERT, MiniLM, RoBERTa, XLM-R, …) or a ready
// export with the output "logits". tokenizer.json must say how it reads two texts. Errors as of Open.
func OpenReranker(ctx context.Context, dir string, o Options) (*Reranker, error) {
	return openAs[Reranker](ctx, dir, KindReranker, o)
}

// Score implements Scorer. Pairs of similar length are computed together, and a cancelled ctx ends it after the
// batches that are running. Progress counts documents.
func (r *Reranker) Score(ctx context.Context, query string, documents []string) (*Scores, error) {
	var question half
	err := r.use(func() (err error) {
		question, err = r.pair.read(r.set.prefix(Query), query)
		return err
	})
	if err != nil {
		return nil, err
	}
	cuts := make([][2]bool, len(documents))
	result, err := r.infer(ctx, len(documents), func(i int) (input, error) {
		document, err := r.pair.read(r.set.prefix(Document), documents[i])
		if err != nil {
			return input{}, fmt.Errorf("document %d: %w", i, err)
		}
		in, cut, err := r.pair.join(question, document)
		cuts[i] = cut
		return in, err
	})
	if err != nil {
		return nil, err
	}
	s := &Scores{Logits: result.data, Tokens: result.tokens, Truncated: result.truncated, Repaired: result.repaired}
	if question.repaired {
		s.Repaired++
	}
	for _, c := range cuts {
		if c[0] {
			s.QueryTruncated++
		}
	}
	return s, nil
}
