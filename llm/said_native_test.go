//go:build native

package llm

import (
	"strings"
	"testing"
)

func TestSaid(t *testing.T) {
	for _, c := range []struct {
		tokens string // with bars between them
		text   string
		want   int
	}{
		{"a|b|c", "abc", 3},
		{"a|b|STOP|x", "ab", 2},
		{"a|bS|TOP", "ab", 2}, // the stop string begins within a token
		{"STOP", "", 0},
		{"a||b", "ab", 3},
		{"a|<tool>|b", "a done", 3}, // not the tokens of the text
	} {
		var list []TokenLogProb
		for text := range strings.SplitSeq(c.tokens, "|") {
			list = append(list, TokenLogProb{Text: text})
		}
		if got := said(list, c.text); len(got) != c.want {
			t.Errorf("%q in %q: %d tokens, want %d", c.text, c.tokens, len(got), c.want)
		}
	}
}
