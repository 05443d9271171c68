// Package printable makes foreign texts (ids, titles, passages, answers) safe to show on a terminal: characters that
// would move its cursor, change its colours, set its title or change the direction of writing are written as a Go
// escape sequence such as \x1b. It is not meant for results in JSON, which keep every character.
package printable

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text returns s with its lines: line feeds and tabs are kept, and the carriage return at the end of a line is
// removed.
func Text(s string) string { return clean(strings.ReplaceAll(s, "\r\n", "\n"), true) }

// Line returns s on one line, for ids, names and titles: line feeds and tabs are escaped as well.
func Line(s string) string { return clean(s, false) }

func clean(s string, lines bool) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return harmful(r, lines) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !harmful(r, lines):
			b.WriteString(s[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// harmful reports whether r is a control character (including the 8-bit ones), a line separator that terminals do not
// treat as one, or a character that changes the direction of writing. Joiners and marks that scripts and emoji need
// are kept.
func harmful(r rune, lines bool) bool {
	switch {
	case r == '\n', r == '\t':
		return !lines
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 &&
		r <= 0x2069:
		return true
	}
	return false
}
