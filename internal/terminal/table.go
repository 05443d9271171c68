package terminal

import (
	"strings"

	"github.com/sluice-rag/sluice/internal/printable"
)

// Column is one of a table.
type Column struct {
	Title string
	Right bool // aligned to the right, as numbers are
	Path  bool // shortened at its beginning
	Keep  bool // never shortened
}

// Table is rows of cells under titles. Cells hold no marks and no line breaks.
type Table struct {
	Columns []Column
	rows    [][]string
}

// Add adds a row with a cell for each column; control characters are written out.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = printable.Line(c)
	}
	t.rows = append(t.rows, row)
}

const gap = 2

// Text is the table for a screen: on a terminal its widest columns are shortened until the lines fit.
func (t *Table) Text(s Screen) string {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
	}
	if s.Terminal() {
		t.fit(widths, s.Columns)
	}
	var b strings.Builder
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	b.WriteString(s.Bold(t.line(titles, widths)) + "\n")
	for _, row := range t.rows {
		b.WriteString(t.line(row, widths) + "\n")
	}
	return b.String()
}

// fit takes cells from the widest columns that may be shortened, until the line fits or nothing is left to take.
func (t *Table) fit(widths []int, columns int) {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > columns; total-- {
		widest := -1
		for i, w := range widths {
			if !t.Columns[i].Keep && w > Width(t.Columns[i].Title) && w > 4 && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (t *Table) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		cell = Cut(cell, widths[i], t.Columns[i].Path)
		space := strings.Repeat(" ", max(widths[i]-Width(cell), 0))
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if t.Columns[i].Right {
			b.WriteString(space + cell)
		} else {
			b.WriteString(cell + space)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
