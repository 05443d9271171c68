package pdf

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/clean"
)

var (
	pdfLeader   = regexp.MustCompile(`(?:\.(?: ?\.){2,}|…+|·{3,}|_{3,})[ .…]*(\d{1,4}|[ivxlc]{1,7})$`)
	pdfPage4    = regexp.MustCompile(`\s(\d{1,4}|[ivxlc]{1,7})$`)
	pdfEntry    = regexp.MustCompile(`^\pL[^.!?]{0,80}?(?:,|\s) ?` + clean.Pages + `[,;]?$`)
	moreEntries = regexp.MustCompile(`^` + clean.Pages + `[,;]?$`)
)

// Fewer lines are no table of contents without leaders, and no page of an index.
const (
	fewPlainContents = 4
	fewIndexLines    = 8
)

// withoutRegisters leaves out tables of contents and indexes, which answer no question: it leaves a document alone that
// has nothing else.
func withoutRegisters(pages [][]pdfLine) [][]pdfLine {
	out, left := make([][]pdfLine, len(pages)), 0
	isIndex := false
	titled := false
	for i, lines := range pages {
		out[i], titled = withoutContents(lines, titled, len(pages))
		if 2*i >= len(pages) {
			out[i], isIndex = withoutIndex(out[i], isIndex)
		}
		left += len(out[i])
	}
	if left == 0 {
		return pages
	}
	return out
}

// withoutContents takes the lines of tables of contents out of a page. titled says that the page before ended in one.
func withoutContents(lines []pdfLine, titled bool, pages int) (kept []pdfLine, goesOn bool) {
	for i := 0; i < len(lines); {
		title := clean.ContentsTitle.MatchString(lines[i].text)
		from := i
		if title {
			from++
		}
		most := 2 * pages // two pages of a book may be one of the file
		if title || titled && i == 0 {
			most += 100 // the file may be a part of the book
		}
		n, entries, leaders := contentsRun(lines[from:], most)
		isContents := leaders >= clean.FewContents || entries >= fewPlainContents && (title || titled && i == 0) ||
			entries >= 2 && titled && i == 0 && leaders > 0
		if !isContents {
			step := 1
			if n > 0 && !title { // its lines begin no other table of contents
				step = n
			}
			kept = append(kept, lines[i:i+step]...)
			i += step
			goesOn = false
			continue
		}
		i = from + n
		goesOn = i >= len(lines)
	}
	return kept, goesOn
}

// contentsRun counts the lines from the first on that are entries of a table of contents, whose pages go up to most,
// and among them those with leaders. A line without a page between two entries is the beginning of a long one. Forms
// and price lists have leaders, too, but before numbers that are no pages of the file.
func contentsRun(lines []pdfLine, most int) (n, entries, leaders int) {
	last := 0
	for i := range lines {
		page, leader := contentsPage(lines[i], most)
		if page == 0 && leader == 0 {
			if i == 0 || i > n+1 || strings.HasSuffix(lines[i].text, ".") {
				break
			}
			continue
		}
		if page > 0 && page < last {
			break
		}
		last = max(last, page)
		n = i + 1
		entries++
		leaders += leader
	}
	return n, entries, leaders
}

// contentsPage is the page that a line ends in, -1 for a Roman number, and whether (1) a leader stands before it.
func contentsPage(l pdfLine, most int) (page, leader int) {
	m := pdfLeader.FindStringSubmatch(l.text)
	if m != nil {
		leader = 1
	} else if m = pdfPage4.FindStringSubmatch(l.text); m == nil {
		return 0, 0
	}
	n, err := strconv.Atoi(m[1])
	switch {
	case err != nil && (leader > 0 || len(l.cells) > 1):
		return -1, leader
	case err != nil || n == 0 || n > most:
		return 0, 0
	}
	return n, leader
}

// withoutIndex takes an index out of a page: most of its lines are entries. goesOn says that the page before had one.
func withoutIndex(lines []pdfLine, goesOn bool) ([]pdfLine, bool) {
	from, title := 0, false
	for i, l := range lines {
		if clean.IndexTitle.MatchString(l.text) {
			from, title = i, true
			break
		}
	}
	hits, all := 0, 0
	for _, l := range lines[from:] {
		r, size := utf8.DecodeRuneInString(l.text)
		switch {
		case size == len(l.text) && unicode.IsLetter(r): // the letter that the entries below begin with
		case isIndexLine(l):
			hits++
			all++
		default:
			all++
		}
	}
	few := fewIndexLines
	if title || goesOn {
		few = clean.FewContents
	}
	if hits < few || 10*hits < 6*all {
		return lines, false
	}
	return lines[:from], true
}

// isIndexLine reports whether a line consists of entries of an index, in one column or several.
func isIndexLine(l pdfLine) bool {
	for _, c := range l.cells {
		if !clean.IndexEntry.MatchString(c.text) && !moreEntries.MatchString(c.text) && !pdfEntry.MatchString(c.text) {
			return false
		}
	}
	return len(l.cells) > 0
}
