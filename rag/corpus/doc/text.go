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

// OneOf reports whether a word is in a list of words, each of which has a space on both sides.
func OneOf(word, list string) bool {
	return word != "" && !strings.Contains(word, " ") && strings.Contains(list, " "+word+" ")
}

// HasLetters reports whether a text has a letter.
func HasLetters(s string) bool { return strings.ContainsFunc(s, unicode.IsLetter) }

// CellBorder separates the cells of a row. A row whose first cell is empty begins with EmptyFirst, as in Markdown.
const (
	CellBorder = " | "
	EmptyFirst = "|"
)

// RowCells returns the texts of a row's cells.
func RowCells(row string) []string {
	if rest, ok := strings.CutPrefix(row, EmptyFirst+CellBorder); ok {
		row = CellBorder + rest
	}
	return strings.Split(row, CellBorder)
}

// Cells returns the ranges of the cells of a row, each with the border behind it.
func Cells(text string, row Span) []Span {
	var out []Span
	for at := row.Start; at < row.End; {
		n := row.End - at
		if i := strings.IndexAny(text[at:row.End], "|\n"); i >= 0 {
			n = i + 1
			for j := i; j >= 0; { // the next border; "|" within a word is not a border
				if text[at+j] == '\n' || j > 0 && text[at+j-1] == ' ' && at+j+1 < row.End && text[at+j+1] == ' ' {
					n = j + 1
					break
				}
				k := strings.IndexAny(text[at+j+1:row.End], "|\n")
				if n = row.End - at; k < 0 {
					break
				}
				j += k + 1
			}
		}
		if s := (Span{at, at + n}).Trim(text); s.Start < s.End {
			out = append(out, s)
		}
		at += n
	}
	return out
}
