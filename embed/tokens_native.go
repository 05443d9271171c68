//go:build native

package embed

import (
	"fmt"
	"math"
)

// Tokens returns the ids of each text behind a prefix as an encoder reads it: repaired, with the special tokens, cut at
// maxTokens with the closing ones kept; and how many texts were cut.
func (t *Tokenizer) Tokens(texts []string, prefix string, maxTokens int) (ids [][]uint32, cut int, err error) {
	if maxTokens <= t.special {
		return nil, 0, fmt.Errorf("%w: texts cut at %d tokens, the special tokens alone are %d", ErrModel, maxTokens,
			t.special)
	}
	ids = make([][]uint32, len(texts))
	for i, text := range texts {
		fixed, _ := Repair(text)
		all, _, err := t.encodeHead(prefix+fixed, maxTokens)
		if err != nil {
			return nil, 0, fmt.Errorf("text %q: %w", text[:min(len(text), 40)], err)
		}
		var shorter bool
		if ids[i], shorter = truncate(all, maxTokens, t.closing); shorter {
			cut++
		}
	}
	return ids, cut, nil
}

// Windows returns a question with the windows of a context, each of at most maxTokens tokens. Windows in a row share
// stride tokens of the context.
func (t *Tokenizer) Windows(question, context string, maxTokens, stride int) ([]Window, error) {
	p, err := newPairer(t, maxTokens)
	if err != nil {
		return nil, err
	}
	fixed, _ := Repair(question)
	asked, err := p.read(fixed)
	if err != nil {
		return nil, err
	}
	windows, _, _, err := p.windows(asked, context, math.MaxInt32, stride)
	return windows, err
}

// Digest returns the sha256 of the tokenizer's file.
func (t *Tokenizer) Digest() string { return t.digest }
