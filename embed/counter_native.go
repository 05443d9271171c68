//go:build native

package embed

import "fmt"

// Counter counts tokens as an encoder does, without its weights. It is safe for concurrent use.
type Counter struct {
	t     *tokenizer
	set   *settings
	front int // tokens before a document's own
}

var _ Examiner = (*Counter)(nil)

// OpenCounter loads the tokenizer and the settings of the encoder in the folder dir; tokens is Options.Tokens. Errors
// wrap ErrModel: also where only the encoder itself can tell how many tokens it reads. Close frees it.
func OpenCounter(dir string, tokens int) (*Counter, error) {
	set, err := readSettings(dir, kindEncoder)
	if err != nil {
		return nil, err
	}
	t, err := openTokenizer(dir)
	if err != nil {
		return nil, err
	}
	if set.MaxTokens <= t.special {
		t.close()
		return nil, fmt.Errorf("%s: %w: max_tokens is %d", dir, ErrModel, set.MaxTokens)
	}
	err = set.windows(dir, tokens)
	set.MaxTokens = max(set.MaxTokens, tokens)
	var before []uint32
	if err == nil {
		before, err = t.encode(set.DocumentPrefix)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return &Counter{t: t, set: set, front: len(before) - t.closing}, nil
}

// CountTokens returns the same as Embedder.CountTokens.
func (c *Counter) CountTokens(text string) (int, error) {
	text, _ = repair(text)
	ids, err := c.t.encode(c.set.DocumentPrefix + text)
	return len(ids), err
}

// Examine implements Examiner.
func (c *Counter) Examine(text string) (tokens int, content Content, err error) {
	text, _ = repair(text)
	ids, err := c.t.encode(c.set.DocumentPrefix + text)
	tokens = len(ids)
	ids, _ = truncate(ids, c.set.MaxTokens, c.t.closing)
	return tokens, measure(ids, c.front, c.t.closing, c.t.unknown), err
}

// MaxTokens returns how many tokens of a text the encoder reads.
func (c *Counter) MaxTokens() int { return c.set.MaxTokens }

// Close frees the tokenizer.
func (c *Counter) Close() { c.t.close() }
