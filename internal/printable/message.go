package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// What of a message is kept: a path of some folders stays whole, and so does what is beside a value that was given.
const (
	longestWord    = 400
	longestMessage = 4000
)

// Message is the text of an error or a notice without most of what it repeats of somebody's input, where that is long:
// a number of a million digits, an address of sixty thousand characters. Of a long word, and of a long message,
// beginning and end are kept, with the number of bytes between them.
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

// middleOut is s without its middle where it is longer than so many bytes.
func middleOut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := s[:most/2], s[len(s)-most/4:]
	head, tail = strings.ToValidUTF8(head, ""), strings.ToValidUTF8(tail, "")
	return fmt.Sprintf("%s…(%d bytes left out)…%s", head, len(s)-len(head)-len(tail), tail)
}
