package embed

import (
	"testing"

	"pgregory.net/rapid"
)

// Windows cover all tokens within their size and overlap, and each token is read in one that has it.
func TestTokenWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := make([]token, rapid.IntRange(0, 300).Draw(t, "tokens"))
		for i := range tokens {
			tokens[i].begins = rapid.IntRange(0, 3).Draw(t, "begins") > 0
		}
		size := rapid.IntRange(1, 64).Draw(t, "size")
		windows := tokenWindows(tokens, size)
		for k, w := range windows {
			if w.to-w.from > size || k == 0 && w.from != 0 || k > 0 && (w.from > windows[k-1].to ||
				w.from <= windows[k-1].from || w.to <= windows[k-1].to) {
				t.Fatalf("windows %v of size %d", windows, size)
			}
		}
		if last := windows[len(windows)-1]; last.to != len(tokens) || len(tokens) <= size && len(windows) > 1 {
			t.Fatalf("windows %v of %d tokens", windows, len(tokens))
		}
		for i, k := range owners(windows, len(tokens)) {
			w := windows[k]
			if i < w.from || i >= w.to {
				t.Fatalf("token %d is not in %v", i, w)
			}
			if near := size/16 - 2; i-w.from < near && w.from > 0 || w.to-1-i < near && w.to < len(tokens) {
				t.Fatalf("token %d at the edge of %v, size %d: %v", i, w, size, windows)
			}
		}
	})
}
