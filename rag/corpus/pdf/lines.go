package pdf

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// pdfLine is a line of a page.
type pdfLine struct {
	box             // of all of it
	main  box       // of its words but scripts
	size  float64   // of most of its letters, in points
	cells []pdfCell // the parts between wide gaps; a single one without such gaps

	text    string  // of all of it; set by end
	code    string  // with all its spaces, if it is monospaced; set by end
	count   int     // letters
	advance float64 // of its letters, in sizes, if it is monospaced; else 0
	words   int     // that tell whether it is monospaced
	largest int     // letters of its longest run of one size
	run     int     // letters of the last run of one size
	last    float64
	space   float64 // the widest one within a cell, in sizes of letters
}

// pdfCell is a part of a line.
type pdfCell struct {
	left, right float64
	gap         float64 // before it, in sizes of letters
	text        string
	whole       []byte // text while it grows
}

// pdfLines puts together what stands on one line.
type pdfLines []pdfLine

const (
	pdfGap    = .15 // of the size of letters: a wider gap parts words where PDFium does not say so
	pdfNarrow = .5  // a wider gap may part columns if it is wider than the line's others
	pdfColumn = .8  // a wider gap may part columns whatever the others are
	pdfItem   = 2.5 // a narrower gap parts the mark of an item from its text
	pdfScript = .86 // letters that are smaller and stand higher or lower are scripts
)

// add puts a word behind the last one, if it stands on its line, or begins a line.
func (l *pdfLines) add(w pdfWord) {
	if strings.TrimSpace(w.text) == "" {
		return
	}
	letters := utf8.RuneCountInString(w.text)
	if n := len(*l); n > 0 && (*l)[n-1].continues(w) {
		(*l)[n-1].append(w, letters)
		return
	}
	*l = append(*l, pdfLine{box: w.box, main: w.box, size: w.size, last: w.size, count: letters, run: letters,
		largest: letters, advance: w.advance, words: tellingWords(w.text),
		cells: []pdfCell{{left: w.left, right: w.right, whole: []byte(w.text)}}})
}

// continues reports whether a word stands on the line: PDFium says so, or it stands behind it and at its height, or it
// is a script beside it.
func (x *pdfLine) continues(w pdfWord) bool {
	if !w.begins {
		return true
	}
	shared, size := x.main.over(w.box), max(x.size, w.size, 1)
	gap := w.left - x.right
	switch small := min(x.size, w.size); {
	case shared > .5 && w.left >= x.left && gap > -size:
		return true
	case small < pdfScript*size:
		return shared > .15 && gap > -.5*size && gap < .6*size
	}
	return false
}

// append puts a word behind the last one.
func (x *pdfLine) append(w pdfWord, letters int) {
	cell := &x.cells[len(x.cells)-1]
	size := max(min(x.size, w.size), 1)
	gap := w.left - x.right
	if math.Abs(w.advance-x.advance) > .01 || math.Abs(w.size-x.size) > .01 {
		x.advance = 0
	}
	x.words += tellingWords(w.text)
	switch {
	case gap > pdfNarrow*size && len(x.cells) < maxPDFCells:
		x.cells = append(x.cells, pdfCell{left: w.left, right: w.right, gap: gap / size})
		cell = &x.cells[len(x.cells)-1]
	case w.spaced || w.begins && gap > pdfGap*size:
		cell.whole = append(cell.whole, ' ')
		x.space = max(x.space, gap/size)
	}
	cell.whole = append(cell.whole, w.text...)
	cell.left, cell.right = min(cell.left, w.left), max(cell.right, w.right)
	x.box = x.union(w.box)
	if w.size >= pdfScript*x.size && w.over(x.main) > 0 {
		x.main = x.main.union(w.box)
	}
	if x.count += letters; math.Abs(w.size-x.last) > .01 {
		x.run, x.last = 0, w.size
	}
	if x.run += letters; x.run > x.largest {
		x.largest, x.size = x.run, w.size
	}
	if w.size > x.size/pdfScript && x.main.height() < w.height() { // it began with a script
		x.main = w.box
	}
}

// maxPDFCells bounds the cells of a line: a page may have a hundred thousand words on one.
const maxPDFCells = 64

// end makes the texts of the lines.
func (l pdfLines) end() {
	for i := range l {
		x := &l[i]
		x.spell()
		x.narrow()
		parts := make([]string, len(x.cells))
		for j := range x.cells {
			c := &x.cells[j]
			c.text, c.whole = strings.TrimSpace(string(c.whole)), nil
			parts[j] = c.text
		}
		x.text = strings.Join(parts, " ")
	}
}

// spell sets the code of a monospaced line, whose spaces are as wide as its letters.
func (x *pdfLine) spell() {
	if x.advance == 0 {
		return
	}
	var b strings.Builder
	for i, c := range x.cells {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", min(max(1, int(math.Round(c.gap/x.advance))), maxPDFCells)))
		}
		b.Write(c.whole)
	}
	x.code = b.String()
}

// narrow joins cells that the line's spaces may be between: its other spaces are about as wide, or it has no others and
// is no row of numbers. The mark of an item is no cell of its own.
func (x *pdfLine) narrow() {
	numbers := 0
	for _, c := range x.cells {
		if bytes.ContainsAny(c.whole, "0123456789") {
			numbers++
		}
	}
	out := x.cells[:1]
	for i, c := range x.cells[1:] {
		last := &out[len(out)-1]
		if i == 0 && c.gap < pdfItem && doc.IsListItem(string(bytes.TrimSpace(last.whole))+" x") {
			c.gap = 0
		}
		if c.gap >= pdfColumn || x.space > 0 && c.gap > 1.8*x.space || x.space == 0 && 2*numbers >= len(x.cells) {
			out = append(out, c)
			continue
		}
		last.whole = append(append(last.whole, ' '), c.whole...)
		last.left, last.right = min(last.left, c.left), max(last.right, c.right)
	}
	x.cells = out
}

// pdfColumns are the columns of a table, from left to right: what its rows' cells cover.
type pdfColumns []pdfCell

// with are the columns with those of a row: false where a cell covers two columns, so that they would be one.
func (c pdfColumns) with(row []pdfCell) (pdfColumns, bool) {
	all := append(append(make(pdfColumns, 0, len(c)+len(row)), c...), row...)
	// Both are in order but for overlapping cells: an insertion sort moves little.
	for i := 1; i < len(all); i++ {
		for j := i; j > 0 && all[j].left < all[j-1].left; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	out := all[:0]
	for _, x := range all {
		if n := len(out); n > 0 && x.left < out[n-1].right {
			out[n-1].right = max(out[n-1].right, x.right)
			continue
		}
		out = append(out, pdfCell{left: x.left, right: x.right})
	}
	return out, len(out) >= max(len(c), len(row)) && len(out) <= maxPDFCells
}

// of is the column of a cell.
func (c pdfColumns) of(x pdfCell) int {
	for i := range c {
		if x.left < c[i].right && x.right > c[i].left {
			return i
		}
	}
	return len(c) - 1
}

// pdfTable are the first lines that are rows of one table, with its columns; nothing where they are none. Two rows with
// cells below each other are a table; lines with wide gaps by chance have no columns in common.
func pdfTable(lines []pdfLine) (rows int, columns pdfColumns) {
	for rows < len(lines) {
		x := lines[rows]
		if rows > 0 && (!x.below(lines[rows-1], 3) || math.Abs(x.size-lines[0].size) > .1*x.size) {
			break
		}
		next, ok := columns.with(x.cells)
		if !ok || len(x.cells) < 2 && !(rows > 0 && len(columns) == len(next) && rows+1 < len(lines) &&
			len(lines[rows+1].cells) > 1) {
			break
		}
		columns = next
		rows++
	}
	if rows < 2 || len(columns) < 2 {
		return 0, nil
	}
	return rows, columns
}

// below reports whether a line stands below another one, within so many heights of their letters.
func (x pdfLine) below(last pdfLine, heights float64) bool {
	drop := last.main.bottom - x.main.bottom
	return drop > 0 && drop < heights*1.2*max(last.size, x.size, 1)
}

// isLayout reports whether rows are columns of running text, drawn line by line, and no table: every row has all its
// cells, which are long and without numbers of their own.
func isLayout(rows []pdfLine, columns pdfColumns) bool {
	if len(rows) < 4 || len(columns) > 3 {
		return false
	}
	short := 0
	for i, x := range rows {
		if len(x.cells) != len(columns) && i+1 < len(rows) {
			return false
		}
		for j, cell := range x.cells {
			if c := columns[min(j, len(columns)-1)]; utf8.RuneCountInString(cell.text) < 20 ||
				cell.right-cell.left < .6*(c.right-c.left) {
				short++
			}
		}
	}
	return 4*short <= len(rows)
}

// rowText is a row as a line with " | " between its cells, each in its column.
func rowText(x pdfLine, columns pdfColumns) string {
	var b strings.Builder
	at := 0
	for i, cell := range x.cells {
		for to := columns.of(cell); at < to; at++ {
			b.WriteString(doc.CellBorder)
		}
		if i > 0 && b.Len() > 0 && !strings.HasSuffix(b.String(), doc.CellBorder) {
			b.WriteString(" ")
		}
		b.WriteString(strings.Join(strings.Fields(plainPDF(cell.text)), " "))
	}
	return b.String()
}

// tellingWords is 1 for a word with letters enough to tell whether its font is monospaced, else 0: digits have one
// width in most fonts, and so have all characters of Chinese.
func tellingWords(word string) int {
	n := 0
	for i := range len(word) {
		if c := word[i] | 0x20; c >= 'a' && c <= 'z' {
			n++
		}
	}
	return min(n/3, 1)
}
