// Package plain reads plain text.
package plain

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// outlined is a heading of a plain text: bytes [from, to) are its lines, with their ends.
type outlined struct {
	level      int
	text       string
	from, to   int
	underlined bool
}

// Indented lines make up this many tenths of a text whose headings stand at the margin, as in RFCs and in manual pages
// that were printed.
const hangingTenths = 6

// A text with more than fewHeadings headings is taken for something else if it has less than bytesOfHeading bytes for
// each of them: sections take memory.
const (
	fewHeadings    = 100
	bytesOfHeading = 40
)

// Parse reads a plain text. Its headings are underlined, or stand at the margin above indented text.
func Parse(d *doc.Document, in charset.Text, p *doc.Pulse) {
	d.Text, d.Offsets = in.Text, in.Map
	if list := headings(in.Text, p); len(list) > 0 {
		structure(d, list)
		if first := list[0]; !first.underlined || strings.TrimSpace(in.Text[:first.from]) != "" {
			d.Title = doc.NameOf(d.ID)
		}
	}
	d.Normalise(p)
}

// headings finds the headings of a text.
func headings(text string, p *doc.Pulse) []outlined {
	var list []outlined
	var title *outlined // the line before, if it can be a heading
	lines, indented, at := 0, 0, 0
	blank, marks := true, ""
	for line := range strings.Lines(text) {
		p.Beat()
		from := at
		at += len(line)
		body := strings.TrimRight(line, " \t\r\n\f")
		switch {
		case body == "":
			blank = true
			continue
		case title != nil && !blank && isUnderline(body, title.text):
			n := strings.Index(marks, body[:1])
			if n < 0 {
				n = len(marks)
				marks += body[:1]
			}
			list = append(list, outlined{n + 1, title.text, title.from, at, true})
			title, blank = nil, false
			continue
		}
		lines++
		in := body[0] == '\t' || body[0] == ' '
		if in {
			indented++
		}
		if title != nil && canHang(title.text) && (in || hasNumber(title.text)) {
			list = append(list, *title)
		}
		if len(list) > fewHeadings && len(list)*bytesOfHeading > at {
			return nil
		}
		short := utf8.RuneCountInString(body) <= doc.MaxHeading/2
		if title = nil; blank && !in && short && (hasNumber(body) || !doc.IsListItem(body)) {
			title = &outlined{numbers(body), body, from, at, false}
		}
		blank = false
	}
	if 10*indented < hangingTenths*lines {
		list = slices.DeleteFunc(list, func(h outlined) bool { return !h.underlined })
	}
	return list
}

// isUnderline reports whether a line underlines the one before: a run of one mark, about as long.
func isUnderline(line, title string) bool {
	n := len(line) - utf8.RuneCountInString(title)
	return len(line) > 2 && n >= -2 && n <= 2 && strings.Contains("=-~^*#+", line[:1]) &&
		strings.Trim(line, line[:1]) == ""
}

// canHang reports whether a line above indented text is a heading: no sentence, field, columns or code.
func canHang(line string) bool {
	last, _ := utf8.DecodeLastRuneInString(line)
	first, _, _ := strings.Cut(line, " ")
	ends := unicode.IsLetter(last) || unicode.IsNumber(last) || strings.ContainsRune(`?!)"”`, last)
	return ends && !strings.HasSuffix(first, ":") && !strings.Contains(line, "   ") &&
		!strings.ContainsAny(line, "\t|{}=<>;") && strings.ContainsFunc(line, unicode.IsLetter)
}

// hasNumber reports whether a line begins with a number: "2.", "2.3" or "2.3.".
func hasNumber(line string) bool {
	first, _, found := strings.Cut(line, " ")
	return found && strings.Contains(first, ".") && strings.Trim(first, "0123456789.") == ""
}

// numbers returns how many numbers with dots between them a line begins with, at least 1: "2.3.  Terms" has two.
func numbers(line string) int {
	first, _, _ := strings.Cut(line, " ")
	n := 0
	for part := range strings.SplitSeq(strings.TrimSuffix(first, "."), ".") {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return 1
		}
		n++
	}
	return min(n, 6)
}

// structure makes sections of headings and takes their lines out of the text. A heading with nothing below it stays.
func structure(d *doc.Document, list []outlined) {
	var path []build.OpenHeading
	var edits []doc.Edit
	for i, h := range list {
		for len(path) > 0 && path[len(path)-1].Level >= h.level {
			path = path[:len(path)-1]
		}
		path = append(path, build.OpenHeading{Level: h.level, Text: h.text})
		end := len(d.Text)
		if i+1 < len(list) {
			end = list[i+1].from
		}
		empty := strings.TrimSpace(d.Text[h.to:end]) == ""
		if empty && i+1 < len(list) && list[i+1].level > h.level {
			edits = append(edits, doc.Edit{Span: doc.Span{Start: h.from, End: h.to}})
			continue
		}
		s := doc.Section{Start: h.from, End: end, Source: d.Offsets.Start(h.from)}
		for _, p := range path {
			s.Heading = append(s.Heading, p.Text)
		}
		if d.Sections = append(d.Sections, s); !empty {
			edits = append(edits, doc.Edit{Span: doc.Span{Start: h.from, End: h.to}})
		}
	}
	d.Edit(edits)
}
