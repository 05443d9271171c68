package build

import (
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// OpenTable is a table whose end has not been read.
type OpenTable struct {
	from    int  // index of its first block, behind the caption's
	caption int  // index of the caption's first block; from without a caption
	last    int  // index behind the last row that has ended
	count   int  // of these rows
	header  int  // the number of these rows, from the first on, that the format says name the columns
	Named   bool // each cell has its column's name
	Rows    bool // the format marks where rows begin (Builder.Row), else each block is a row
	layout  bool // it holds tables or headings, so it lays out a page and is not data
	grid    grid
}

const (
	maxCaption = 300  // bytes of a paragraph that is a table's caption
	maxRow     = 2000 // mean bytes of a row of data; tables of longer rows lay out texts side by side
	maxHead    = 3    // rows that name columns
)

// BeginTable begins a table.
func (b *Builder) BeginTable(t OpenTable) {
	b.EndBlock("\n\n")
	b.layout()
	t.from = len(b.Blocks)
	t.caption = t.from
	b.within = append(b.within, t)
	b.more = false
}

// layout marks the open table as one that lays out a page.
func (b *Builder) layout() {
	if n := len(b.within); n > 0 {
		b.within[n-1].layout = true
	}
}

// Row begins a row.
func (b *Builder) Row() { b.more = false }

// EndRow ends a row; isHeader says that it names the columns. A row without text is ignored.
func (b *Builder) EndRow(isHeader bool) {
	if len(b.within) == 0 {
		return
	}
	t := &b.within[len(b.within)-1]
	if len(b.Blocks) <= max(t.last, t.from) {
		return
	}
	t.last = len(b.Blocks)
	if t.count++; isHeader && t.header == t.count-1 {
		t.header++
	}
}

// EndCaption ends the text above the first row.
func (b *Builder) EndCaption() {
	b.EndBlock("\n\n")
	if n := len(b.within); n > 0 && b.within[n-1].caption == b.within[n-1].from {
		b.within[n-1].from = len(b.Blocks)
	}
	b.more = false
}

// EndTable ends the innermost table and marks its blocks if it is a table of data.
func (b *Builder) EndTable() {
	b.EndBlock("\n\n")
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
	t.from = min(t.from, len(b.Blocks))
	rows := b.Blocks[t.from:]
	if len(rows) == 0 || !b.isData(t, rows) {
		return
	}
	if t.caption == t.from && b.isCaption(t.from-1) {
		t.caption--
	}
	text := b.W.Text.String()
	s := doc.Table{Span: doc.Span{Start: b.Blocks[t.caption].Start, End: b.Blocks[len(b.Blocks)-1].End}}
	if t.caption < t.from {
		s.Caption = doc.Span{Start: s.Start, End: b.Blocks[t.from-1].End}
	}
	s.Head = headOf(text, rows, t)
	b.tables = append(b.tables, s)
	for i := t.caption; i < len(b.Blocks); i++ {
		b.Blocks[i].Table = int32(len(b.tables))
	}
}

// isData reports whether a table holds data rather than the layout of a page.
func (b *Builder) isData(t OpenTable, blocks []doc.Block) bool {
	if t.Named {
		return true
	}
	text := b.W.Text.String()
	rows, wide := 0, 0
	for i, x := range blocks {
		if x.Code {
			return false
		}
		if i == 0 || !x.More {
			rows++
			if strings.Contains(text[x.Start:x.End], doc.CellBorder) {
				wide++
			}
		}
	}
	size := blocks[len(blocks)-1].End - blocks[0].Start
	return rows > 1 && 2*wide >= rows && size <= rows*maxRow
}

// isCaption reports whether a block announces the table behind it.
func (b *Builder) isCaption(i int) bool {
	if i < 0 || b.Blocks[i].Code || b.Blocks[i].Table > 0 || b.Blocks[i].End-b.Blocks[i].Start > maxCaption {
		return false
	}
	if n := len(b.Sections); n > 0 && b.Blocks[i].Start < b.Sections[n-1].Start {
		return false
	}
	text := strings.TrimSpace(b.W.Text.String()[b.Blocks[i].Start:b.Blocks[i].End])
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
func headOf(text string, blocks []doc.Block, t OpenTable) doc.Span {
	if t.Named {
		return doc.Span{}
	}
	var rows []doc.Span
	for i, x := range blocks {
		switch {
		case i > 0 && x.More:
			rows[len(rows)-1].End = x.End
		case len(rows) > maxHead:
			return headRows(text, rows, t.header)
		default:
			rows = append(rows, x.Span)
		}
	}
	return headRows(text, rows, t.header)
}

func headRows(text string, rows []doc.Span, header int) doc.Span {
	if len(rows) < 2 {
		return doc.Span{}
	}
	if header == 0 {
		var first [][]string
		for _, r := range rows[:min(len(rows), 3)] {
			first = append(first, doc.RowCells(text[r.Start:r.End]))
		}
		header = HeaderRows(first)
	}
	if header == 0 || header > maxHead || header >= len(rows) {
		return doc.Span{}
	}
	return doc.Span{Start: rows[0].Start, End: rows[header-1].End}
}

// grid places the cells of a table's rows. A cell that covers further rows is repeated in each of them, so that each
// row can be understood alone; a cell that covers further columns leaves them empty.
type grid struct {
	column int // of the open cell, counted from 1; 0: the row has no cell yet
	from   int // byte of the text where the open cell begins
	wide   int // columns that it covers beside its own
	rows   int // rows that it covers, its own included; OpenRows: until EndCovered; 0: it continues a cell above
	above  []Covered
}

// Covered is a cell that covers a column of the next rows: rows is the number of rows left, or OpenRows.
type Covered struct {
	Rows int
	Text string
}

// OpenRows is the row count of a cell that covers rows until one ends it.
const OpenRows = -1

// MostColumns bounds what one cell may cover, so that a number of a few digits cannot produce any amount of text, and
// freeRepeats is the number of bytes that may be repeated whatever the length of the text.
const (
	MostColumns = 100
	freeRepeats = 16 << 10
)

// Again reports whether n more bytes that repeat a part of the source may be written: repetitions may be at most seven
// eighths of the text, plus freeRepeats.
func (b *Builder) Again(n int) bool {
	if 8*(b.repeated+n) > 7*(b.W.Text.Len()+n)+freeRepeats {
		return false
	}
	b.repeated += n
	return true
}

// grid returns the grid of the innermost table.
func (b *Builder) grid() *grid {
	if n := len(b.within); n > 0 {
		return &b.within[n-1].grid
	}
	return &b.loose
}

// Cell begins a cell of the row, at a place of the source, that covers the given numbers of columns and rows.
func (b *Builder) Cell(columns, rows, source int) {
	g := b.grid()
	b.endCell(g)
	for g.column < len(g.above) && g.above[g.column].Rows > 0 {
		b.repeat(g, source)
	}
	b.nextColumn(g)
	g.wide, g.rows, g.from = min(max(columns, 1), MostColumns)-1, rows, b.W.Text.Len()
}

// CellAgain begins a cell that continues the one above it, or the one before it.
func (b *Builder) CellAgain(columns, source int) {
	g := b.grid()
	b.endCell(g)
	b.repeat(g, source)
	g.wide, g.rows = min(max(columns, 1), MostColumns)-1, 0
}

func (b *Builder) nextColumn(g *grid) {
	if g.column++; g.column > 1 {
		b.Borders++
	}
}

// repeat writes the cell from a row above that covers the next column, if there is one.
func (b *Builder) repeat(g *grid, source int) {
	b.nextColumn(g)
	if g.column > len(g.above) {
		return
	}
	c := &g.above[g.column-1]
	if !b.Again(len(c.Text) + len(doc.CellBorder)) {
		g.above = nil
		return
	}
	b.Pulse.Beat()
	if c.Rows > 0 {
		c.Rows--
	}
	b.Atom(c.Text, source, 0)
	if c.Rows == 0 {
		c.Text = ""
	}
}

// endCell notes the columns and rows that the open cell covers.
func (b *Builder) endCell(g *grid) {
	if g.column == 0 {
		return
	}
	text := ""
	if g.rows > 1 || g.rows == OpenRows {
		text = strings.TrimLeft(b.W.Text.String()[min(g.from, b.W.Text.Len()):], "| \n")
		if len(text) > maxRow {
			text = ""
		}
	}
	for i := g.column - 1; i < g.column+g.wide && g.rows != 0; i++ {
		for len(g.above) <= i && g.rows != 1 {
			g.above = append(g.above, Covered{})
		}
		if i < len(g.above) {
			g.above[i] = Covered{max(g.rows-1, OpenRows), strings.Clone(text)}
		}
		text = ""
	}
	g.column += g.wide
	b.Borders += g.wide
	g.wide, g.rows = 0, 0
}

// EndCovered ends the cells that cover rows to come.
func (b *Builder) EndCovered() { b.grid().above = nil }

// EndCells ends the cells of a row.
func (b *Builder) EndCells(source int) {
	g := b.grid()
	b.endCell(g)
	for g.column > 0 && g.column < len(g.above) {
		if g.above[g.column].Rows == OpenRows {
			g.above[g.column] = Covered{}
		}
		b.repeat(g, source)
	}
	g.column, b.Borders = 0, 0
}
