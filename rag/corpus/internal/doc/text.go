package doc

import (
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Span is a byte range of a text.
type Span struct{ Start, End int }

// Trim removes white space from both ends.
func (s Span) Trim(text string) Span {
	t := strings.TrimRightFunc(text[s.Start:s.End], unicode.IsSpace)
	s.End = s.Start + len(t)
	s.Start = s.End - len(strings.TrimLeftFunc(t, unicode.IsSpace))
	return s
}

// Plus moves the range by n bytes.
func (s Span) Plus(n int) Span { return Span{s.Start + n, s.End + n} }

// HasWord reports whether s has a letter, a digit, or a symbol outside ASCII.
func HasWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || r > unicode.MaxASCII && r != utf8.RuneError &&
			unicode.IsSymbol(r)
	}) >= 0
}

// IsSpace reports whether a byte is white space of ASCII.
func IsSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// IsAlnum reports whether a byte is a letter or a digit of ASCII.
func IsAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Clean returns a text as valid UTF-8 without NUL.
func Clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "")
}

// CutRunes returns the first n runes of s.
func CutRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// NameOf returns the name of a file without its extension.
func NameOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// FirstWord returns the letters, digits and low lines that a line begins with.
func FirstWord(line string) string {
	n := strings.IndexFunc(line, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		return line
	}
	return line[:n]
}

// IndentOf returns the width of the white space at the beginning of a line; a tab counts as four.
func IndentOf(line string) int {
	n := 0
	for _, c := range []byte(line) {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 4
		default:
			return n
		}
	}
	return n
}

// WholeLines removes blank lines from both ends, and the white space behind the last line. The first line keeps its
// indent.
func WholeLines(text string, s Span) Span {
	t := s.Trim(text)
	if t.Start == t.End {
		return t
	}
	if i := strings.LastIndexAny(text[s.Start:t.Start], "\n\r\v\f"); i >= 0 {
		s.Start += i + 1
	}
	t.Start = s.Start
	return t
}

// LineAnchor returns the anchor of a line of a file in a link.
func LineAnchor(line int) string { return "L" + strconv.Itoa(line) }

// MaxSignature is how many characters of a declaration are kept.
const MaxSignature = 120

// Signature shortens the line of a declaration.
func Signature(line string) string {
	line = strings.TrimRight(strings.TrimSpace(line), " {:")
	line = strings.Join(strings.Fields(line), " ")
	if utf8.RuneCountInString(line) > MaxSignature {
		line = CutRunes(line, MaxSignature) + "…"
	}
	return line
}

// HasLetters reports whether a text has a letter.
func HasLetters(s string) bool { return strings.ContainsFunc(s, unicode.IsLetter) }
