// Package drawn reads tables that are drawn with characters.
package drawn

import (
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Table is a table that is drawn with characters: its cells stand below each other, and lines of "-" or "=" say how
// wide the columns are. Pandoc's Markdown and reStructuredText have them.
type Table struct {
	Rows   []Row
	Header int // how many of the rows are above the line below the header
	End    int // byte behind the table
}

// Row has for each column the parts of the source, one of each line, that are the cell.
type Row [][]doc.Span

// The rows of a table are looked for in so many lines of so many bytes.
const (
	mostTableLines = 2000
	LongestLine    = 2000
)

// Line is a line of a source without its end, and where it begins and the next one does.
type Line struct {
	Text     string
	At, Next int
}

// Drawing is a source, and the number of spaces in front of the lines of a table in it.
type Drawing struct {
	Src    string
	Indent int
}

// Line returns the line that begins at a byte of the source.
func (d Drawing) Line(at int) Line {
	next := len(d.Src)
	if n := strings.IndexByte(d.Src[at:], '\n'); n >= 0 {
		next = at + n + 1
	}
	text := strings.TrimRight(d.Src[at:next], " \t\r\n")
	indent := min(d.Indent, len(text)-len(strings.TrimLeft(text, " ")))
	return Line{text[indent:], at + indent, next}
}

// lines yields the lines from a byte on in which a table may be.
func (d Drawing) lines(at int) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for n := 0; at < len(d.Src) && n < mostTableLines; n++ {
			l := d.Line(at)
			if at = l.Next; !yield(l) {
				return
			}
		}
	}
}

// Grid reads a table in a frame, whose line at a byte of the source is such as +---+---+.
func (d Drawing) Grid(at int) (t Table, ok bool) {
	first := d.Line(at)
	if !isFrame(first.Text) {
		return t, false
	}
	var borders []int
	for i := range len(first.Text) {
		if first.Text[i] == '+' {
			borders = append(borders, i)
		}
	}
	row, framed := make(Row, len(borders)-1), false
	for l := range d.lines(first.Next) {
		switch {
		case isFrame(l.Text):
			if framed = true; !row.IsEmpty() {
				t.Rows, row = append(t.Rows, row), make(Row, len(borders)-1)
			}
			if strings.Contains(l.Text, "=") && t.Header == 0 {
				t.Header = len(t.Rows)
			}
			t.End = l.Next
		case strings.HasPrefix(l.Text, "|") && len(l.Text) <= LongestLine:
			row.addFramed(l, borders)
			framed = false
		default:
			return t, framed && len(t.Rows) > 0
		}
	}
	return t, framed && len(t.Rows) > 0
}

// isFrame reports whether a line is drawn between the rows of a table.
func isFrame(line string) bool {
	return len(line) > 2 && len(line) <= LongestLine && line[0] == '+' && line[len(line)-1] == '+' &&
		strings.Trim(line, "+-=:") == "" && strings.Contains(line, "--") != strings.Contains(line, "==")
}

// isDrawn reports whether a text is a line below some of the cells, not "-" or "+" as the content of one.
func isDrawn(text string) bool {
	return strings.Trim(text, "-=+ ") == "" && strings.Contains(text, "--")
}

// addFramed adds what a line has between its borders. A cell that covers further columns has no border there.
func (row Row) addFramed(l Line, borders []int) {
	byColumn := columnBytes(l.Text, borders)
	for i := 0; i+1 < len(borders); {
		j := i + 1
		for j+1 < len(borders) && !strings.HasPrefix(l.Text[byColumn[j]:], "|") &&
			!strings.HasPrefix(l.Text[byColumn[j]:], "+") {
			j++
		}
		from, to := min(byColumn[i]+1, len(l.Text)), byColumn[j]
		s := (doc.Span{Start: from, End: max(from, to)}).Trim(l.Text)
		if text := l.Text[s.Start:s.End]; text != "" && !isDrawn(text) {
			row[i] = append(row[i], doc.Span{Start: l.At + s.Start, End: l.At + s.End})
		}
		i = j
	}
}

// columnBytes returns the bytes of a line at which its columns, counted in characters, begin.
func columnBytes(line string, columns []int) []int {
	bytes := make([]int, len(columns))
	at, column := 0, 0
	for i, c := range columns {
		for ; column < c && at < len(line); column++ {
			_, n := utf8.DecodeRuneInString(line[at:])
			at += n
		}
		bytes[i] = at
	}
	return bytes
}

// IsEmpty reports whether no cell has a text.
func (row Row) IsEmpty() bool {
	for _, cell := range row {
		if len(cell) > 0 {
			return false
		}
	}
	return true
}

// ruledColumns returns the columns at which the runs of rule in a line begin that has nothing else but spaces: two runs
// at least, of two characters at least.
func ruledColumns(line string, rule byte) (columns []int, ok bool) {
	if line == "" || len(line) > LongestLine || strings.Trim(line, string(rule)+" ") != "" {
		return nil, false
	}
	for i := 0; i < len(line); {
		n := len(line[i:]) - len(strings.TrimLeft(line[i:], string(rule)))
		if n == 1 {
			return nil, false
		}
		if n > 0 {
			columns = append(columns, i)
		}
		i += max(n, 1)
	}
	return columns, len(columns) > 1
}

// IsRule reports whether a line is one run of a character that could be the edge of a table.
func IsRule(line string, rule byte) bool {
	line = strings.TrimLeft(line, " ")
	return len(line) >= 10 && strings.Trim(line, string(rule)) == ""
}

// Ruled reads a table whose columns are ruled by the line at at: behind its header, which may be above in
// head, or before it where the table has none. Rows of a table that is loose are separated by empty lines, and end with
// a line that is like one of edges. Others are a line each, up to an empty one.
func (d Drawing) Ruled(at int, rule byte, head []Line, loose bool) (t Table, ok bool) {
	first := d.Line(at)
	columns, ok := ruledColumns(first.Text, rule)
	if !ok {
		return t, false
	}
	row := make(Row, len(columns))
	flush := func() {
		if !row.IsEmpty() {
			t.Rows, row = append(t.Rows, row), make(Row, len(columns))
		}
	}
	for _, l := range head {
		if !row.addRuled(l, columns) {
			return t, false
		}
	}
	if flush(); len(head) > 0 {
		t.Header = len(t.Rows)
	}
	for l := range d.lines(first.Next) {
		_, again := ruledColumns(l.Text, rule)
		switch {
		case again || IsRule(l.Text, rule):
			flush()
			t.End = l.Next
			return t, len(t.Rows) > t.Header
		case l.Text != "":
			if !row.addRuled(l, columns) {
				return t, false
			}
			if !loose {
				flush()
			}
		case loose:
			flush()
		case len(head) > 0: // it needs no line below
			t.End = l.At
			return t, len(t.Rows) > t.Header
		default:
			return t, false
		}
		t.End = l.Next
	}
	flush()
	return t, !loose && len(head) > 0 && len(t.Rows) > t.Header
}

// addRuled adds what a line has in each column, false if a word crosses the beginning of a column.
func (row Row) addRuled(l Line, columns []int) bool {
	if len(l.Text) > LongestLine || strings.Contains(l.Text, "\t") {
		return false
	}
	bytes := columnBytes(l.Text, columns)
	if strings.TrimSpace(l.Text[:bytes[0]]) != "" {
		return false
	}
	for i, from := range bytes {
		to := len(l.Text)
		if i+1 < len(bytes) {
			to = bytes[i+1]
		}
		if i > 0 && from < len(l.Text) && l.Text[from] != ' ' && l.Text[from-1] != ' ' {
			return false
		}
		if s := (doc.Span{Start: from, End: to}).Trim(l.Text); s.Start < s.End {
			row[i] = append(row[i], doc.Span{Start: l.At + s.Start, End: l.At + s.End})
		}
	}
	return true
}

// Simple reads a "simple table" of reStructuredText: lines of "=" above and below, and between header and rows.
// A line whose first column is empty continues the row above it.
func (d Drawing) Simple(at int) (t Table, ok bool) {
	first := d.Line(at)
	columns, ok := ruledColumns(first.Text, '=')
	if !ok {
		return t, false
	}
	for l := range d.lines(first.Next) {
		_, again := ruledColumns(l.Text, '=')
		switch {
		case again && (t.Header > 0 || strings.TrimSpace(d.Line(l.Next).Text) == ""):
			t.End = l.Next
			return t, len(t.Rows) > t.Header
		case again:
			if t.Header = len(t.Rows); t.Header == 0 {
				return t, false
			}
		case l.Text != "" && !isDrawn(l.Text):
			row := make(Row, len(columns))
			if !row.addRuled(l, columns) {
				return t, false
			}
			if len(row[0]) > 0 || len(t.Rows) == 0 {
				t.Rows = append(t.Rows, row)
				continue
			}
			for i, cell := range row {
				t.Rows[len(t.Rows)-1][i] = append(t.Rows[len(t.Rows)-1][i], cell...)
			}
		}
	}
	return t, false
}
