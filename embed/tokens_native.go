//go:build native

package embed

import (
	"fmt"
	"math"
)

// Tokenizer turns texts into a model's tokens without the model.
type Tokenizer struct{ t *tokenizer }

// OpenTokenizer loads dir/tokenizer.json, or makes it from dir/vocab.txt. Errors wrap ErrModel. Close frees it.
func OpenTokenizer(dir string) (*Tokenizer, error) {
	t, err := openTokenizer(dir)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{t}, nil
}

// Tokens returns the ids of each text behind a prefix as an encoder reads it: repaired, with the special tokens, cut at
// maxTokens with the closing ones kept; and how many texts were cut.
func (t *Tokenizer) Tokens(texts []string, prefix string, maxTokens int) (ids [][]uint32, cut int, err error) {
	if maxTokens <= t.t.special {
		return nil, 0, fmt.Errorf("%w: texts cut at %d tokens, the special tokens alone are %d", ErrModel, maxTokens,
			t.t.special)
	}
	ids = make([][]uint32, len(texts))
	for i, text := range texts {
		fixed, _ := repair(text)
		all, _, err := t.t.encodeHead(prefix+fixed, maxTokens)
		if err != nil {
			return nil, 0, fmt.Errorf("text %q: %w", text[:min(len(text), 40)], err)
		}
		var shorter bool
		if ids[i], shorter = truncate(all, maxTokens, t.t.closing); shorter {
			cut++
		}
	}
	return ids, cut, nil
}

// Windows returns a question with the windows of a context, each of at most maxTokens tokens. Windows in a row share
// stride tokens of the context.
func (t *Tokenizer) Windows(question, context string, maxTokens, stride int) ([]Window, error) {
	p, err := newPairer(t.t, maxTokens)
	if err != nil {
		return nil, err
	}
	fixed, _ := repair(question)
	asked, err := p.read(fixed)
	if err != nil {
		return nil, err
	}
	ids, own, _, err := t.t.words(context, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	at := make([][2]int, len(own))
	for i, o := range own {
		at[i] = [2]int{o.start, o.end}
	}
	front := t.t.special - t.t.closing
	return t.t.pair.windowsOf(asked.ids, ids[front:front+len(own)], at, p.room, stride), nil
}

// Digest returns the sha256 of the tokenizer's file.
func (t *Tokenizer) Digest() string { return t.t.digest }

// Close frees the tokenizer.
func (t *Tokenizer) Close() { t.t.close() }
