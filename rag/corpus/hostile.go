package corpus

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Limits of what the Markdown parser is given. No document that people write comes near them.
const (
	// bytes of container markers ("> > - - 1. ") that a line begins with: the parser recurses once per container
	maxMarkers = 1000
	maxPadding = 1 << 20 // table cells that rows lack: the parser makes them all
	// looks at a line, one for each container that it stands in: a list of 500 levels is continued by empty lines
	maxLooks, looksByte = 1 << 20, 6
	// bytes scanned for the ends of links and tags: those that have none are quadratic
	maxSteps, stepsByte = 32 << 20, 8
	maxBraces           = 16   // of a heading: each of them may begin attributes, and they are read recursively
	maxAttributes       = 4096 // bytes of a heading from its first brace on
	maxDefinitions      = 256  // lines of link definitions at a time: the parser copies the lines behind each
)

// isHostile tells whether parsing src as Markdown could exhaust stack or memory. It is read as plain text then.
func isHostile(src string) bool {
	columns, padding := 0, 0
	for line := range strings.Lines(src) {
		if len(line)-len(strings.TrimLeft(line, "> \t-+*0123456789.)")) > maxMarkers {
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

// steps counts the work that the Markdown parser does on one document, and lets a context end it.
type steps struct {
	*pulse
	looks, mostLooks int
	scans, mostScans int
}

// hostile is the panic that ends the parsing of a document which is to be read as plain text.
type hostile struct{}

func newSteps(src string, p *pulse) *steps {
	return &steps{pulse: p, mostLooks: maxLooks + looksByte*len(src), mostScans: maxSteps + stepsByte*len(src)}
}

func (s *steps) look() {
	s.beat()
	if s.looks++; s.looks > s.mostLooks {
		panic(hostile{})
	}
}

func (s *steps) scan(bytes int) {
	s.beat()
	s.scans += bytes
}

// exhausted tells whether so much has been scanned that further links and tags stay as they are written.
func (s *steps) exhausted() bool { return s.scans > s.mostScans }

// parse is what goldmark makes of src; false if that has taken too many looks.
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

// lookedAt is a reader of the source for goldmark's parsers of blocks, which look at a line at least once for each
// container that is open.
type lookedAt struct {
	text.Reader
	*steps
}

func (l lookedAt) PeekLine() ([]byte, text.Segment) {
	l.look()
	return l.Reader.PeekLine()
}

// boundedHeading reads headings; those with many braces have no attributes.
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

// Open reads the attributes of a heading that begins with "#".
func (b boundedHeading) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, _ := reader.PeekLine()
	return b.of(line).Open(parent, reader, pc)
}

// Close reads the attributes of a heading that is underlined: a paragraph until then.
func (b boundedHeading) Close(n ast.Node, reader text.Reader, pc parser.Context) {
	var line []byte
	if above, ok := n.PreviousSibling().(*ast.Paragraph); ok && above.Lines().Len() > 0 {
		last := above.Lines().At(above.Lines().Len() - 1)
		line = last.Value(reader.Source())
	}
	b.of(line).Close(n, reader, pc)
}

// definitions is goldmark's reader of link definitions, which copies the lines behind each that it finds: it is given
// the lines of a paragraph in parts.
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
