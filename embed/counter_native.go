//go:build native

package embed

import "fmt"

// Counter counts tokens as an encoder does, without its weights. It is safe for concurrent use.
type Counter struct {
	t      *Tokenizer
	prefix string // of a document
	front  int    // tokens before a document's own
	limit  int    // tokens of a document that the encoder reads
}

var _ Examiner = (*Counter)(nil)

// OpenCounter loads the tokenizer and the settings of the encoder in the folder dir; tokens is Options.Tokens. Errors
// wrap ErrModel: also where only the encoder itself can tell how many tokens it reads. Close frees it.
func OpenCounter(dir string, tokens int) (*Counter, error) {
	set, err := readSettings(dir, KindEncoder)
	if err != nil {
		return nil, err
	}
	t, err := OpenTokenizer(dir)
	if err != nil {
		return nil, err
	}
	if set.MaxTokens <= t.special {
		t.Close()
		return nil, fmt.Errorf("%s: %w: max_tokens is %d", dir, ErrModel, set.MaxTokens)
	}
	err = set.windows(dir, tokens)
	var before []uint32
	if err == nil {
		before, err = t.encode(set.DocumentPrefix)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return &Counter{t, set.DocumentPrefix, len(before) - t.closing, max(set.MaxTokens, tokens)}, nil
}

// CountTokens returns the same as Embedder.CountTokens.
func (c *Counter) CountTokens(text string) (int, error) {
	text, _ = Repair(text)
	ids, err := c.t.encode(c.prefix + text)
	return len(ids), err
}

// Examine implements Examiner.
func (c *Counter) Examine(text string) (tokens int, content Content, err error) {
	text, _ = Repair(text)
	ids, err := c.t.encode(c.prefix + text)
	tokens = len(ids)
	ids, _ = truncate(ids, c.limit, c.t.closing)
	return tokens, measure(ids, c.front, c.t.closing, c.t.unknown), err
}

// MaxTokens returns how many tokens of a text the encoder reads.
func (c *Counter) MaxTokens() int { return c.limit }

// Close frees the tokenizer.
func (c *Counter) Close() { c.t.Close() }
