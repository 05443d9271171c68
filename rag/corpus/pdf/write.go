package pdf

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// pdfWriter makes a document of the lines of its pages.
type pdfWriter struct {
	b      *build.Builder
	words  pdfHyphenation
	levels map[int]int // of headings, by the sizes of their letters
	cover  int         // lines of the first page that stand on the cover
	title  int         // the first line of the cover that is its title; -1: there is none
	last   int         // the last one
	author string
	code   []float64 // the advances of the fonts that code is set in
}

// writePDF makes the document of its lines, some of which x has read in pictures.
func writePDF(d *doc.Document, pages [][]pdfLine, x *Pictures, p *doc.Pulse) {
	b := &build.Builder{Pulse: p, W: doc.Writer{IsSource: true}}
	pages = withoutRegisters(withoutRunning(pages))
	w := pdfWriter{b: b, words: hyphenation(pages), levels: headingSizes(pages), code: codeAdvances(pages)}
	w.author, _ = d.Meta[doc.AuthorKey].(string)
	w.readCover(pages)
	w.joinPages(pages)
	for i, lines := range pages {
		p.Check()
		if len(lines) == 0 {
			continue
		}
		b.Page(x.anchor(i + 1))
		if i > 0 {
			w.cover = 0
		}
		w.page(lines, x.anchor(i+1))
		b.EndBlock("\n\n")
	}
	b.Finish(d, nil)
}

// page writes the lines of a page.
func (w *pdfWriter) page(lines []pdfLine, anchor string) {
	code := w.codeRuns(lines)
	for j := 0; j < len(lines); {
		level := w.level(lines, j)
		if level == 0 {
			if w.isTerm(lines, j) {
				w.b.Collapsed(w.words.joined(lines[j:j+1]), 0)
				w.b.Colon(0)
				j++
				continue
			}
			if code[j] > 0 {
				w.verbatim(lines[j : j+code[j]])
				j += code[j]
				continue
			}
			if rows, columns := pdfTable(lines[j:]); rows > 0 {
				w.table(lines[j:j+rows], columns)
				j += rows
				continue
			}
		}
		k := j + 1
		if level > 0 { // a heading of several lines
			for k < len(lines) && w.level(lines, k) == level && rounded(lines[k].size) == rounded(lines[j].size) &&
				follows(lines[k-1], lines[k], 2) {
				k++
			}
			if text := w.words.joined(lines[j:k]); utf8.RuneCountInString(text) <= doc.MaxHeading {
				if strings.ContainsFunc(text, unicode.IsLetter) || strings.ContainsFunc(text, unicode.IsNumber) {
					w.b.Heading(level, text, anchor, 0, 0)
				} // else a frame that is drawn with letters
				j = k
				continue
			}
		}
		for k < len(lines) && w.level(lines, k) == level && follows(lines[k-1], lines[k], 1.5) &&
			!beginsItem(lines[k-1], lines[k]) && !(w.isTerm(lines, k) && lines[k].isLeftOf(lines[k-1])) {
			if rows, _ := pdfTable(lines[k:min(k+3, len(lines))]); rows > 0 || code[k] > 0 {
				break
			}
			k++
		}
		w.b.Collapsed(w.words.joined(lines[j:k]), 0)
		if k < len(lines) && beginsItem(lines[k-1], lines[k]) && follows(lines[k-1], lines[k], 1.5) {
			w.b.EndBlock("\n")
		} else {
			w.b.EndBlock("\n\n")
		}
		j = k
	}
}

// level returns the level of the heading that a line is, or 0.
func (w *pdfWriter) level(lines []pdfLine, i int) int {
	if i < w.cover && (i < w.title || i > w.last) || w.author != "" && len(lines[i].text) < doc.MaxHeading &&
		strings.EqualFold(strings.TrimPrefix(lines[i].text, "by "), w.author) {
		return 0
	}
	return w.levels[rounded(lines[i].size)]
}

// table writes the rows of a table, a line each, or columns of text one below the other.
func (w *pdfWriter) table(rows []pdfLine, columns pdfColumns) {
	if isLayout(rows, columns) {
		for c := range columns {
			var lines []pdfLine
			for _, x := range rows {
				for _, cell := range x.cells {
					if columns.of(cell) == c {
						lines = append(lines, pdfLine{text: cell.text})
					}
				}
			}
			w.b.Collapsed(w.words.joined(lines), 0)
			w.b.EndBlock("\n\n")
		}
		return
	}
	w.b.BeginTable(build.OpenTable{})
	for i := 0; i < len(rows); {
		x := rows[i]
		x.cells = slices.Clone(x.cells)
		last := &x.cells[len(x.cells)-1]
		lines := []pdfLine{{text: last.text}}
		for i++; i < len(rows) && goesOn(rows[i-1], rows[i], columns); i++ {
			lines = append(lines, pdfLine{text: rows[i].cells[0].text})
		}
		last.text = w.words.joined(lines)
		w.b.Atom(rowText(x, columns), 0, 0)
		w.b.EndBlock("\n")
		w.b.EndRow(false)
	}
	w.b.EndTable()
}

// fewLetters is the most letters of a cell that is a value rather than running text.
const fewLetters = 20

// goesOn reports whether a row only continues the text in the last column of the one before.
func goesOn(last, next pdfLine, columns pdfColumns) bool {
	if len(next.cells) != 1 || !next.below(last, 1.5) {
		return false
	}
	at, above := columns.of(next.cells[0]), last.cells[len(last.cells)-1]
	begin, _ := utf8.DecodeRuneInString(next.cells[0].text)
	return at > 0 && at == columns.of(above) && utf8.RuneCountInString(above.text) > fewLetters &&
		!(strings.HasSuffix(above.text, ".") && unicode.IsUpper(begin))
}

// follows reports whether a line continues the one before: close below it, in letters of about the same size.
func follows(last, next pdfLine, spacing float64) bool {
	return next.below(last, spacing) && math.Abs(last.size-next.size) < .1*max(last.size, next.size)+.01 &&
		next.left < last.right && next.right > last.left
}

// isTerm reports whether a line is a term, below which its definition stands further in.
func (w *pdfWriter) isTerm(lines []pdfLine, i int) bool {
	if i+1 >= len(lines) {
		return false
	}
	l, next := lines[i], lines[i+1]
	if l.text == "" || !l.isLeftOf(next) || next.left > l.left+mostIndent*l.size || !next.below(l, 2) ||
		len(l.cells) > 1 || doc.IsListItem(l.text) || utf8.RuneCountInString(l.text) > longestTerm ||
		w.level(lines, i) > 0 || w.level(lines, i+1) > 0 || !w.isText(next) ||
		strings.ContainsAny(l.text[len(l.text)-1:], ".:;,!?") {
		return false
	}
	// All lines of a definition are indented; where only one is, it begins a paragraph.
	return i+2 == len(lines) || !follows(next, lines[i+2], 1.5) || math.Abs(lines[i+2].left-next.left) <= .5*next.size
}

const (
	mostIndent  = 6  // of a definition, in sizes of letters
	longestTerm = 60 // characters
)

// isLeftOf reports whether a line begins further out than another one.
func (x pdfLine) isLeftOf(y pdfLine) bool { return x.left < y.left-.9*x.size }

// beginsItem reports whether a line begins an item of a list: a number may also begin a line of a sentence.
func beginsItem(last, next pdfLine) bool {
	return doc.IsListItem(next.text) &&
		(strings.HasPrefix(next.text, "•") || strings.HasSuffix(strings.TrimRight(last.text, ")”’\""), ".") ||
			strings.ContainsAny(last.text[max(0, len(last.text)-1):], ":;!?"))
}

// plainPDF is a text without the marks of hyphens and without controls.
func plainPDF(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\u0002' || r == '\ufffe' || r == '\u00ad' {
			return -1
		}
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

func rounded(size float64) int { return int(math.Round(2 * size)) }

// headingSizes are the levels of headings by the sizes of their letters: the largest ones, which are above that of most
// letters.
func headingSizes(pages [][]pdfLine) map[int]int {
	letters := map[int]int{}
	for _, lines := range pages {
		for _, l := range lines {
			letters[rounded(l.size)] += utf8.RuneCountInString(l.text)
		}
	}
	body, total := 0, 0
	for size, n := range letters {
		if total += n; n > letters[body] || n == letters[body] && size < body {
			body = size
		}
	}
	var sizes []int
	for size, n := range letters {
		if float64(size) > 1.12*float64(body) && 4*n < total {
			sizes = append(sizes, size)
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	levels := map[int]int{}
	for i, size := range sizes {
		levels[size] = min(i+1, pdfHeadings)
	}
	return levels
}

// readCover finds the lines above the first text of the first page in sizes that come nowhere else, such as an author's
// name and a date: the largest one is the title, and the others are no headings, or all headings would stand below
// them.
func (w *pdfWriter) readCover(pages [][]pdfLine) {
	w.title = -1
	if len(pages) == 0 {
		return
	}
	n, first := 0, pages[0]
	for n < len(first) && w.levels[rounded(first[n].size)] > 0 {
		n++
	}
	again := map[int]bool{}
	for i, lines := range pages {
		if i == 0 {
			lines = lines[n:]
		}
		for _, l := range lines {
			again[rounded(l.size)] = true
		}
	}
	for n > 0 && again[rounded(first[n-1].size)] { // the first heading of the text
		n--
	}
	largest := 0
	for i := range n {
		if size := rounded(first[i].size); size > largest && !again[size] {
			w.title, largest = i, size
		}
	}
	if w.title < 0 {
		return
	}
	for w.cover = w.title + 1; w.cover < n; w.cover++ {
		if again[rounded(first[w.cover].size)] {
			break
		}
	}
	for w.last = w.title; w.last+1 < w.cover && rounded(first[w.last+1].size) == largest &&
		follows(first[w.last], first[w.last+1], 1.5); w.last++ { // a title of several lines
	}
}

const (
	fewCode                   = 3      // lines of a monospaced font show that a document has code in it
	leastAdvance, mostAdvance = .4, .8 // of such fonts
)

// codeAdvances returns the advances of the monospaced fonts that code is set in. Where most of a document is
// monospaced, that says nothing about code.
func codeAdvances(pages [][]pdfLine) (list []float64) {
	type shown struct {
		lines, letters int
		advances       float64
	}
	found, all := map[int]shown{}, 0
	for _, lines := range pages {
		for _, l := range lines {
			n := utf8.RuneCountInString(l.text)
			if all += n; l.advance > leastAdvance && l.advance < mostAdvance && l.words > 1 {
				at := int(math.Round(100 * l.advance))
				s := found[at]
				found[at] = shown{s.lines + 1, s.letters + n, s.advances + l.advance}
			}
		}
	}
	for _, s := range found {
		switch {
		case 2*s.letters > all:
			return nil
		case s.lines >= fewCode:
			list = append(list, s.advances/float64(s.lines))
		}
	}
	slices.Sort(list)
	return list
}

// isCode reports whether a line is code.
func (w *pdfWriter) isCode(l pdfLine) bool {
	return slices.ContainsFunc(w.code, func(a float64) bool { return math.Abs(a-l.advance) < .006 })
}

// codeRuns tells for each line how many from it on are code, one below the other.
func (w *pdfWriter) codeRuns(lines []pdfLine) []int {
	runs := make([]int, len(lines))
	for i := len(lines) - 1; i >= 0; i-- {
		x := lines[i]
		if !w.isCode(x) {
			continue
		}
		runs[i] = 1
		if i+1 < len(lines) && runs[i+1] > 0 && lines[i+1].below(x, 3) && math.Abs(lines[i+1].size-x.size) < .01 {
			runs[i] += runs[i+1]
		}
	}
	return runs
}

// verbatim writes lines of code as they stand.
func (w *pdfWriter) verbatim(lines []pdfLine) {
	left := lines[0].left
	for _, x := range lines {
		left = min(left, x.left)
	}
	for i, x := range lines {
		if i > 0 {
			w.b.Gap("\n", 0)
		}
		if i > 0 && !x.below(lines[i-1], 1.8) {
			w.b.Gap("\n\n", 0)
		}
		indent := int(math.Round((x.left - left) / (x.advance * max(x.size, 1))))
		w.b.Verbatim(strings.Repeat(" ", min(max(indent, 0), maxPDFCells))+plainPDF(x.code), 0)
	}
	w.b.EndBlock("\n\n")
}
