//go:build native

package embed

import (
	"errors"
	"slices"
	"testing"
)

// TestTextOf: the text of tokens has the same tokens again, and tokens that no text has are an error.
func TestTextOf(t *testing.T) {
	e := openEncoder(t, minilm(t), Options{})
	texts := []string{"a ship", "The second valve isn't opened: 3.5 bar, Größe 日本語 😀.", "unaffable", "[UNK] x",
		"e. g. 'do n't'"}
	for _, text := range append(texts, mixed(t, 200)...) {
		ids, err := e.tok.encode(text)
		if err != nil {
			t.Fatal(err)
		}
		whole := make([]int32, len(ids))
		for i, id := range ids {
			whole[i] = int32(id)
		}
		for _, given := range [][]int32{whole, whole[1 : len(whole)-1]} {
			if len(given) == 0 || len(ids) == 2 {
				continue // nothing but special tokens
			}
			got, err := e.TextOf(given)
			if err != nil {
				t.Errorf("%.40q: %v", text, err)
				continue
			}
			if again, err := e.tok.encode(got); err != nil || !slices.Equal(again, ids) {
				t.Errorf("%.40q: the text of its tokens is %.40q, which has others (%v)", text, got, err)
			}
		}
	}
	for name, given := range map[string][]int32{
		"beyond the vocabulary": {1996, 30522}, "negative": {-1}, "special ones": {101, 102},
		"a word in the wrong pieces": {1055, 2232, 11514}, "no word of the vocabulary": {63},
		// "What is the capital of France?" and "The ship sails at dawn." in GPT-4's vocabulary (cl100k_base)
		"another vocabulary": {3923, 374, 279, 6864, 315, 9822, 30}, "another one": {791, 8448, 86105, 520, 39493, 13},
	} {
		if text, err := e.TextOf(given); !errors.Is(err, ErrTokens) {
			t.Errorf("%s: %v is %q, %v", name, given, text, err)
		}
	}
}
