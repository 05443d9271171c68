package pdf

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

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
