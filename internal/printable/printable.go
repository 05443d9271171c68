// Package printable makes texts of others (ids, titles, passages, answers) safe to show on a terminal: what would move
// its cursor, change its colours, set its title or turn the direction of writing is written out as an escape sequence
// of Go's, such as \x1b. Results in JSON are not for it: there every character stays.
package printable

import (
	"strings"
	"unicode/utf8"
)

// Text is s with its lines kept: line feeds and tabs stay, and the carriage return of a line's end goes.
func Text(s string) string { return clean(strings.ReplaceAll(s, "\r\n", "\n"), true) }

// Line is s on one line, for ids, names and titles: line feeds and tabs are written out as well.
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
			escape(&b, 'x', uint32(s[i]), 2)
		case !harmful(r, lines):
			b.WriteString(s[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x100:
			escape(&b, 'x', uint32(r), 2)
		case r <= 0xffff:
			escape(&b, 'u', uint32(r), 4)
		default:
			escape(&b, 'U', uint32(r), 8)
		}
		i += n
	}
	return b.String()
}

func escape(b *strings.Builder, letter byte, value uint32, digits int) {
	b.WriteByte('\\')
	b.WriteByte(letter)
	for digits--; digits >= 0; digits-- {
		b.WriteByte("0123456789abcdef"[value>>(4*digits)&15])
	}
}

// harmful tells control characters (also those of 8 bits), line ends that are none on a terminal, and characters that
// turn the direction of writing. Joiners and marks that scripts and emoji need stay.
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
