package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Limits for the Markdown parser. Documents that people write stay far below them.
const (
	// container markers ("> > - - 1. ") that a line begins with: the parser recurses once per container
	maxMarkers = 500
	maxPadding = 1 << 20 // table cells that rows lack: the parser creates all of them
	// visits of a line, one for each container that it is in: empty lines continue a list of 500 levels
	maxLooks, looksByte = 1 << 20, 6
	// bytes scanned for the ends of links and tags: those without an end take quadratic time
	maxSteps, stepsByte = 32 << 20, 8
	maxBraces           = 16   // of a heading: each may begin attributes, which are read recursively
	maxAttributes       = 4096 // bytes of a heading from its first brace on
	maxDefinitions      = 256  // lines of link definitions at a time: the parser copies the lines behind each
)

// isHostile reports whether parsing src as Markdown could exhaust the stack or memory. Such a text is read as plain
// text.
func isHostile(src string) bool {
	columns, padding := 0, 0
	for line := range strings.Lines(src) {
		if markersOf(line) > maxMarkers {
			return true
		}
		pipes := strings.Count(line, "|")
		switch {
		case strings.Contains(line, "-") && strings.Trim(line, "|:-> \t\r\n") == "":
			columns = pipes
		case strings.TrimSpace(line) == "":
			columns = 0
		default:
			if padding += max(columns-pipes, 0); padding > maxPadding {
				return true
			}
		}
	}
	return false
}

// markersOf returns how many marks of quotes and lists a line begins with, at most: a run of dashes is a rule.
func markersOf(line string) (n int) {
	marks := line[:len(line)-len(strings.TrimLeft(line, "> \t-+*0123456789.)"))]
	for i := range len(marks) {
		if marks[i] == '>' || i > 0 && doc.IsSpace(marks[i]) && !doc.IsSpace(marks[i-1]) {
			n++
		}
	}
	return n
}

// steps counts the work of the Markdown parser on one document, and lets a context end it.
type steps struct {
	*doc.Pulse
	looks, mostLooks int
	scans, mostScans int
	source           string
	notes            map[string]bool // labels of the document's footnotes
}

// hostile is the panic value that ends parsing of a document that is to be read as plain text.
type hostile struct{}

func newSteps(src string, p *doc.Pulse) *steps {
	return &steps{Pulse: p, mostLooks: maxLooks + looksByte*len(src), mostScans: maxSteps + stepsByte*len(src),
		source: src, notes: map[string]bool{}}
}

func (s *steps) scan(bytes int) {
	s.Beat()
	s.scans += bytes
}

// exhausted reports whether so much has been scanned that further links and tags are kept as plain text.
func (s *steps) exhausted() bool { return s.scans > s.mostScans }

// parse parses src with goldmark; it returns false if that took too many visits of lines.
func (s *steps) parse(src []byte) (root ast.Node, ok bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case hostile:
			ok = false
		default:
			panic(r)
		}
	}()
	return newMarkdown(s).Parse(lookedAt{text.NewReader(src), s}), true
}

// lookedAt is a reader of the source for goldmark's block parsers, which visit a line at least once for each open
// container.
type lookedAt struct {
	text.Reader
	*steps
}

func (l lookedAt) PeekLine() ([]byte, text.Segment) {
	l.Beat()
	if l.looks++; l.looks > l.mostLooks {
		panic(hostile{})
	}
	return l.Reader.PeekLine()
}

// boundedHeading reads headings; one with many braces gets no attributes.
type boundedHeading struct {
	parser.BlockParser                    // with attributes
	plain              parser.BlockParser // without
}

func (b boundedHeading) of(line []byte) parser.BlockParser {
	i := bytes.IndexByte(line, '{')
	if i >= 0 && (len(line)-i > maxAttributes || bytes.Count(line, []byte("{")) > maxBraces) {
		return b.plain
	}
	return b.BlockParser
}

// Open begins a heading that starts with "#", and reads its attributes.
func (b boundedHeading) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, _ := reader.PeekLine()
	return b.of(line).Open(parent, reader, pc)
}

// Close reads the attributes of an underlined heading, which is a paragraph until then.
func (b boundedHeading) Close(n ast.Node, reader text.Reader, pc parser.Context) {
	var line []byte
	if above, ok := n.PreviousSibling().(*ast.Paragraph); ok && above.Lines().Len() > 0 {
		last := above.Lines().At(above.Lines().Len() - 1)
		line = last.Value(reader.Source())
	}
	b.of(line).Close(n, reader, pc)
}

// definitions is goldmark's reader of link definitions with a bound: goldmark copies the lines behind each definition,
// so a paragraph is passed to it in parts.
type definitions struct{ parser.ParagraphTransformer }

func (d definitions) Transform(n *ast.Paragraph, reader text.Reader, pc parser.Context) {
	for n.Lines().Len() > maxDefinitions {
		lines := n.Lines()
		end := maxDefinitions
		for end < lines.Len() && reader.Source()[lines.At(end).Start] != '[' {
			end++
		}
		part := ast.NewParagraph()
		part.Lines().AppendAll(lines.Sliced(0, end))
		n.Parent().InsertBefore(n.Parent(), n, part)
		d.ParagraphTransformer.Transform(part, reader, pc)
		if part.Parent() != nil { // no further definitions
			n.Parent().RemoveChild(n.Parent(), part)
			rest := text.NewSegments()
			rest.AppendAll(part.Lines().Sliced(0, part.Lines().Len()))
			rest.AppendAll(lines.Sliced(end, lines.Len()))
			n.SetLines(rest)
			return
		}
		lines.SetSliced(end, lines.Len())
	}
	d.ParagraphTransformer.Transform(n, reader, pc)
}
