//go:build native

package embed

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestWindows: a text of more tokens than the encoder reads has the mean of its parts' vectors, one of fewer the same
// vector as without windows, and the encoder is another one by name and digest.
func TestWindows(t *testing.T) {
	dir := minilm(t)
	plain, wide := openEncoder(t, dir, Options{}), openEncoder(t, dir, Options{Tokens: 512})
	info := wide.Info()
	if info.Name != plain.Info().Name+":512" || info.MaxTokens != 512 || info.Window != 256 ||
		info.Same(plain.Info().Encoder) || plain.Info().Window != 0 {
		t.Errorf("%+v, %+v", info, plain.Info())
	}
	words := strings.Fields(strings.Repeat("the river runs past old houses and green trees into a wide lake ", 60))
	halves := []string{strings.Join(words[:200], " "), strings.Join(words[200:400], " ")}
	short := "Where does the river end?"
	texts := []string{strings.Join(words[:400], " "), short, strings.Join(words[:600], " ")}
	got := embedAll(t, wide, texts, Document)
	parts := embedAll(t, plain, append(halves, short), Document)
	mean, norm := make([]float64, got.Dim), 0.
	for j := range mean {
		mean[j] = (float64(parts.Row(0)[j]) + float64(parts.Row(1)[j])) / 2
		norm += mean[j] * mean[j]
	}
	for j, x := range got.Row(0) {
		if want := mean[j] / math.Sqrt(norm); math.Abs(float64(x)-want) > 1e-6 {
			t.Fatalf("dimension %d: %g, the mean of the halves has %g", j, x, want)
		}
	}
	if !slices.Equal(got.Row(1), parts.Row(2)) {
		t.Error("a text of one window has another vector than without windows")
	}
	if !slices.Equal(got.Tokens, []int{402, parts.Tokens[2], 512}) || got.Truncated != 1 ||
		got.Contents[0].Tokens != 400 || got.Contents[0].Fault() != nil {
		t.Errorf("%d tokens, %d truncated, %+v", got.Tokens, got.Truncated, got.Contents)
	}
	if e := embedAll(t, wide, nil, Query); len(e.Data) != 0 {
		t.Errorf("no text: %+v", e)
	}
	for _, tokens := range []int{256, -1, 64*256 + 1} {
		if _, err := Open(t.Context(), dir, Options{Tokens: tokens}); !errors.Is(err, ErrModel) ||
			!strings.Contains(err.Error(), "from 257 to 16384") {
			t.Errorf("%d tokens: %v", tokens, err)
		}
		if _, err := OpenCounter(dir, tokens); !errors.Is(err, ErrModel) {
			t.Errorf("%d tokens: %v", tokens, err)
		}
	}
	c, err := OpenCounter(dir, 512)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, content, err := c.Examine(texts[2]); n != 602 || content.Tokens != 510 || c.MaxTokens() != 512 || err != nil {
		t.Errorf("%d tokens, %+v of at most %d, %v", n, content, c.MaxTokens(), err)
	}
}
