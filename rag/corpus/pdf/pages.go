package pdf

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

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
