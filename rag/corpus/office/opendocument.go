package office

import (
	"encoding/xml"
	"errors"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
	"github.com/sluice-rag/sluice/rag/corpus/table"
)

// OpenDocument reads a text, presentation or spreadsheet of OpenDocument (.odt, .odp, .ods; ISO/IEC 26300):
// headings, paragraphs, lists, tables row by row, a section for each slide ("slide=N") or sheet ("sheet=NAME").
func OpenDocument(d *doc.Document, a *Archive) error {
	b := &build.Builder{Pulse: a.p, W: doc.Writer{IsSource: true}}
	encrypted := false
	_ = a.starts("META-INF/manifest.xml", func(e xml.StartElement) {
		encrypted = encrypted || e.Name.Local == "encryption-data"
	})
	if encrypted {
		return doc.ErrEncrypted
	}
	if err := readOpenDocument(d, b, a, ""); err != nil {
		return err
	}
	codeAsText(b)
	b.Finish(d, nil)
	a.said(d, openProperties)
	return nil
}

// readOpenDocument reads the document, or one that is embedded in it: a chart with the table of its numbers, a sheet.
func readOpenDocument(d *doc.Document, b *build.Builder, a *Archive, embedded string) error {
	r := openReader{d: d, a: a, b: b, embedded: embedded, text: &strings.Builder{}, file: doc.NameOf(d.ID),
		out: officeText{b: b}, based: map[string]string{}, kinds: map[string]paragraphKind{}}
	if err := a.elements(path.Join(embedded, "content.xml"), r.token); err != nil {
		return err
	}
	r.endParagraph()
	return nil
}

type openReader struct {
	d        *doc.Document
	a        *Archive
	embedded string   // folder of the embedded document that is read; "": of the document itself
	objects  []string // folders of embedded documents in the open paragraph

	b       *build.Builder
	text    *strings.Builder   // of the innermost open paragraph
	depth   int                // of open paragraphs and headings
	outer   []*strings.Builder // texts of the enclosing paragraphs, outside of a note or a text box
	after   []string           // texts within the paragraph that are written behind it
	level   int
	inList  int
	inTable int
	cells   int // of the row so far
	slides  int
	begins  bool // a slide has begun and has no heading yet
	inTitle bool // in the slide's title
	sheets  bool // the tables are sheets of a spreadsheet
	file    string
	sheet   table.Writer
	row     []string // of a sheet
	inCell  []string // paragraphs of its last cell
	last    sheetCell
	above   map[int]build.Covered // by column, the cells that cover rows below
	repeats int                   // how often the row is repeated
	unread  unreadDepth
	based   map[string]string // the style on which one of the document is based
	kinds   map[string]paragraphKind
	kind    paragraphKind // of the paragraph
	out     officeText
}

// sheetCell says how a cell of a sheet is repeated: in columns beside it, and in rows that it covers.
type sheetCell struct {
	columns, rows int
	covered       bool
}

// maxSheetRepeats bounds how often a row with text is repeated.
const maxSheetRepeats = 1000

// maxSpaces bounds the spaces that one element stands for.
const maxSpaces = 100

func (r *openReader) token(t xml.Token) error {
	if r.unread.holds(t, false) {
		return nil
	}
	switch t := t.(type) {
	case xml.StartElement:
		r.start(t)
	case xml.EndElement:
		name := t.Name.Space + ":" + t.Name.Local
		if r.end(name); name == "draw:page" || r.depth == 0 && !r.begins { // not before a slide's title
			return r.readObjects()
		}
	case xml.CharData:
		if r.depth > 0 {
			hold(r.text, string(t))
		}
	}
	return nil
}

func (r *openReader) start(e xml.StartElement) {
	switch e.Name.Space + ":" + e.Name.Local {
	case "office:annotation", "text:tracked-changes", "presentation:notes", "text:table-of-content", "svg:title",
		"text:alphabetical-index", "text:illustration-index", "text:table-index", "text:object-index":
		r.unread = 1
	case "style:style":
		r.based[prefixed(e, "style", "name")] = prefixed(e, "style", "parent-style-name")
	case "office:spreadsheet":
		r.sheets = r.embedded == ""
	case "draw:object":
		object := path.Clean(prefixed(e, "xlink", "href"))
		if r.embedded == "" && !r.sheets && r.inTable == 0 && object != "." && filepath.IsLocal(object) {
			r.objects = append(r.objects, object)
		}
	case "text:note-citation", "chart:label-separator":
		r.unread = 1
	case "text:list":
		if r.embedded != "" && r.inTable > 0 { // the levels of a chart's label, which the cell also has as one text
			r.unread = 1
		}
	case "text:p", "text:h":
		if r.depth++; r.depth > 1 {
			r.outer = append(r.outer, r.text)
			r.text = &strings.Builder{}
			return
		}
		r.kind = r.kindOf(prefixed(e, "text", "style-name"))
		if e.Name.Local == "h" {
			r.level, r.kind = 1, ordinary
			if n, err := strconv.Atoi(prefixed(e, "text", "outline-level")); err == nil && n >= 1 && n <= 10 {
				r.level = n
			}
		}
	case "text:s":
		n, err := strconv.Atoi(prefixed(e, "text", "c"))
		if err != nil {
			n = 1
		}
		hold(r.text, strings.Repeat(" ", min(max(n, 1), maxSpaces)))
	case "text:tab":
		r.text.WriteByte(' ')
	case "text:line-break":
		r.text.WriteByte('\n')
	case "text:list-item":
		r.inList++
	case "draw:page":
		r.slides++
		r.begins = true
	case "draw:frame":
		r.inTitle = prefixed(e, "presentation", "class") == "title"
	case "table:table":
		r.slide("Slide " + strconv.Itoa(r.slides))
		if r.inTable++; r.inTable == 1 {
			r.b.EndBlock("\n\n")
			if !r.sheets {
				r.b.BeginTable(build.OpenTable{})
			}
		}
		if r.sheets {
			r.sheet = table.Writer{Builder: r.b, Title: r.file, Sheet: prefixed(e, "table", "name")}
			r.above = map[int]build.Covered{}
		}
	case "table:table-row":
		r.cells, r.row, r.inCell, r.last = 0, nil, nil, sheetCell{}
		r.repeats = repeated(e, "number-rows-repeated")
	case "table:table-cell", "table:covered-table-cell":
		r.cell(e)
	}
}

// readObjects reads the embedded documents of a paragraph that has ended. One that cannot be read is noted.
func (r *openReader) readObjects() error {
	for len(r.objects) > 0 {
		object := r.objects[0]
		r.objects = r.objects[1:]
		r.slide("Slide " + strconv.Itoa(r.slides))
		err := readOpenDocument(r.d, r.b, r.a, object)
		if errors.Is(err, doc.ErrTooLarge) {
			return err
		}
		if err != nil && !errors.Is(err, errNoPart) { // a drawing may be of another program, with a picture of it
			r.d.Lacks(err)
		}
	}
	return nil
}

// slide begins a slide's section, unless it has begun.
func (r *openReader) slide(title string) {
	if r.begins {
		r.b.Heading(1, title, "slide="+strconv.Itoa(r.slides), 0, 0)
		r.begins = false
	}
}

// repeated returns a repetition count from an attribute of a table element, at least 1.
func repeated(e xml.StartElement, name string) int {
	n, err := strconv.Atoi(prefixed(e, "table", name))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// cell begins a cell, which may stand for several.
func (r *openReader) cell(e xml.StartElement) {
	c := sheetCell{repeated(e, "number-columns-repeated"), min(repeated(e, "number-rows-spanned"), html.MaxRows),
		e.Name.Local == "covered-table-cell"}
	switch {
	case r.sheets:
		if r.cells < maxColumns {
			r.endCell()
		}
		c.columns = min(c.columns, maxColumns-r.cells)
		r.cells, r.last = r.cells+c.columns, c
	case r.inTable > 1:
		if r.b.Open {
			r.b.Borders++
		}
	default:
		for range min(c.columns, build.MostColumns) {
			if c.covered {
				r.b.CellAgain(1, 0)
			} else {
				r.b.Cell(1, c.rows, 0)
			}
		}
	}
}

// endCell puts the text of the last cell into the row, in each of its columns.
func (r *openReader) endCell() {
	text := strings.TrimSpace(strings.Join(r.inCell, " "))
	r.inCell = nil
	for i := r.cells - r.last.columns; i < r.cells; i++ {
		if above, ok := r.above[i]; ok {
			if above.Rows--; above.Rows == 0 {
				delete(r.above, i)
			} else {
				r.above[i] = above
			}
			if r.last.covered && r.b.Again(len(above.Text)) {
				r.put(i, above.Text)
				continue
			}
		}
		r.b.Pulse.Beat()
		if text == "" && len(r.above) == 0 {
			break
		}
		if text == "" || i > r.cells-r.last.columns && !r.b.Again(len(text)+len(doc.CellBorder)) {
			continue
		}
		if r.put(i, text); r.last.rows > 1 {
			r.above[i] = build.Covered{Rows: r.last.rows - 1, Text: text}
		}
	}
	r.last.columns = 0
}

// put sets a cell of the row.
func (r *openReader) put(column int, text string) {
	if n := column + 1 - len(r.row); n > 0 {
		r.b.W.Take(n) // each row with a cell far to the right has that many cells
		r.row = append(r.row, make([]string, n)...)
	}
	r.row[column] = text
}

func (r *openReader) end(name string) {
	switch name {
	case "text:p", "text:h":
		if r.depth = max(r.depth-1, 0); r.depth > 0 {
			r.inner()
			return
		}
		r.endParagraph()
		after := r.after
		r.after = nil
		for _, text := range after {
			r.text.WriteString(text)
			r.endParagraph()
		}
	case "text:list-item":
		r.inList = max(r.inList-1, 0)
	case "table:table-row":
		switch {
		case r.sheets:
			r.endCell()
			r.endSheetRow()
		case r.inTable == 1:
			r.b.EndCells(0)
		}
		r.b.Borders = 0
		r.b.EndBlock("\n")
	case "table:table":
		if r.inTable = max(r.inTable-1, 0); r.sheets {
			r.sheet.End()
		} else if r.inTable == 0 {
			r.b.EndTable()
		}
		r.b.EndBlock("\n\n")
	}
}

// endSheetRow writes the row of a sheet, as often as it is repeated.
func (r *openReader) endSheetRow() {
	size := len(strings.Join(r.row, doc.CellBorder))
	for i := range min(r.repeats, maxSheetRepeats) {
		if len(r.row) == 0 || i > 0 && !r.b.Again(size) {
			return
		}
		r.sheet.Row(r.row, 0, 0)
		r.file = ""
	}
}

// inner ends a paragraph within another one; its text is written behind that one.
func (r *openReader) inner() {
	if n := len(r.outer) - 1; n >= 0 {
		if text := r.text.String(); strings.TrimSpace(text) != "" {
			r.after = append(r.after, text)
		}
		r.text, r.outer = r.outer[n], r.outer[:n]
	}
}

func (r *openReader) endParagraph() {
	text, level, kind := r.text.String(), r.level, r.kind
	r.text.Reset()
	r.level, r.kind = 0, ordinary
	switch {
	case kind == listedPlace || strings.TrimSpace(text) == "" && (kind != codeText || r.inTable > 0):
		return
	case r.begins && r.inTitle:
		r.slide(text)
		return
	}
	r.slide("Slide " + strconv.Itoa(r.slides))
	switch {
	case r.inTable > 0 && r.sheets:
		r.inCell = append(r.inCell, text)
	case r.inTable > 0:
		r.b.Gap(" ", 0)
		r.b.Collapsed(text, 0)
	case level > 0:
		r.b.Heading(level, text, "", 0, 0)
	default:
		marker := ""
		if r.inList > 0 {
			marker = "- "
		}
		r.out.paragraph(kind, text, marker)
	}
}

// kindOf returns what a style is, by its name or the names of those that it is based on.
func (r *openReader) kindOf(style string) (kind paragraphKind) {
	kind, known := r.kinds[style]
	for at, n := style, 0; !known && kind == ordinary && at != "" && n < wordLevels; n++ {
		kind, at = styleKind(at), r.based[at]
	}
	r.kinds[style] = kind
	return kind
}
