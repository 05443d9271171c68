package markdown

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/drawn"
)

// What programs other than GitHub add to Markdown: definition lists, footnotes, attributes and tables of Pandoc, fences
// and boxes of MkDocs, Docusaurus and MyST, links of wikis, tags of Hugo and Jekyll.

// dialectBlocks returns the parsers of blocks, for the document whose steps are counted.
func dialectBlocks(s *steps) []util.PrioritizedValue {
	notes := &footnotes{BlockParser: extension.NewFootnoteBlockParser(), steps: s}
	return []util.PrioritizedValue{
		util.Prioritized(&drawnTables{steps: s}, 90),
		util.Prioritized(extension.NewDefinitionListParser(), 101),
		util.Prioritized(extension.NewDefinitionDescriptionParser(), 102),
		util.Prioritized(fences{}, 103),
		util.Prioritized(boxes{}, 104),
		util.Prioritized(notes, 690),
	}
}

// footnotes is goldmark's parser of footnotes, which stay where they are written.
type footnotes struct {
	parser.BlockParser
	*steps
}

// Open begins a note, and keeps its label. There is no note within a note.
func (f *footnotes) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	for n := parent; n != nil; n = n.Parent() {
		if n.Kind() == east.KindFootnote {
			return nil, parser.NoChildren
		}
	}
	n, state := f.BlockParser.Open(parent, reader, pc)
	if note, ok := n.(*east.Footnote); ok {
		f.notes[string(note.Ref)] = true
	}
	return n, state
}

// Close ends a note.
func (*footnotes) Close(ast.Node, text.Reader, parser.Context) {}

// dialect is what the parsers of blocks below have in common: their blocks may stand directly below a paragraph.
type dialect struct{}

func (dialect) Close(ast.Node, text.Reader, parser.Context) {}

func (dialect) CanInterruptParagraph() bool { return true }

func (dialect) CanAcceptIndentedLine() bool { return false }

// longestMark bounds the bytes in which the end of a mark is looked for.
const longestMark = 500

// fences reads lines of colons (":::note Title") or slashes ("/// note | Title"), which begin and end boxes, and those
// that name a place ("(place)="). What is in a box is read as if there were no lines.
type fences struct{ dialect }

var fenceLine = regexp.MustCompile(`^(?::{3,}[ \t]*(?:(\{[^}\n]*\}|[\w-]+)[ \t]*([^\n{]*))?(?:\{[^}\n]*\})?:*|` +
	`/{3,}[ \t]*(?:([\w-]+)[ \t]*(?:\|[ \t]*([^\n]*))?)?|\([\w:. -]+\)=)[ \t]*\r?\n?$`)

// optionLine finds an option of a directive.
var optionLine = regexp.MustCompile(`^\s*:[A-Za-z][\w-]*:(?:[ \t][^\n]*)?\r?\n?$`)

func (fences) Trigger() []byte { return []byte{':', '/', '('} }

// Open reads such a line.
func (fences) Open(_ ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, at := reader.PeekLine()
	pos := max(pc.BlockOffset(), 0)
	if len(line) > longestMark {
		return nil, parser.NoChildren
	}
	m := fenceLine.FindSubmatchIndex(line[pos:])
	if m == nil {
		return nil, parser.NoChildren
	}
	from, to := max(m[4], m[8]), max(m[5], m[9])
	titled := from >= 0 && (m[2] < 0 || !doc.OneOf(strings.Trim(string(line[pos+m[2]:pos+m[3]]), "{}"), namesFile))
	n := titleOf(at, pos+from, pos+to, titled, reader.Source())
	reader.AdvanceToEOL()
	return n, parser.NoChildren
}

// namesFile are directives that are given a file or a list, not a title.
const namesFile = " figure image include literalinclude toctree csv-table grid card embed iframe "

// titleOf returns a block of the title in [from, to) of a line, without brackets or quotation marks around it, or an
// empty block.
func titleOf(line text.Segment, from, to int, titled bool, source []byte) ast.Node {
	n := ast.NewTextBlock()
	if titled {
		title := text.NewSegment(line.Start-line.Padding+from, line.Start-line.Padding+to)
		title = title.TrimLeftSpace(source)
		title = title.TrimRightSpace(source)
		if value := title.Value(source); len(value) > 1 && bytes.IndexByte([]byte(`"[`), value[0]) >= 0 {
			title.Start++
			title.Stop -= len(value) - 1 - len(bytes.TrimRight(value[1:], `"]`))
		}
		if title.Start < title.Stop {
			n.Lines().Append(title)
		}
	}
	return n
}

// Continue goes over the options of a directive.
func (fences) Continue(_ ast.Node, reader text.Reader, _ parser.Context) parser.State {
	if line, _ := reader.PeekLine(); len(line) < longestMark && optionLine.Match(line) {
		return parser.Continue | parser.NoChildren
	}
	return parser.Close
}

// boxes reads boxes whose text is indented below a line such as `!!! note "Title"`, `??? tip` and `=== "Tab"`, and
// directives of MyST in backticks that hold prose.
type boxes struct{ dialect }

var (
	boxLine = regexp.MustCompile(`^(?:!!!|\?\?\?\+?)[ \t]+[\w-]+(?:[ \t]+[\w-]+)*[ \t]*("[^"\n]*")?[ \t]*\r?\n?$|` +
		`^===[!+]?[ \t]+("[^"\n]*")[ \t]*\r?\n?$`)
	directiveLine = regexp.MustCompile("^(`{3,})\\{(?:note|warning|tip|important|admonition|hint|caution|attention|" +
		"danger|error|seealso|todo|versionadded|versionchanged|deprecated|dropdown|sidebar|topic|epigraph|" +
		"exercise|solution|prf:\\w+)\\}[ \t]*([^`\n]*)\n?$")
)

// openBox is an open box.
type openBox struct {
	ast.Blockquote
	ticks int // at the beginning of the line that ends it; 0: it ends with its indent
}

func (boxes) Trigger() []byte { return []byte{'!', '?', '=', '`'} }

// Open begins a box.
func (boxes) Open(_ ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, at := reader.PeekLine()
	pos := max(pc.BlockOffset(), 0)
	if len(line) > longestMark {
		return nil, parser.NoChildren
	}
	n := &openBox{}
	from, to := -1, -1
	if m := directiveLine.FindSubmatchIndex(line[pos:]); m != nil {
		n.ticks, from, to = m[3], m[4], m[5]
	} else if m = boxLine.FindSubmatchIndex(line[pos:]); m != nil {
		from, to = max(m[2], m[4]), max(m[3], m[5])
	} else {
		return nil, parser.NoChildren
	}
	n.AppendChild(n, titleOf(at, pos+from, pos+to, from >= 0, reader.Source()))
	reader.AdvanceToEOL()
	return n, parser.HasChildren
}

// Continue ends a box with its fence or its indent.
func (boxes) Continue(node ast.Node, reader text.Reader, _ parser.Context) parser.State {
	line, _ := reader.PeekLine()
	n, _ := node.(*openBox)
	if n.ticks > 0 {
		if n.ChildCount() == 1 && len(line) < longestMark && optionLine.Match(line) {
			reader.AdvanceToEOL()
		}
		if body := bytes.TrimSpace(line); len(body) >= n.ticks && len(bytes.Trim(body, "`")) == 0 {
			reader.AdvanceToEOL()
			return parser.Close
		}
		return parser.Continue | parser.HasChildren
	}
	if util.IsBlank(line) {
		return parser.Continue | parser.HasChildren
	}
	pos, padding := util.IndentPosition(line, reader.LineOffset(), 4)
	if pos < 0 {
		return parser.Close
	}
	reader.AdvanceAndSetPadding(pos, padding)
	return parser.Continue | parser.HasChildren
}

// drawnTables reads Pandoc's tables that are drawn with characters, where they stand in no other block.
type drawnTables struct {
	dialect
	*steps
	end  int            // byte behind the last table
	head *ast.Paragraph // the header of the open table, which is above its first line
}

func (*drawnTables) Trigger() []byte { return []byte{'+', '-'} }

// mostHeadLines bounds the lines above the line that rules the columns of a table.
const mostHeadLines = 8

// Open reads a whole table.
func (d *drawnTables) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, at := reader.PeekLine()
	if parent.Kind() != ast.KindDocument || len(line) > drawn.LongestLine || d.exhausted() {
		return nil, parser.NoChildren
	}
	source := drawn.Drawing{Src: d.source}
	start := strings.LastIndexByte(d.source[:at.Start], '\n') + 1
	above, _ := pc.LastOpenedBlock().Node.(*ast.Paragraph)
	var t drawn.Table
	ok, state := false, parser.State(parser.NoChildren)
	d.head = nil
	switch first := source.Line(start); {
	case line[0] == '+' && above == nil:
		t, ok = source.Grid(start)
	case drawn.IsRule(first.Text, '-') && above == nil:
		var head []drawn.Line
		l := source.Line(first.Next)
		for ; len(head) < mostHeadLines && strings.Trim(l.Text, "- ") != ""; l = source.Line(l.Next) {
			head = append(head, l)
		}
		if len(head) > 0 {
			t, ok = source.Ruled(l.At, '-', head, true)
		}
	case above != nil && above.Lines().Len() == 1 && above.Parent() == parent:
		head := source.Line(strings.LastIndexByte(d.source[:above.Lines().At(0).Start], '\n') + 1)
		if t, ok = source.Ruled(start, '-', []drawn.Line{head}, false); ok {
			d.head, state = above, parser.NoChildren|parser.RequireParagraph
		}
	case above == nil:
		if t, ok = source.Ruled(start, '-', nil, false); !ok {
			t, ok = source.Ruled(start, '-', nil, true)
		}
	}
	d.scan(max(t.End-start, 0))
	if !ok {
		return nil, parser.NoChildren
	}
	d.end = t.End
	return tableNode(t), state
}

// tableNode returns goldmark's nodes of a table.
func tableNode(t drawn.Table) ast.Node {
	table := east.NewTable()
	for i, r := range t.Rows {
		row := east.NewTableRow(nil)
		for _, parts := range r {
			cell := east.NewTableCell()
			for _, s := range parts {
				line := ast.NewTextBlock()
				line.Lines().Append(text.NewSegment(s.Start, s.End))
				cell.AppendChild(cell, line)
			}
			row.AppendChild(row, cell)
		}
		if i < t.Header {
			table.AppendChild(table, east.NewTableHeader(row))
		} else {
			table.AppendChild(table, row)
		}
	}
	return table
}

// Continue goes to the end of the table.
func (d *drawnTables) Continue(_ ast.Node, reader text.Reader, _ parser.Context) parser.State {
	if _, at := reader.PeekLine(); at.Start >= d.end {
		return parser.Close
	}
	return parser.Continue | parser.NoChildren
}

// Close takes away the paragraph that is the header.
func (d *drawnTables) Close(ast.Node, text.Reader, parser.Context) {
	if d.head != nil && d.head.Parent() != nil {
		d.head.Parent().RemoveChild(d.head.Parent(), d.head)
	}
	d.head = nil
}

var moduleLine = regexp.MustCompile(`^(?:import|export)\s`)

// WithoutModules returns a text of MDX with blanks in place of its imports and exports, which stand in paragraphs of
// their own.
func WithoutModules(in charset.Text) charset.Text {
	out := []byte(in.Text)
	module, blank, code := false, true, false
	at := 0
	for line := range strings.Lines(in.Text) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			code = !code
		}
		if strings.TrimSpace(line) == "" || code {
			module, blank = false, !code
		} else if blank {
			module, blank = moduleLine.MatchString(line), false
		}
		for i := at; module && i < at+len(strings.TrimRight(line, "\r\n")); i++ {
			out[i] = ' '
		}
		at += len(line)
	}
	in.Text = string(out)
	return in
}
