//go:build native

package embed

import (
	"context"
	"fmt"
)

// Reranker scores how well documents answer a query: a cross-encoder, which reads both as one sequence. It is safe for
// concurrent use.
type Reranker struct {
	m    *model
	pair *pairer
}

var _ Scorer = (*Reranker)(nil)

// OpenReranker loads a sequence-classification checkpoint with one label (BERT, MiniLM, RoBERTa, XLM-R, …) or a ready
// export with the output "logits". tokenizer.json must say how it reads two texts. Errors as of Open.
func OpenReranker(ctx context.Context, dir string, o Options) (*Reranker, error) {
	m, err := openModel(ctx, dir, kindReranker, o)
	if err != nil {
		return nil, err
	}
	pair, err := newPairer(m.tok, m.set.MaxTokens)
	if n := len(m.src.labels); err == nil && n != 1 {
		err = fmt.Errorf("%s: %w: it has %d labels, a reranker has one score", m.src.weights(), ErrModel, n)
	}
	if err != nil {
		m.free()
		return nil, err
	}
	return &Reranker{m, pair}, nil
}

// Score implements Scorer. Pairs of similar length are computed together, and a cancelled ctx ends it after the
// batches that are running. Progress counts documents.
func (r *Reranker) Score(ctx context.Context, query string, documents []string) (*Scores, error) {
	s := &Scores{}
	var question half
	err := r.m.use(func() (err error) {
		fixed, changed := repair(query)
		if changed {
			s.Repaired++
		}
		question, err = r.pair.read(r.m.set.prefix(Query) + fixed)
		return err
	})
	if err != nil {
		return nil, err
	}
	cuts := make([][2]bool, len(documents))
	result, err := r.m.infer(ctx, len(documents), func(i int) (input, error) {
		fixed, changed := repair(documents[i])
		document, err := r.pair.read(r.m.set.prefix(Document) + fixed)
		if err != nil {
			return input{}, fmt.Errorf("document %d: %w", i, err)
		}
		in, cut, err := r.pair.input(question, document, changed)
		cuts[i] = cut
		return in, err
	})
	if err != nil {
		return nil, err
	}
	s.Logits, s.Tokens, s.Truncated = result.data, result.tokens, result.truncated
	s.Repaired += result.repaired
	for _, c := range cuts {
		if c[0] {
			s.QueryTruncated++
		}
	}
	return s, nil
}

// Info identifies the reranker; Dim is 1.
func (r *Reranker) Info() Info { return r.m.info }

// Stats counts what it has computed.
func (r *Reranker) Stats() Stats { return r.m.batches.now() }

// Close waits for the calls under way and frees the model; later calls return ErrClosed.
func (r *Reranker) Close() error { return r.m.close() }
