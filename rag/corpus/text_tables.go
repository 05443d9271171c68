package corpus

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// textTable is a table that is drawn with characters: its cells stand below each other, and lines of "-" or "=" say how
// wide the columns are. Pandoc's Markdown and reStructuredText have them.
type textTable struct {
	rows   []textRow
	header int // how many of the rows are above the line below the header
	end    int // byte behind the table
}

// textRow has for each column the parts of the source, one of each line, that are the cell.
type textRow [][]span

// The rows of a table are looked for in so many lines of so many bytes.
const (
	mostTableLines = 2000
	longestTabled  = 2000
)

// tableLine is a line of a source without its end, and where it begins and the next one does.
type tableLine struct {
	text     string
	at, next int
}

// drawing is a source, and the number of spaces in front of the lines of a table in it.
type drawing struct {
	src    string
	indent int
}

// line returns the line that begins at a byte of the source.
func (d drawing) line(at int) tableLine {
	next := len(d.src)
	if n := strings.IndexByte(d.src[at:], '\n'); n >= 0 {
		next = at + n + 1
	}
	text := strings.TrimRight(d.src[at:next], " \t\r\n")
	indent := min(d.indent, len(text)-len(strings.TrimLeft(text, " ")))
	return tableLine{text[indent:], at + indent, next}
}

// lines yields the lines from a byte on in which a table may be.
func (d drawing) lines(at int) iter.Seq[tableLine] {
	return func(yield func(tableLine) bool) {
		for n := 0; at < len(d.src) && n < mostTableLines; n++ {
			l := d.line(at)
			if at = l.next; !yield(l) {
				return
			}
		}
	}
}

// gridTable reads a table in a frame, whose line at a byte of the source is such as +---+---+.
func (d drawing) gridTable(at int) (t textTable, ok bool) {
	first := d.line(at)
	if !isFrame(first.text) {
		return t, false
	}
	var borders []int
	for i := range len(first.text) {
		if first.text[i] == '+' {
			borders = append(borders, i)
		}
	}
	row, framed := make(textRow, len(borders)-1), false
	for l := range d.lines(first.next) {
		switch {
		case isFrame(l.text):
			if framed = true; !row.isEmpty() {
				t.rows, row = append(t.rows, row), make(textRow, len(borders)-1)
			}
			if strings.Contains(l.text, "=") && t.header == 0 {
				t.header = len(t.rows)
			}
			t.end = l.next
		case strings.HasPrefix(l.text, "|") && len(l.text) <= longestTabled:
			row.addFramed(l, borders)
			framed = false
		default:
			return t, framed && len(t.rows) > 0
		}
	}
	return t, framed && len(t.rows) > 0
}

// isFrame reports whether a line is drawn between the rows of a table.
func isFrame(line string) bool {
	return len(line) > 2 && len(line) <= longestTabled && line[0] == '+' && line[len(line)-1] == '+' &&
		strings.Trim(line, "+-=:") == "" && strings.Contains(line, "--") != strings.Contains(line, "==")
}

// isDrawn reports whether a text is a line below some of the cells, not "-" or "+" as the content of one.
func isDrawn(text string) bool {
	return strings.Trim(text, "-=+ ") == "" && strings.Contains(text, "--")
}

// addFramed adds what a line has between its borders. A cell that covers further columns has no border there.
func (row textRow) addFramed(l tableLine, borders []int) {
	byColumn := columnBytes(l.text, borders)
	for i := 0; i+1 < len(borders); {
		j := i + 1
		for j+1 < len(borders) && !strings.HasPrefix(l.text[byColumn[j]:], "|") &&
			!strings.HasPrefix(l.text[byColumn[j]:], "+") {
			j++
		}
		from, to := min(byColumn[i]+1, len(l.text)), byColumn[j]
		s := (span{from, max(from, to)}).trim(l.text)
		if text := l.text[s.start:s.end]; text != "" && !isDrawn(text) {
			row[i] = append(row[i], span{l.at + s.start, l.at + s.end})
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

func (row textRow) isEmpty() bool {
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
	if line == "" || len(line) > longestTabled || strings.Trim(line, string(rule)+" ") != "" {
		return nil, false
	}
	for i := 0; i < len(line); {
		n := runOf(rule, []byte(line[i:]))
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

// isRule reports whether a line is one run of a character that could be the edge of a table.
func isRule(line string, rule byte) bool {
	line = strings.TrimLeft(line, " ")
	return len(line) >= 10 && strings.Trim(line, string(rule)) == ""
}

// ruledTable reads a table whose columns are ruled by the line at at: behind its header, which may be above in
// head, or before it where the table has none. Rows of a table that is loose are separated by empty lines, and end with
// a line that is like one of edges. Others are a line each, up to an empty one.
func (d drawing) ruledTable(at int, rule byte, head []tableLine, loose bool) (t textTable, ok bool) {
	first := d.line(at)
	columns, ok := ruledColumns(first.text, rule)
	if !ok {
		return t, false
	}
	row := make(textRow, len(columns))
	flush := func() {
		if !row.isEmpty() {
			t.rows, row = append(t.rows, row), make(textRow, len(columns))
		}
	}
	for _, l := range head {
		if !row.addRuled(l, columns) {
			return t, false
		}
	}
	if flush(); len(head) > 0 {
		t.header = len(t.rows)
	}
	for l := range d.lines(first.next) {
		_, again := ruledColumns(l.text, rule)
		switch {
		case again || isRule(l.text, rule):
			flush()
			t.end = l.next
			return t, len(t.rows) > t.header
		case l.text != "":
			if !row.addRuled(l, columns) {
				return t, false
			}
			if !loose {
				flush()
			}
		case loose:
			flush()
		case len(head) > 0: // it needs no line below
			t.end = l.at
			return t, len(t.rows) > t.header
		default:
			return t, false
		}
		t.end = l.next
	}
	flush()
	return t, !loose && len(head) > 0 && len(t.rows) > t.header
}

// addRuled adds what a line has in each column, false if a word crosses the beginning of a column.
func (row textRow) addRuled(l tableLine, columns []int) bool {
	if len(l.text) > longestTabled || strings.Contains(l.text, "\t") {
		return false
	}
	bytes := columnBytes(l.text, columns)
	if strings.TrimSpace(l.text[:bytes[0]]) != "" {
		return false
	}
	for i, from := range bytes {
		to := len(l.text)
		if i+1 < len(bytes) {
			to = bytes[i+1]
		}
		if i > 0 && from < len(l.text) && l.text[from] != ' ' && l.text[from-1] != ' ' {
			return false
		}
		if s := (span{from, to}).trim(l.text); s.start < s.end {
			row[i] = append(row[i], span{l.at + s.start, l.at + s.end})
		}
	}
	return true
}

// simpleTable reads a "simple table" of reStructuredText: lines of "=" above and below, and between header and rows.
// A line whose first column is empty continues the row above it.
func (d drawing) simpleTable(at int) (t textTable, ok bool) {
	first := d.line(at)
	columns, ok := ruledColumns(first.text, '=')
	if !ok {
		return t, false
	}
	for l := range d.lines(first.next) {
		_, again := ruledColumns(l.text, '=')
		switch {
		case again && (t.header > 0 || strings.TrimSpace(d.line(l.next).text) == ""):
			t.end = l.next
			return t, len(t.rows) > t.header
		case again:
			if t.header = len(t.rows); t.header == 0 {
				return t, false
			}
		case l.text != "" && !isDrawn(l.text):
			row := make(textRow, len(columns))
			if !row.addRuled(l, columns) {
				return t, false
			}
			if len(row[0]) > 0 || len(t.rows) == 0 {
				t.rows = append(t.rows, row)
				continue
			}
			for i, cell := range row {
				t.rows[len(t.rows)-1][i] = append(t.rows[len(t.rows)-1][i], cell...)
			}
		}
	}
	return t, false
}
