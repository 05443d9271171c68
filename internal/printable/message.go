package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// The parts of a message that are kept: long enough for a path of several folders, and for the text around a given
// value.
const (
	longestWord    = 400
	longestMessage = 4000
)

// Message shortens what an error or a notice quotes of long input: a number of a million digits, an address of sixty
// thousand characters. It keeps the beginning and the end of a long word, and of a long message, with the number of
// bytes between them.
func Message(s string) string {
	if len(s) <= longestWord {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		end := strings.IndexFunc(s, unicode.IsSpace)
		if end < 0 {
			end = len(s)
		}
		b.WriteString(middleOut(s[:end], longestWord))
		next := strings.IndexFunc(s[end:], func(r rune) bool { return !unicode.IsSpace(r) })
		if next < 0 {
			next = len(s) - end
		}
		b.WriteString(s[end : end+next])
		s = s[end+next:]
	}
	return middleOut(b.String(), longestMessage)
}

// middleOut cuts the middle of s if it is longer than most bytes.
func middleOut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := s[:most/2], s[len(s)-most/4:]
	head, tail = strings.ToValidUTF8(head, ""), strings.ToValidUTF8(tail, "")
	return fmt.Sprintf("%s…(%d bytes left out)…%s", head, len(s)-len(head)-len(tail), tail)
}
