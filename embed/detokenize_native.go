//go:build native

package embed

import (
	"fmt"
	"slices"
)

// textOf returns the text of which the tokenizer makes tokens, which may have its special tokens around them. What
// tokens of another vocabulary spell in this one it often cuts into others: then it is ErrTokens.
func (t *Tokenizer) textOf(tokens []int32) (string, error) {
	ids, vocabulary := make([]uint32, len(tokens)), t.t.VocabSize()
	for i, n := range tokens {
		if n < 0 || uint32(n) >= vocabulary {
			return "", fmt.Errorf("%w: the vocabulary has no token %d", ErrTokens, n)
		}
		ids[i] = uint32(n)
	}
	around, err := t.encode("")
	if err != nil {
		return "", err
	}
	front, back := around[:t.special-t.closing], around[t.special-t.closing:]
	if n := len(ids) - len(back); n >= len(front) && slices.Equal(ids[:len(front)], front) &&
		slices.Equal(ids[n:], back) {
		ids = ids[len(front):n]
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%w: there are only special ones", ErrTokens)
	}
	text := t.t.Decode(ids, false)
	again, err := t.encode(text)
	if err != nil {
		return "", err
	}
	if !slices.Equal(again, slices.Concat(front, ids, back)) {
		return "", fmt.Errorf("%w: the encoder's tokenizer cuts what the %d tokens spell into others", ErrTokens,
			len(ids))
	}
	return text, nil
}
