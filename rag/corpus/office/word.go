package office

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
	"github.com/sluice-rag/sluice/rag/corpus/mail"
)

// Word reads a Word document (.docx, ECMA-376): headings by the styles' outline levels, paragraphs, lists with
// their numbers, tables row by row, embedded parts of other formats, and the notes behind the text. Hidden text and
// text marked as deleted or moved away is not read, nor are headers and footers.
func Word(d *doc.Document, a *Archive) error {
	b := &build.Builder{Pulse: a.p, W: doc.Writer{IsSource: true}}
	if err := readWord(d, b, a, 0); err != nil {
		return err
	}
	codeAsText(b)
	b.Finish(d, nil)
	a.said(d, coreProperties)
	return nil
}

// maxEmbedded bounds the nesting of documents.
const maxEmbedded = 4

func readWord(d *doc.Document, b *build.Builder, a *Archive, depth int) error {
	_, parts, err := a.related("")
	if err != nil {
		return err
	}
	main := cmp.Or(parts["officeDocument"], "word/document.xml")
	r := wordReader{d: d, b: b, a: a, depth: depth, out: officeText{b: b}}
	r.parts, parts, err = a.related(main)
	if err != nil {
		return err
	}
	part := func(kind string) string { return cmp.Or(parts[kind], path.Join(path.Dir(main), kind+".xml")) }
	if r.styles, err = wordStyles(a, part("styles")); err != nil {
		return err
	}
	if r.numbers, err = a.readNumbers(part("numbering")); err != nil {
		return err
	}
	for _, name := range []string{main, part("footnotes"), part("endnotes")} {
		if err := a.elements(name, r.token); err != nil && (name == main || !errors.Is(err, errNoPart)) {
			return err
		}
		r.endParagraph()
	}
	return nil
}

// wordStyle is the effect of a paragraph's style.
type wordStyle struct {
	level    int    // of a heading, from 1; 0: not a heading
	list     string // the list that it is an item of; "": not in a list
	depth    int    // in the list, from 0
	isHidden bool
	kind     paragraphKind
	based    string // the style that it is based on
}

// wordStyles returns the styles that make headings, lists and hidden text, by their ids.
func wordStyles(a *Archive, part string) (map[string]wordStyle, error) {
	styles := map[string]wordStyle{"Title": {level: 1}}
	for i := 1; i <= 9; i++ {
		styles["Heading"+strconv.Itoa(i)] = wordStyle{level: i}
	}
	id, isParagraph := "", false
	var order []string
	err := a.starts(part, func(e xml.StartElement) {
		s, val := styles[id], attribute(e, "val")
		switch e.Name.Local {
		case "style":
			id = attribute(e, "styleId")
			isParagraph = attribute(e, "type") == "paragraph" && !isOn(cmp.Or(attribute(e, "default"), "0"))
			order = append(order, id)
			return
		case "name":
			if n, ok := strings.CutPrefix(strings.ToLower(val), "heading "); ok {
				s.level = headingLevel(n, 1)
			}
			s.kind = styleKind(val)
		case "rFonts":
			if monospaced.MatchString(attribute(e, "ascii")) && isParagraph {
				s.kind = cmp.Or(s.kind, codeText)
			}
		case "basedOn":
			s.based = val
		case "outlineLvl":
			s.level = headingLevel(val, 0)
		case "numId":
			s.list = val
		case "ilvl":
			s.depth, _ = strconv.Atoi(val)
		case "vanish":
			s.isHidden = isOn(val)
		}
		if s != (wordStyle{}) {
			styles[id] = s
		}
	})
	for _, id := range order {
		s := styles[id]
		for base, n := s.based, 0; base != "" && n < wordLevels; n++ {
			from := styles[base]
			s.level, s.kind = cmp.Or(s.level, from.level), cmp.Or(s.kind, from.kind)
			if s.list == "" {
				s.list, s.depth = from.list, cmp.Or(s.depth, from.depth)
			}
			s.isHidden = s.isHidden || from.isHidden
			base = from.based
		}
		styles[id] = s
	}
	return styles, optional(err)
}

// headingLevel returns the level from 1 to 9 of a number that counts levels from first, or 0.
func headingLevel(text string, first int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < first || n >= first+9 {
		return 0
	}
	return n - first + 1
}

// wordReader turns the XML of a text part into a builder's events.
type wordReader struct {
	d       *doc.Document
	b       *build.Builder
	a       *Archive
	depth   int               // nesting of documents
	parts   map[string]string // that the text refers to
	styles  map[string]wordStyle
	numbers *wordNumbers

	style        wordStyle // of the paragraph
	text         strings.Builder
	prose        bool // a part of it is not in a font of equal widths
	out          officeText
	runs         []wordRun // open runs: a text box is within one
	inText       bool
	inProperties bool // of the paragraph: those of a run there are its mark's
	unread       unreadDepth
	inTable      int
	drawn        []officeLine // in the open paragraph
	columns      int          // that the cell covers
	merge        string       // "restart" begins a cell that continues in rows below, "continue" continues one
	inCell       bool         // it has begun
}

// wordRun is the formatting of a run of text.
type wordRun struct {
	isHidden bool
	font     string
	isCode   bool // the font is one of equal widths
}

func (r *wordReader) token(t xml.Token) error {
	begins := false
	if e, ok := t.(xml.StartElement); ok {
		switch e.Name.Local {
		case "Fallback", // repeats the element beside it
			"del", "moveFrom", "separator", "pPrChange", "rPrChange", "numberingChange", "tblPrChange",
			"rt": // the reading of a ruby
			begins = true
		}
	}
	if r.unread.holds(t, begins) {
		return nil
	}
	switch t := t.(type) {
	case xml.StartElement:
		return r.start(t)
	case xml.EndElement:
		r.end(t.Name.Local)
	case xml.CharData:
		if r.inText {
			r.add(string(t))
		}
	}
	return nil
}

// add adds the text of a run to the paragraph.
func (r *wordReader) add(text string) {
	if n := len(r.runs); n > 0 {
		run := r.runs[n-1]
		if run.isHidden {
			return
		}
		if strings.ContainsFunc(text, isSymbol) {
			var b strings.Builder
			for _, c := range text {
				if isSymbol(c) {
					b.WriteString(symbolOf(run.font, c))
				} else {
					b.WriteRune(c)
				}
			}
			text = b.String()
		}
	}
	isCode := len(r.runs) > 0 && r.runs[len(r.runs)-1].isCode
	r.prose = r.prose || !isCode && strings.TrimSpace(text) != ""
	hold(&r.text, text)
}

// isSymbol reports whether a character has a meaning only in one font.
func isSymbol(c rune) bool { return c >= 0xf000 && c <= 0xf0ff }

func (r *wordReader) start(e xml.StartElement) error {
	val := attribute(e, "val")
	switch e.Name.Local {
	case "t":
		r.inText = true
	case "tab", "ptab":
		if !r.inProperties { // where it names a stop
			r.add(" ")
		}
	case "cr":
		r.add(" ")
	case "br":
		r.add("\n")
	case "noBreakHyphen":
		r.add("-")
	case "sym":
		if code, err := strconv.ParseUint(attribute(e, "char"), 16, 16); err == nil {
			r.add(symbolOf(attribute(e, "font"), rune(code)))
		}
	case "r":
		r.runs = append(r.runs, wordRun{isHidden: r.style.isHidden})
	case "pPr":
		r.inProperties = true
	case "vanish", "rStyle", "rFonts":
		if n := len(r.runs); n > 0 && !r.inProperties {
			run := &r.runs[n-1]
			switch e.Name.Local {
			case "vanish":
				run.isHidden = isOn(val)
			case "rStyle":
				run.isHidden = run.isHidden || r.styles[val].isHidden
			default:
				run.font = cmp.Or(attribute(e, "ascii"), attribute(e, "hAnsi"))
				run.isCode = monospaced.MatchString(run.font)
			}
		}
	case "pStyle":
		r.style = r.styles[val]
	case "numId":
		r.style.list = val
	case "ilvl":
		r.style.depth, _ = strconv.Atoi(val)
	case "chart", "relIds":
		list, err := drawn(r.b, r.d, r.a, e, r.parts)
		r.drawn = append(r.drawn, list...)
		return err
	case "altChunk":
		r.endParagraph()
		r.beginCell()
		return r.part(attribute(e, "id"))
	case "outlineLvl":
		r.style.level = headingLevel(val, 0)
	case "tbl":
		r.endParagraph()
		r.beginCell()
		if r.inTable++; r.inTable == 1 {
			r.b.BeginTable(build.OpenTable{})
		}
	case "tc":
		r.columns, r.merge, r.inCell = 1, "", false
	case "gridSpan":
		r.columns, _ = strconv.Atoi(val)
	case "vMerge":
		r.merge = cmp.Or(val, "continue")
	case "p":
		r.beginCell()
	}
	return nil
}

// beginCell begins the cell, whose properties have been read. A table in a cell is read as words of the cell.
func (r *wordReader) beginCell() {
	switch {
	case r.inTable == 0 || r.inCell:
		return
	case r.inTable > 1:
		if r.b.Open {
			r.b.Borders++
		}
	case r.merge == "continue":
		r.b.CellAgain(r.columns, 0)
	case r.merge == "restart":
		r.b.Cell(r.columns, build.OpenRows, 0)
	default:
		r.b.Cell(r.columns, 1, 0)
	}
	r.inCell = true
}

// part reads an embedded part of another format; a part that cannot be read is noted.
func (r *wordReader) part(id string) error {
	name := r.parts[id]
	err := r.embedded(name)
	if errors.Is(err, doc.ErrTooLarge) {
		return err
	}
	if err != nil {
		r.d.Lacks(err)
	}
	r.b.EndBlock("\n\n")
	return nil
}

func (r *wordReader) embedded(name string) error {
	raw, err := r.a.text(name)
	if err != nil {
		return err
	}
	switch ending := strings.ToLower(path.Ext(name)); {
	case ending == ".docx" && r.depth < maxEmbedded:
		a, err := Open(raw, r.a.left, r.a.p)
		if err != nil {
			return err
		}
		if err := readWord(r.d, r.b, a, r.depth+1); err != nil {
			return err
		}
		return r.a.take(a.Unpacked())
	case ending == ".htm" || ending == ".html" || ending == ".xhtml":
		in, err := charset.DecodeHTML(r.d, raw, "", r.a.p)
		if err == nil {
			html.Read(r.b, in.Text, 0, ending == ".xhtml" && html.IsXML(in.Text, r.a.p))
		}
		return err
	case ending == ".txt":
		in, err := charset.Decode(r.d, raw, "", r.a.p)
		if err == nil {
			build.Lines(r.b, in.Text)
		}
		return err
	case ending == ".mht" || ending == ".mhtml":
		return mail.Read(&doc.Document{}, r.b, raw)
	}
	return fmt.Errorf("%w: %s: only Word, HTML, text and MHTML are read within a Word document", doc.ErrFormat, name)
}

func (r *wordReader) end(name string) {
	switch name {
	case "t":
		r.inText = false
	case "r":
		r.runs = r.runs[:max(len(r.runs)-1, 0)]
	case "pPr":
		r.inProperties = false
	case "p":
		r.endParagraph()
	case "tc":
		r.beginCell()
	case "tr":
		if r.inTable == 1 {
			r.b.EndCells(0)
		}
		r.b.Borders = 0
		r.b.EndBlock("\n")
	case "tbl":
		if r.inTable == 1 {
			r.b.EndTable()
		}
		r.inTable = max(r.inTable-1, 0)
		r.b.EndBlock("\n\n")
	}
}

// endParagraph writes the text of the paragraph, and what is drawn in it.
func (r *wordReader) endParagraph() {
	r.writeParagraph()
	drawn := r.drawn
	if r.drawn = nil; len(drawn) > 0 && r.inTable == 0 {
		officeLines(r.b, drawn)
		return
	}
	for _, l := range drawn { // they stand in the cell's row
		r.b.Gap(" ", 0)
		r.b.Collapsed(l.text, 0)
	}
}

func (r *wordReader) writeParagraph() {
	text, style, isProse := r.text.String(), r.style, r.prose
	r.text.Reset()
	r.style, r.prose = wordStyle{}, false
	isBlank := strings.TrimSpace(text) == ""
	switch {
	case !isProse && !isBlank && style.kind == ordinary && style.list == "":
		style.kind = codeText
	case style.kind == listedPlace || isBlank && style.kind != codeText:
		return
	}
	number, counted := "", false
	if style.list != "" && style.list != "0" {
		number = r.numbers.next(style.list, style.depth)
		counted = number != "-"
	}
	switch {
	case isBlank && (r.inTable > 0 || style.level > 0):
	case r.inTable > 0: // a cell's paragraphs stand in its row
		r.b.Gap(" ", 0)
		if counted {
			text = number + " " + text
		}
		r.b.Collapsed(text, 0)
	case style.level > 0:
		if counted {
			text = number + " " + text
		}
		r.b.Heading(style.level, text, "", 0, 0)
	default:
		if number != "" {
			number += " "
		}
		r.out.paragraph(style.kind, text, number)
	}
}
