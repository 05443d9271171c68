//go:build native

package llm

import (
	"fmt"
	"slices"
	"strings"
)

// TextOf returns the text that Tokenize turns into these tokens. The tokens that the model puts at the beginning may be
// left out. It fails with ErrTokens for tokens that Tokenize makes of no text. Tokens of another vocabulary are noticed
// only where this one tokenizes what they spell differently.
func (m *Model) TextOf(tokens []int32) (string, error) {
	if !m.enter() {
		return "", ErrClosed
	}
	defer m.users.Done()
	front, err := m.Tokenize("")
	if err != nil {
		return "", err
	}
	if len(front) > 0 && len(tokens) > len(front) && slices.Equal(tokens[:len(front)], front) {
		tokens = tokens[len(front):]
	}
	var b strings.Builder
	for _, t := range tokens {
		piece, ok := m.tok.piece(t)
		if !ok {
			return "", fmt.Errorf("llm: %w: the vocabulary has no token %d", ErrTokens, t)
		}
		b.WriteString(piece)
	}
	text := b.String()
	for _, one := range []string{text, strings.TrimPrefix(text, " ")} { // SentencePiece puts a space before a text
		again, err := m.Tokenize(one)
		if err != nil {
			return "", err
		}
		if slices.Equal(again, slices.Concat(front, tokens)) {
			return one, nil
		}
	}
	return "", fmt.Errorf("llm: %w: this model's tokenizer cuts what the %d tokens spell into others", ErrTokens,
		len(tokens))
}
