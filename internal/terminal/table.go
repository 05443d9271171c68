package terminal

import (
	"strings"

	"github.com/sluice-rag/sluice/internal/printable"
)

// Column is one of a table.
type Column struct {
	Title string
	Right bool // aligned to the right and never shortened, as numbers are
	Path  bool // shortened at its beginning
	Keep  bool // never shortened
	Spare bool // left out, the last one first, if there is no room for all
}

// Table is rows of cells under titles. Cells hold no marks and no line breaks.
type Table struct {
	Columns []Column
	rows    [][]string
	omit    map[int]bool // columns that are left out
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

// Text formats the table for a screen: on a terminal its widest columns are shortened until the lines fit, and spare
// ones left out if that is not enough, which the last line reports. Without titles there is no header line.
func (t *Table) Text(s Screen) string {
	t.omit = map[int]bool{}
	widths := t.widths()
	if s.Terminal() {
		t.fit(widths, s.Columns)
	}
	var b strings.Builder
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	if strings.Join(titles, "") != "" {
		b.WriteString(s.Bold(t.line(titles, widths)) + "\n")
	}
	for _, row := range t.rows {
		b.WriteString(t.line(row, widths) + "\n")
	}
	if len(t.omit) > 0 {
		var names []string
		for i := range t.Columns {
			if t.omit[i] {
				names = append(names, t.Columns[i].Title)
			}
		}
		b.WriteString(s.FaintLines(s.Wrap("no room for: "+strings.Join(names, ", ")+" (--json has all)", "", "")))
	}
	return b.String()
}

// Width is how many cells a line takes when nothing is shortened.
func (t *Table) Width() int {
	return total(t.widths())
}

func total(widths []int) (cells int) {
	for _, w := range widths {
		cells += w
	}
	return cells + gap*(len(widths)-1)
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
	}
	return widths
}

// fit takes cells from the widest columns that may be shortened, until the line fits or nothing is left to take.
func (t *Table) fit(widths []int, columns int) {
	for total := total(widths); total > columns; total-- {
		widest := -1
		for i, w := range widths {
			if !t.Columns[i].Keep && !t.Columns[i].Right && w > Width(t.Columns[i].Title) && w > 4 &&
				(widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			t.leaveOut(widths, columns)
			return
		}
		widths[widest]--
	}
}

// leaveOut omits spare columns, the last one first, until the others fit, which then get the room that is left.
func (t *Table) leaveOut(widths []int, columns int) {
	total := total(widths)
	for i := len(widths) - 1; i >= 0 && total > columns; i-- {
		if t.Columns[i].Spare {
			t.omit[i] = true
			total -= widths[i] + gap
		}
	}
}

func (t *Table) line(cells []string, widths []int) string {
	var b strings.Builder
	first := true
	for i, cell := range cells {
		if t.omit[i] {
			continue
		}
		cell = Cut(cell, widths[i], t.Columns[i].Path)
		space := strings.Repeat(" ", max(widths[i]-Width(cell), 0))
		if !first {
			b.WriteString(strings.Repeat(" ", gap))
		}
		first = false
		if t.Columns[i].Right {
			b.WriteString(space + cell)
		} else {
			b.WriteString(cell + space)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
