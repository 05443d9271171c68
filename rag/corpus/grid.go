package corpus

import "strings"

// grid places the cells of a table's rows. A cell that covers further rows is repeated in each of them, so that each
// row can be understood alone; a cell that covers further columns leaves them empty.
type grid struct {
	column int // of the open cell, counted from 1; 0: the row has no cell yet
	from   int // byte of the text where the open cell begins
	wide   int // columns that it covers beside its own
	rows   int // rows that it covers, its own included; openRows: until endCovered; 0: it continues a cell above
	above  []covered
}

// covered is a cell that covers a column of the next rows: rows is the number of rows left, or openRows.
type covered struct {
	rows int
	text string
}

// openRows is the row count of a cell that covers rows until one ends it.
const openRows = -1

// mostColumns bounds what one cell may cover, so that a number of a few digits cannot produce any amount of text, and
// freeRepeats is the number of bytes that may be repeated whatever the length of the text.
const (
	mostColumns = 100
	freeRepeats = 16 << 10
)

// again reports whether n more bytes that repeat a part of the source may be written: repetitions may be at most seven
// eighths of the text, plus freeRepeats.
func (b *builder) again(n int) bool {
	if 8*(b.repeated+n) > 7*(b.w.text.Len()+n)+freeRepeats {
		return false
	}
	b.repeated += n
	return true
}

// grid returns the grid of the innermost table.
func (b *builder) grid() *grid {
	if n := len(b.within); n > 0 {
		return &b.within[n-1].grid
	}
	return &b.loose
}

// cell begins a cell of the row, at a place of the source, that covers the given numbers of columns and rows.
func (b *builder) cell(columns, rows, source int) {
	g := b.grid()
	b.endCell(g)
	for g.column < len(g.above) && g.above[g.column].rows > 0 {
		b.repeat(g, source)
	}
	b.nextColumn(g)
	g.wide, g.rows, g.from = min(max(columns, 1), mostColumns)-1, rows, b.w.text.Len()
}

// cellAgain begins a cell that continues the one above it, or the one before it.
func (b *builder) cellAgain(columns, source int) {
	g := b.grid()
	b.endCell(g)
	b.repeat(g, source)
	g.wide, g.rows = min(max(columns, 1), mostColumns)-1, 0
}

func (b *builder) nextColumn(g *grid) {
	if g.column++; g.column > 1 {
		b.borders++
	}
}

// repeat writes the cell from a row above that covers the next column, if there is one.
func (b *builder) repeat(g *grid, source int) {
	b.nextColumn(g)
	if g.column > len(g.above) {
		return
	}
	c := &g.above[g.column-1]
	if !b.again(len(c.text) + len(cellBorder)) {
		g.above = nil
		return
	}
	b.pulse.beat()
	if c.rows > 0 {
		c.rows--
	}
	b.atom(c.text, source, 0)
	if c.rows == 0 {
		c.text = ""
	}
}

// endCell notes the columns and rows that the open cell covers.
func (b *builder) endCell(g *grid) {
	if g.column == 0 {
		return
	}
	text := ""
	if g.rows > 1 || g.rows == openRows {
		text = strings.TrimLeft(b.w.text.String()[min(g.from, b.w.text.Len()):], "| \n")
		if len(text) > maxRow {
			text = ""
		}
	}
	for i := g.column - 1; i < g.column+g.wide && g.rows != 0; i++ {
		for len(g.above) <= i && g.rows != 1 {
			g.above = append(g.above, covered{})
		}
		if i < len(g.above) {
			g.above[i] = covered{max(g.rows-1, openRows), strings.Clone(text)}
		}
		text = ""
	}
	g.column += g.wide
	b.borders += g.wide
	g.wide, g.rows = 0, 0
}

// endCovered ends the cells that cover rows to come.
func (b *builder) endCovered() { b.grid().above = nil }

// endCells ends the cells of a row.
func (b *builder) endCells(source int) {
	g := b.grid()
	b.endCell(g)
	for g.column > 0 && g.column < len(g.above) {
		if g.above[g.column].rows == openRows {
			g.above[g.column] = covered{}
		}
		b.repeat(g, source)
	}
	g.column, b.borders = 0, 0
}
