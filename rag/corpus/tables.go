package corpus

import (
	"strings"
)

// tableSpan is a table in a text, as byte ranges.
type tableSpan struct {
	start, end int
	caption    span // text above the table that belongs to it; empty: no caption
	head       span // rows that name the columns; empty: no such rows, or each cell has its column's name
}

// openTable is a table whose end has not been read.
type openTable struct {
	from    int  // index of its first block, behind the caption's
	caption int  // index of the caption's first block; from without a caption
	last    int  // index behind the last row that has ended
	count   int  // of these rows
	header  int  // the number of these rows, from the first on, that the format says name the columns
	named   bool // each cell has its column's name
	rows    bool // the format marks where rows begin (builder.row), else each block is a row
	layout  bool // it holds tables or headings, so it lays out a page and is not data
	grid    grid
}

const (
	maxCaption = 300  // bytes of a paragraph that is a table's caption
	maxRow     = 2000 // mean bytes of a row of data; tables of longer rows lay out texts side by side
	maxHead    = 3    // rows that name columns
)

// beginTable begins a table.
func (b *builder) beginTable(t openTable) {
	b.endBlock("\n\n")
	b.layout()
	t.from = len(b.blocks)
	t.caption = t.from
	b.within = append(b.within, t)
	b.more = false
}

// layout marks the open table as one that lays out a page.
func (b *builder) layout() {
	if n := len(b.within); n > 0 {
		b.within[n-1].layout = true
	}
}

// row begins a row.
func (b *builder) row() { b.more = false }

// endRow ends a row; isHeader says that it names the columns. A row without text is ignored.
func (b *builder) endRow(isHeader bool) {
	if len(b.within) == 0 {
		return
	}
	t := &b.within[len(b.within)-1]
	if len(b.blocks) <= max(t.last, t.from) {
		return
	}
	t.last = len(b.blocks)
	if t.count++; isHeader && t.header == t.count-1 {
		t.header++
	}
}

// endCaption ends the text above the first row.
func (b *builder) endCaption() {
	b.endBlock("\n\n")
	if n := len(b.within); n > 0 && b.within[n-1].caption == b.within[n-1].from {
		b.within[n-1].from = len(b.blocks)
	}
	b.more = false
}

// endTable ends the innermost table and marks its blocks if it is a table of data.
func (b *builder) endTable() {
	b.endBlock("\n\n")
	n := len(b.within)
	if n == 0 {
		return
	}
	t := b.within[n-1]
	b.within, b.more = b.within[:n-1], false
	b.grid().column = 0
	if t.layout {
		b.layout()
		return
	}
	t.from = min(t.from, len(b.blocks))
	rows := b.blocks[t.from:]
	if len(rows) == 0 || !b.isData(t, rows) {
		return
	}
	if t.caption == t.from && b.isCaption(t.from-1) {
		t.caption--
	}
	text := b.w.text.String()
	s := tableSpan{start: b.blocks[t.caption].start, end: b.blocks[len(b.blocks)-1].end}
	if t.caption < t.from {
		s.caption = span{s.start, b.blocks[t.from-1].end}
	}
	s.head = headOf(text, rows, t)
	b.tables = append(b.tables, s)
	for i := t.caption; i < len(b.blocks); i++ {
		b.blocks[i].table = int32(len(b.tables))
	}
}

// isData reports whether a table holds data rather than the layout of a page.
func (b *builder) isData(t openTable, blocks []block) bool {
	if t.named {
		return true
	}
	text := b.w.text.String()
	rows, wide := 0, 0
	for i, x := range blocks {
		if x.code {
			return false
		}
		if i == 0 || !x.more {
			rows++
			if strings.Contains(text[x.start:x.end], cellBorder) {
				wide++
			}
		}
	}
	size := blocks[len(blocks)-1].end - blocks[0].start
	return rows > 1 && 2*wide >= rows && size <= rows*maxRow
}

// isCaption reports whether a block announces the table behind it.
func (b *builder) isCaption(i int) bool {
	if i < 0 || b.blocks[i].code || b.blocks[i].table > 0 || b.blocks[i].end-b.blocks[i].start > maxCaption {
		return false
	}
	if n := len(b.sections); n > 0 && b.blocks[i].start < b.sections[n-1].Start {
		return false
	}
	text := strings.TrimSpace(b.w.text.String()[b.blocks[i].start:b.blocks[i].end])
	if strings.HasSuffix(text, ":") {
		return true
	}
	first, rest, _ := strings.Cut(text, " ")
	if strings.HasPrefix(text, "- ") || rest == "" {
		return false
	}
	switch strings.ToLower(strings.TrimRight(first, ".:")) {
	case "table", "tab", "tabelle", "tableau", "tabla", "tabella":
		return rest[0] >= '0' && rest[0] <= '9'
	}
	return false
}

// headOf returns the rows that name the columns: those that the format marks, else the first one if it looks like a
// header.
func headOf(text string, blocks []block, t openTable) span {
	if t.named {
		return span{}
	}
	var rows []span
	for i, x := range blocks {
		switch {
		case i > 0 && x.more:
			rows[len(rows)-1].end = x.end
		case len(rows) > maxHead:
			return headRows(text, rows, t.header)
		default:
			rows = append(rows, span{x.start, x.end})
		}
	}
	return headRows(text, rows, t.header)
}

func headRows(text string, rows []span, header int) span {
	if len(rows) < 2 {
		return span{}
	}
	if header == 0 {
		var first [][]string
		for _, r := range rows[:min(len(rows), 3)] {
			first = append(first, rowCells(text[r.start:r.end]))
		}
		header = HeaderRows(first)
	}
	if header == 0 || header > maxHead || header >= len(rows) {
		return span{}
	}
	return span{rows[0].start, rows[header-1].end}
}

// cellBorder separates the cells of a row. A row whose first cell is empty begins with emptyFirst, as in Markdown.
const (
	cellBorder = " | "
	emptyFirst = "|"
)

// rowCells returns the texts of a row's cells.
func rowCells(row string) []string {
	if rest, ok := strings.CutPrefix(row, emptyFirst+cellBorder); ok {
		row = cellBorder + rest
	}
	return strings.Split(row, cellBorder)
}

// cells returns the ranges of the cells of a row, each with the border behind it.
func cells(text string, row span) []span {
	var out []span
	for at := row.start; at < row.end; {
		n := row.end - at
		if i := strings.IndexAny(text[at:row.end], "|\n"); i >= 0 {
			n = i + 1
			for j := i; j >= 0; { // the next border; "|" within a word is not a border
				if text[at+j] == '\n' || j > 0 && text[at+j-1] == ' ' && at+j+1 < row.end && text[at+j+1] == ' ' {
					n = j + 1
					break
				}
				k := strings.IndexAny(text[at+j+1:row.end], "|\n")
				if n = row.end - at; k < 0 {
					break
				}
				j += k + 1
			}
		}
		if s := (span{at, at + n}).trim(text); s.start < s.end {
			out = append(out, s)
		}
		at += n
	}
	return out
}
