//go:build native

package embed

import "context"

// Encoder embeds texts. It is safe for concurrent use.
type Encoder struct{ m *model }

var (
	_ Embedder    = (*Encoder)(nil)
	_ Examiner    = (*Encoder)(nil)
	_ TokenReader = (*Encoder)(nil)
)

// Open loads the encoder in the folder dir. The errors wrap ErrModel (naming the file, what is expected
// and what was found) or ErrLibrary; ctx's error comes at once when that ends. Close frees it.
func Open(ctx context.Context, dir string, o Options) (*Encoder, error) {
	m, err := openModel(ctx, dir, kindEncoder, o)
	if err != nil {
		return nil, err
	}
	return &Encoder{m}, nil
}

// Embed implements Embedder. A cancelled ctx ends it after the batches that are running.
func (e *Encoder) Embed(ctx context.Context, texts []string, role Role) (*Embeddings, error) {
	if e.m.whole > 0 {
		return e.m.inWindows(ctx, texts, role)
	}
	r, err := e.m.infer(ctx, len(texts), e.m.texts(texts, role))
	if err != nil {
		return nil, err
	}
	return &Embeddings{Data: r.data, Dim: e.m.session.dim, Tokens: r.tokens, Truncated: r.truncated,
		Repaired: r.repaired, Contents: r.contents}, nil
}

// CountTokens implements Embedder.
func (e *Encoder) CountTokens(text string) (int, error) {
	text, _ = repair(text)
	n := 0
	err := e.m.use(func() error {
		ids, err := e.m.tok.encode(e.m.set.DocumentPrefix + text)
		n = len(ids)
		return err
	})
	return n, err
}

// Examine implements Examiner.
func (e *Encoder) Examine(text string) (tokens int, c Content, err error) {
	text, _ = repair(text)
	err = e.m.use(func() error {
		ids, err := e.m.tok.encode(e.m.set.DocumentPrefix + text)
		tokens = len(ids)
		ids, _ = truncate(ids, e.m.info.MaxTokens, e.m.tok.closing)
		c = e.m.content(ids, Document)
		return err
	})
	return tokens, c, err
}

// TextOf implements TokenReader.
func (e *Encoder) TextOf(tokens []int32) (text string, err error) {
	err = e.m.use(func() error { text, err = e.m.tok.textOf(tokens); return err })
	return text, err
}

// Info implements Embedder.
func (e *Encoder) Info() Info { return e.m.info }

// Stats counts what it has computed.
func (e *Encoder) Stats() Stats { return e.m.batches.now() }

// Close waits for the calls under way and frees the model; later calls return ErrClosed.
func (e *Encoder) Close() error { return e.m.close() }
