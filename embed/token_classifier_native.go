//go:build native

package embed

import (
	"context"
	"fmt"
)

// TokenClassifier finds the parts of texts that have a label, such as names. It is safe for concurrent use.
type TokenClassifier struct{ m *model }

var _ Tagger = (*TokenClassifier)(nil)

// OpenTokenClassifier loads a token-classification checkpoint (BERT, DistilBERT, RoBERTa, MPNet, …) or a ready export
// with the output "logits" for each token. Errors as of Open.
func OpenTokenClassifier(ctx context.Context, dir string, o Options) (*TokenClassifier, error) {
	m, err := openModel(ctx, dir, kindTokens, o)
	if err != nil {
		return nil, err
	}
	return &TokenClassifier{m}, nil
}

// Spans implements Tagger.
func (c *TokenClassifier) Spans(ctx context.Context, texts []string) (*Spans, error) {
	tokens := make([][]token, len(texts))
	first := make([]int, len(texts)) // of each text, its first token behind the special ones
	r, err := c.m.infer(ctx, len(texts), func(i int) (input, error) {
		ids, own, cut, err := c.m.tok.words(texts[i], c.m.set.MaxTokens)
		if err != nil {
			return input{}, fmt.Errorf("text %q: %w", texts[i][:min(len(texts[i]), 40)], err)
		}
		tokens[i], first[i] = own, c.m.tok.special-c.m.tok.closing
		_, changed := repair(texts[i])
		return input{sequence: sequence{ids: ids}, cut: cut, repaired: changed}, nil
	})
	if err != nil {
		return nil, err
	}
	out := &Spans{Texts: make([][]Span, len(texts)), Labels: c.m.src.labels, Tokens: r.tokens, Truncated: r.truncated,
		Repaired: r.repaired}
	n := len(out.Labels)
	for i := range texts {
		out.Texts[i] = trimmed(decode(tokens[i], r.data[(r.starts[i]+first[i])*n:], out.Labels), texts[i])
	}
	return out, nil
}

// Info identifies the token classifier; Dim is the number of labels.
func (c *TokenClassifier) Info() Info { return c.m.info }

// Close waits for the calls under way and frees the model; later calls return ErrClosed.
func (c *TokenClassifier) Close() error { return c.m.close() }
