package embed

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Repair replaces what a C string or the tokenizer could not read: each NUL byte and each invalid UTF-8 byte becomes
// U+FFFD. It reports whether there was any.
func Repair(text string) (string, bool) {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") {
		return text, false
	}
	var b strings.Builder
	b.Grow(len(text) + 8)
	for _, r := range text { // ranging yields U+FFFD per invalid byte
		r = cmp.Or(r, utf8.RuneError)
		b.WriteRune(r)
	}
	return b.String(), true
}

// repairMap maps byte offsets of Repair(text) to those of text: entry i belongs to repaired byte i.
func repairMap(text string) []int {
	m := make([]int, 0, len(text)+8)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		width := n
		if r == 0 || r == utf8.RuneError && n == 1 {
			width = utf8.RuneLen(utf8.RuneError)
		}
		for j := range width {
			m = append(m, i+min(j, n-1))
		}
		i += n
	}
	return append(m, len(text))
}

// truncate cuts ids to limit tokens as the tokenizers library's LongestFirst does on a single text:
// the text loses its end and the closing special tokens stay. It reports whether it cut.
func truncate(ids []uint32, limit, closing int) ([]uint32, bool) {
	if len(ids) <= limit {
		return ids, false
	}
	return slices.Concat(ids[:limit-closing], ids[len(ids)-closing:]), true
}
