package office

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Slides reads a PowerPoint presentation (.pptx, ECMA-376): a section for each slide under its title, its tables
// row by row, and its notes behind it. The anchor of a section is "slide=N".
func Slides(d *doc.Document, a *Archive) error {
	b := &build.Builder{Pulse: a.p, W: doc.Writer{IsSource: true}}
	names, err := slideNames(a)
	if err != nil {
		return err
	}
	for i, name := range names {
		byID, parts, err := a.related(name)
		if err != nil {
			return err
		}
		r := slideReader{d: d, a: a, b: b, number: i + 1, parts: byID}
		if err := a.elements(name, r.token); err != nil {
			return err
		}
		r.finish()
		if notes := parts["notesSlide"]; notes != "" {
			r := slideReader{b: b, notes: true}
			if err := a.elements(notes, r.token); err != nil {
				return err
			}
			r.finish()
		}
	}
	b.Finish(d, nil)
	a.said(d, coreProperties)
	return nil
}

// slideNames returns the parts of the slides in their order.
func slideNames(a *Archive) (names []string, err error) {
	const presentation = "ppt/presentation.xml"
	parts, _, err := a.related(presentation)
	if err != nil {
		return nil, err
	}
	err = a.starts(presentation, func(e xml.StartElement) {
		if name := parts[prefixed(e, "r", "id")]; e.Name.Local == "sldId" && name != "" {
			names = append(names, name)
		}
	})
	return names, err
}

// slideReader collects the paragraphs of a slide, whose title may stand behind other text, and writes them at its end.
type slideReader struct {
	d      *doc.Document
	a      *Archive
	b      *build.Builder
	number int
	parts  map[string]string // that the slide refers to
	notes  bool              // only the body is read: the rest repeats the slide

	title  []string
	lines  []officeLine
	text   strings.Builder
	inText bool
	kind   string // the type of the shape's placeholder; empty: the shape is no placeholder
	unread unreadDepth
	row    []string // cells of the table's row; nil outside of a table
	cell   []string
	above  []string // the previous row
	merged bool     // the cell continues the one above it
}

func (r *slideReader) token(t xml.Token) error {
	e, ok := t.(xml.StartElement)
	if r.unread.holds(t, ok && e.Name.Local == "Fallback") {
		return nil
	}
	switch t := t.(type) {
	case xml.StartElement:
		switch t.Name.Local {
		case "t":
			r.inText = true
		case "br", "tab":
			r.text.WriteByte(' ')
		case "sp":
			r.kind = ""
		case "ph":
			if r.kind = attribute(t, "type"); r.kind == "" {
				r.kind = "body"
			}
		case "tr":
			r.row = []string{}
		case "tbl":
			r.above = nil
		case "chart", "relIds":
			list, err := drawn(r.b, r.d, r.a, t, r.parts)
			if err != nil {
				return err
			}
			r.lines = append(r.lines, list...)
		case "tc":
			r.cell, r.merged = nil, attribute(t, "vMerge") == "1" || attribute(t, "vMerge") == "true"
		}
	case xml.EndElement:
		r.end(t.Name.Local)
	case xml.CharData:
		if r.inText {
			hold(&r.text, string(t))
		}
	}
	return nil
}

func (r *slideReader) end(name string) {
	switch name {
	case "t":
		r.inText = false
	case "p":
		r.endParagraph()
	case "tc":
		if n := len(r.row); r.row != nil {
			text := strings.Join(r.cell, " ")
			if r.merged && text == "" && n < len(r.above) && r.b.Again(len(r.above[n])) {
				text = r.above[n]
			}
			r.row = append(r.row, text)
		}
	case "tr":
		if strings.Join(r.row, "") != "" {
			r.add(rowLine(r.row))
		}
		r.above, r.row = r.row, nil
	case "sp":
		r.kind = ""
	}
}

func (r *slideReader) endParagraph() {
	text := strings.Join(strings.Fields(r.text.String()), " ")
	r.text.Reset()
	switch {
	case text == "":
	case r.row != nil:
		r.cell = append(r.cell, text)
	case r.kind == "title" || r.kind == "ctrTitle":
		r.title = append(r.title, text)
	case r.kind == "sldNum" || r.kind == "dt" || r.kind == "ftr" || r.kind == "hdr" || r.notes && r.kind != "body":
	default:
		r.add(officeLine{text, false})
	}
}

func (r *slideReader) add(l officeLine) {
	r.b.W.Take(build.BlockBytes + len(l.text))
	r.lines = append(r.lines, l)
}

func (r *slideReader) finish() {
	if !r.notes {
		title := strings.Join(r.title, " ")
		title = cmp.Or(title, fmt.Sprintf("Slide %d", r.number))
		if len(r.title)+len(r.lines) == 0 {
			return // an image
		}
		r.b.Heading(1, title, fmt.Sprintf("slide=%d", r.number), 0, 0)
	}
	officeLines(r.b, r.lines)
}
