package pdf

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

var digits = regexp.MustCompile(`\d+`)

// running is what is the same in lines of several pages, whatever their numbers.
func runningText(l pdfLine) string {
	return digits.ReplaceAllString(strings.Join(strings.Fields(l.text), " "), "0")
}

// edge is a line that may be a running title or a footer.
type edge struct {
	page, line int
	apart      bool // a gap parts it from the text
}

// fewRunning pages say that a line is a running one.
const fewRunning = 3

// withoutRunning leaves out running titles, footers and page numbers: lines at the edges of pages whose text comes on
// half of them, or on three at the same height, or whose number goes up with the pages. In letters of headings they may
// be headings, such as "Chapter 7": these must have no other numbers.
func withoutRunning(pages [][]pdfLine) [][]pdfLine {
	type place struct{ y, offset int }
	var (
		levels  = headingSizes(pages)
		texts   = map[string][]edge{}
		numbers = map[place][]edge{}
		out     = map[[2]int]bool{}
	)
	line := func(e edge) pdfLine { return pages[e.page][e.line] }
	isHead := func(e edge) bool { return levels[rounded(line(e).size)] > 0 }
	for i, lines := range pages {
		for _, e := range edges(i, lines) {
			text := runningText(line(e))
			texts[text] = append(texts[text], e)
			if isHead(e) && strings.ContainsFunc(text, unicode.IsLetter) {
				continue
			}
			for _, n := range edgeNumbers(line(e).text) {
				for d := -1; d <= 1; d++ {
					at := place{line(e).level() + d, n - i}
					numbers[at] = append(numbers[at], e)
				}
			}
		}
	}
	for _, list := range texts {
		often := 2*differentPages(list) >= len(pages) && differentPages(list) >= fewRunning
		at, same := map[int]int{}, map[string]int{}
		for _, e := range list {
			for d := -1; d <= 1; d++ {
				at[line(e).level()+d]++
			}
			same[line(e).text]++
		}
		for _, e := range list {
			if isHead(e) && same[line(e).text] < fewRunning && strings.ContainsFunc(line(e).text, unicode.IsLetter) {
				continue
			}
			if often || e.apart && at[line(e).level()] >= fewRunning {
				out[[2]int{e.page, e.line}] = true
			}
		}
	}
	for _, list := range numbers {
		if differentPages(list) < fewRunning {
			continue
		}
		for _, e := range list {
			if e.apart {
				out[[2]int{e.page, e.line}] = true
			}
		}
	}
	// Where a fourth of the pages have one, the others have one, too, such as the name of a section.
	type band struct{ y, size int }
	bands := map[band]int{}
	for at := range out {
		l := pages[at[0]][at[1]]
		for d := -1; d <= 1; d++ {
			bands[band{l.level() + d, rounded(l.size)}]++
		}
	}
	for i, lines := range pages {
		for _, e := range edges(i, lines) {
			if n := bands[band{line(e).level(), rounded(line(e).size)}]; e.apart && !isHead(e) && n >= fewRunning &&
				4*n >= len(pages) {
				out[[2]int{e.page, e.line}] = true
			}
		}
	}
	kept := make([][]pdfLine, len(pages))
	for i, lines := range pages {
		for j, l := range lines {
			if !out[[2]int{i, j}] {
				kept[i] = append(kept[i], l)
			}
		}
	}
	return kept
}

// level is the height at which a line stands, in steps in which lines of several pages stand at the same one.
func (x pdfLine) level() int {
	return int(math.Round(max(min(x.main.bottom, math.MaxInt32), math.MinInt32) / 3))
}

// differentPages counts the pages of edges, which are in order.
func differentPages(list []edge) (n int) {
	last := -1
	for _, e := range list {
		if e.page != last {
			n, last = n+1, e.page
		}
	}
	return n
}

// edgeNumbers are the numbers that a line begins or ends with: that of its page, perhaps.
func edgeNumbers(text string) (out []int) {
	words := strings.Fields(text)
	if len(words) == 0 || len(text) > doc.MaxHeading {
		return nil
	}
	for _, word := range []string{words[0], words[len(words)-1]} {
		if n, err := strconv.Atoi(strings.Trim(word, "[]()|-–—.")); err == nil && n >= 0 && n < 10*pdfPages &&
			!slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// edges are the first two and the last two lines of a page as they were drawn, and the two at its top and at its
// bottom.
func edges(page int, lines []pdfLine) (out []edge) {
	chosen := make([]int, 0, 8)
	for _, i := range []int{0, 1, len(lines) - 2, len(lines) - 1} {
		if i >= 0 && i < len(lines) && !slices.Contains(chosen, i) {
			chosen = append(chosen, i)
		}
	}
	top, bottom := [3]int{-1, -1, -1}, [3]int{-1, -1, -1} // the three highest and lowest lines
	for i := range lines {
		sift(&top, i, func(a, b int) bool { return lines[a].main.bottom > lines[b].main.bottom })
		sift(&bottom, i, func(a, b int) bool { return lines[a].main.bottom < lines[b].main.bottom })
	}
	for _, i := range []int{top[0], top[1], bottom[0], bottom[1]} {
		if i >= 0 && !slices.Contains(chosen, i) {
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	for _, i := range chosen {
		if i > 0 && areRows(lines[i-1], lines[i]) || i+1 < len(lines) && areRows(lines[i], lines[i+1]) {
			continue // of a table
		}
		out = append(out, edge{page, i, apart(lines, i, top) || apart(lines, i, bottom)})
	}
	return out
}

// areRows reports whether two lines look like rows of a table.
func areRows(a, b pdfLine) bool {
	return len(a.cells) > 1 && len(b.cells) > 1 && b.below(a, 3) && rounded(a.size) == rounded(b.size)
}

// sift puts a line among the first three.
func sift(first *[3]int, i int, before func(a, b int) bool) {
	for k := range first {
		if first[k] < 0 || before(i, first[k]) {
			copy(first[k+1:], first[k:])
			first[k] = i
			return
		}
	}
}

// apart reports whether a line is one of the first two of an order, and the next one below the title or above the
// footer is further away than the lines of a paragraph are.
func apart(lines []pdfLine, i int, order [3]int) bool {
	for k, at := range order[:2] {
		next := order[k+1]
		if at < 0 || next < 0 {
			return at == i // the page has nothing else
		}
		gap := math.Abs(lines[at].main.bottom - lines[next].main.bottom)
		wide := gap > 1.45*max(lines[at].size, 1)
		if at == i && wide || wide && k == 1 && order[0] == i {
			return true
		}
	}
	return false
}

// pdfSentenceEnd is where a sentence ends within a line.
var pdfSentenceEnd = regexp.MustCompile(`[.!?]["'”’»)]*(?:\s+["'“‘«(]*\p{Lu}|$)`)

// mostCarried is how many lines a sentence goes on for at most on the next page.
const mostCarried = 8

// joinPages moves the rest of a sentence that goes on over the end of a page to where it began, so that it is in one
// section. Below the line that it goes on from may be notes, in smaller letters.
func (w *pdfWriter) joinPages(pages [][]pdfLine) {
	for i := range len(pages) - 1 {
		lines, next := pages[i], pages[i+1]
		if len(next) == 0 || !w.isText(next[0]) {
			continue
		}
		at := len(lines) - 1
		for at >= 0 && rounded(lines[at].size) < rounded(next[0].size) {
			at--
		}
		if at < 0 || !w.isText(lines[at]) || rounded(lines[at].size) != rounded(next[0].size) ||
			!runsOn(lines[:at+1], next[0]) {
			continue
		}
		rest, left := w.untilSentenceEnd(next)
		for k := range rest {
			rest[k].box, rest[k].main = lines[at].box, lines[at].main
			drop := float64(k+1) * 1.2 * lines[at].size
			rest[k].main.bottom, rest[k].main.top = rest[k].main.bottom-drop, rest[k].main.top-drop
		}
		pages[i], pages[i+1] = slices.Insert(slices.Clone(lines), at+1, rest...), left
	}
}

// isText reports whether a line may be one of a paragraph.
func (w *pdfWriter) isText(l pdfLine) bool {
	return w.levels[rounded(l.size)] == 0 && len(l.cells) == 1 && !w.isCode(l) && !doc.IsListItem(l.text)
}

// runsOn reports whether a sentence goes on from the last of the lines on the next page.
func runsOn(lines []pdfLine, next pdfLine) bool {
	last := lines[len(lines)-1]
	end, _ := utf8.DecodeLastRuneInString(last.text)
	begin, _ := utf8.DecodeRuneInString(next.text)
	_, hyphen := cutHyphen(last.text)
	right := last.right
	for _, l := range lines {
		right = max(right, l.right)
	}
	full := last.right > right-2*last.size
	switch {
	case hyphen || end == ',':
		return true
	case !unicode.IsLetter(end) && !unicode.IsNumber(end) && !strings.ContainsRune(")”’\"", end):
		return false
	}
	return unicode.IsLower(begin) || full && (unicode.IsLetter(begin) || unicode.IsNumber(begin))
}

// untilSentenceEnd parts the lines of a page behind the first sentence's end. Where the first paragraph has none in its
// first lines, nothing goes.
func (w *pdfWriter) untilSentenceEnd(lines []pdfLine) (rest, left []pdfLine) {
	for i, l := range lines[:min(mostCarried, len(lines))] {
		if i > 0 && (!w.isText(l) || !follows(lines[i-1], l, 1.5)) {
			return slices.Clone(lines[:i]), lines[i:]
		}
		at := pdfSentenceEnd.FindStringIndex(l.text)
		if at == nil {
			continue
		}
		cut := at[0] + strings.IndexFunc(l.text[at[0]:]+" ", unicode.IsSpace)
		rest, left = append(slices.Clone(lines[:i]), l.with(l.text[:cut])), lines[i+1:]
		if behind := strings.TrimSpace(l.text[cut:]); behind != "" {
			left = append([]pdfLine{l.with(behind)}, left...)
		}
		return rest, left
	}
	return nil, lines
}

// with returns the line with another text.
func (x pdfLine) with(text string) pdfLine {
	x.text, x.code = text, ""
	x.cells = []pdfCell{{left: x.left, right: x.right, text: text}}
	return x
}
