package corpus

import (
	"encoding/xml"
	"errors"
	"strconv"
	"strings"
)

// parseWord reads a Word document (.docx, ECMA-376): headings by the styles' outline levels, paragraphs, lists, tables
// row by row, and the notes behind the text. Deleted text, headers and footers are not read.
func parseWord(d *Document, a *archive) error {
	b := &builder{pulse: a.p, w: textWriter{isSource: true}}
	styles, err := wordStyles(a)
	if err != nil {
		return err
	}
	r := wordReader{b: b, styles: styles}
	if err := a.elements("word/document.xml", r.token); err != nil {
		return err
	}
	r.endParagraph()
	for _, notes := range []string{"word/footnotes.xml", "word/endnotes.xml"} {
		if err := a.elements(notes, r.token); err != nil && !errors.Is(err, errNoPart) {
			return err
		}
		r.endParagraph()
	}
	b.finish(d, nil)
	a.said(d, coreProperties)
	return nil
}

// wordStyle is what the style of a paragraph makes of it.
type wordStyle struct {
	level int // of a heading, from 1; 0: it is none
	list  bool
}

// wordStyles are the styles that make headings and lists, by their ids.
func wordStyles(a *archive) (map[string]wordStyle, error) {
	styles := map[string]wordStyle{"Title": {level: 1}}
	for i := 1; i <= 9; i++ {
		styles["Heading"+strconv.Itoa(i)] = wordStyle{level: i}
	}
	id := ""
	err := a.list("word/styles.xml", func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		s := styles[id]
		switch e.Name.Local {
		case "style":
			id = attribute(e, "styleId")
			return nil
		case "name":
			if n, ok := strings.CutPrefix(strings.ToLower(attribute(e, "val")), "heading "); ok {
				s.level = headingLevel(n, 1)
			}
		case "outlineLvl":
			s.level = headingLevel(attribute(e, "val"), 0)
		case "numPr":
			s.list = true
		}
		if s != (wordStyle{}) {
			styles[id] = s
		}
		return nil
	})
	if errors.Is(err, errNoPart) {
		err = nil
	}
	return styles, err
}

// headingLevel is a level from 1 to 9 that is written as a number from a first one on, or 0.
func headingLevel(text string, first int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < first || n >= first+9 {
		return 0
	}
	return n - first + 1
}

// wordReader turns the elements of a part of text into a builder's events.
type wordReader struct {
	b      *builder
	styles map[string]wordStyle

	level   int // of the paragraph, if it is a heading; else 0
	list    bool
	text    strings.Builder // of the paragraph
	inText  bool
	skips   int // depth below an element that is not read
	cells   int // of the row so far
	inTable int
}

func (r *wordReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		if r.skips > 0 || t.Name.Local == "Fallback" || t.Name.Local == "del" || t.Name.Local == "separator" {
			r.skips++ // Fallback says again what the element beside it says
			return nil
		}
		r.start(t)
	case xml.EndElement:
		if r.skips > 0 {
			r.skips--
			return nil
		}
		r.end(t.Name.Local)
	case xml.CharData:
		if r.inText && r.skips == 0 {
			hold(&r.text, string(t))
		}
	}
	return nil
}

func (r *wordReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "t":
		r.inText = true
	case "tab", "cr":
		r.text.WriteByte(' ')
	case "br":
		r.text.WriteByte('\n')
	case "noBreakHyphen":
		r.text.WriteByte('-')
	case "pStyle":
		style := r.styles[attribute(e, "val")]
		r.level, r.list = style.level, style.list
	case "outlineLvl":
		r.level = headingLevel(attribute(e, "val"), 0)
	case "numPr":
		r.list = true
	case "tbl":
		r.endParagraph()
		if r.inTable++; r.inTable == 1 {
			r.b.beginTable(openTable{})
		}
	case "tr":
		r.cells = 0
	case "tc":
		if r.cells++; r.cells > 1 && r.b.open {
			r.b.borders++
		}
	}
}

func (r *wordReader) end(name string) {
	switch name {
	case "t":
		r.inText = false
	case "p":
		r.endParagraph()
	case "tr":
		r.b.borders = 0
		r.b.endBlock("\n")
	case "tbl":
		if r.inTable == 1 {
			r.b.endTable()
		}
		r.inTable = max(r.inTable-1, 0)
		r.b.endBlock("\n\n")
	}
}

// endParagraph gives on what the paragraph holds.
func (r *wordReader) endParagraph() {
	text := r.text.String()
	r.text.Reset()
	level, list := r.level, r.list
	r.level, r.list = 0, false
	switch {
	case strings.TrimSpace(text) == "":
	case r.inTable > 0: // a cell's paragraphs stand in its row
		r.b.gap(" ", 0)
		r.b.collapsed(text, 0)
	case level > 0:
		r.b.heading(level, text, "", 0, 0)
	default:
		sep := "\n\n"
		if list {
			r.b.marker, sep = "- ", "\n"
		}
		linesOf(r.b, text)
		r.b.endBlock(sep)
	}
}

// linesOf adds a text whose line breaks count.
func linesOf(b *builder, text string) {
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.gap("\n", 0)
		}
		b.collapsed(line, 0)
	}
}
