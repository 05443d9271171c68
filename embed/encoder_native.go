//go:build native

package embed

import "context"

// Encoder embeds texts. It is safe for concurrent use.
type Encoder struct{ *model }

var (
	_ Embedder    = (*Encoder)(nil)
	_ Examiner    = (*Encoder)(nil)
	_ TokenReader = (*Encoder)(nil)
)

// Open loads the encoder in the folder dir. The errors wrap ErrModel (naming the file, what is expected
// and what was found) or ErrLibrary; ctx's error comes at once when that ends. Close frees it.
func Open(ctx context.Context, dir string, o Options) (*Encoder, error) {
	return openAs[Encoder](ctx, dir, KindEncoder, o)
}

// Embed implements Embedder. A cancelled ctx ends it after the batches that are running.
func (e *Encoder) Embed(ctx context.Context, texts []string, role Role) (*Embeddings, error) {
	if e.whole > 0 {
		return e.inWindows(ctx, texts, role)
	}
	r, err := e.infer(ctx, len(texts), e.texts(texts, role))
	if err != nil {
		return nil, err
	}
	return &Embeddings{Data: r.data, Dim: e.session.dim, Tokens: r.tokens, Truncated: r.truncated,
		Repaired: r.repaired, Contents: r.contents}, nil
}

// CountTokens implements Embedder.
func (e *Encoder) CountTokens(text string) (n int, err error) {
	err = e.use(func() error { n, err = e.counter.CountTokens(text); return err })
	return n, err
}

// Examine implements Examiner.
func (e *Encoder) Examine(text string) (tokens int, c Content, err error) {
	err = e.use(func() error { tokens, c, err = e.counter.Examine(text); return err })
	return tokens, c, err
}

// TextOf implements TokenReader.
func (e *Encoder) TextOf(tokens []int32) (text string, err error) {
	err = e.use(func() error { text, err = e.tok.textOf(tokens); return err })
	return text, err
}
