package office

import (
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// paragraphKind is what the style of a paragraph in an office document says it is.
type paragraphKind uint8

const (
	ordinary paragraphKind = iota
	codeText
	definedTerm // what follows defines it
	listedPlace // an entry of a table of contents, or of an index
)

var (
	codeStyle   = regexp.MustCompile(`^(?:source code|html preformatted|preformatted(?: text)?|code(?: block| sample)?|macro text)$`)
	termStyle   = regexp.MustCompile(`^(?:definition term|list heading)$`)
	listedStyle = regexp.MustCompile(`^(?:toc \d|toc heading|contents(?: heading| \d)?|table of figures|index \d|index heading)$`)
)

// styleKind returns what a style is by its name, which LibreOffice, Pandoc and Word do not translate in their files.
func styleKind(name string) paragraphKind {
	name = strings.ToLower(strings.ReplaceAll(name, "_20_", " "))
	switch {
	case codeStyle.MatchString(name):
		return codeText
	case termStyle.MatchString(name):
		return definedTerm
	case listedStyle.MatchString(name):
		return listedPlace
	}
	return ordinary
}

var monospaced = regexp.MustCompile(`(?i)courier|consolas|\bmono\b|monospace|lucida console|menlo|monaco|source code|fixed`)

// officeText writes the paragraphs of an office document that are neither headings nor in tables.
type officeText struct {
	b    *build.Builder
	last paragraphKind // of what is in the open block
}

// codeAsText makes text of code where most of a document is code by its styles and fonts: it was typed in such a font.
func codeAsText(b *build.Builder) {
	b.EndBlock("")
	code := 0
	for _, block := range b.Blocks {
		if block.Code {
			code += block.End - block.Start
		}
	}
	for i := range b.Blocks {
		b.Blocks[i].Code = b.Blocks[i].Code && 2*code <= b.W.Text.Len()
	}
}

// paragraph writes a paragraph, an item of a list behind its marker. Lines of code become one block, and so do a term
// and the paragraph behind it.
func (o *officeText) paragraph(kind paragraphKind, text, marker string) {
	follows := o.b.Open && o.last == kind && kind == codeText ||
		o.b.Open && o.last == definedTerm && kind == ordinary && marker == ""
	if o.b.Open && !follows {
		o.b.EndBlock("\n\n")
	}
	o.last = kind
	if kind == codeText {
		if follows || strings.TrimSpace(text) != "" {
			o.b.Verbatim(text+"\n", 0)
		}
		return
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	o.b.Marker = marker
	build.Lines(o.b, text)
	switch {
	case kind == definedTerm:
		o.b.Colon(0)
	case marker != "" || follows:
		o.b.EndBlock("\n")
	default:
		o.b.EndBlock("\n\n")
	}
}

// officeLine is a paragraph or the row of a table.
type officeLine struct {
	text string
	row  bool
}

// rowLine returns the line of a table's row.
func rowLine(cells []string) officeLine {
	row := strings.TrimRight(strings.Join(cells, doc.CellBorder), "| ")
	if cells[0] == "" {
		row = doc.EmptyFirst + row
	}
	return officeLine{row, true}
}

// lines writes paragraphs and tables.
func officeLines(b *build.Builder, list []officeLine) {
	inTable := false
	for _, l := range list {
		switch {
		case l.row && !inTable:
			b.BeginTable(build.OpenTable{})
		case !l.row && inTable:
			b.EndTable()
		}
		sep := "\n\n"
		if inTable = l.row; inTable {
			sep = "\n"
		}
		b.Atom(l.text, 0, 0)
		b.EndBlock(sep)
	}
	if inTable {
		b.EndTable()
	}
	b.EndBlock("\n\n")
}
