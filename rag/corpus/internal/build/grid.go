package build

import (
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

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
