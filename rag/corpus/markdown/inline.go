package markdown

import (
	"bytes"
	"regexp"
	"sort"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// emphasis reads emphasis and strike-through. It matches what goldmark's own parsers match, in linear time: those
// search all openers of a paragraph for each unmatched closer. Only the text is needed here, so it makes no nodes and
// only removes the matched delimiters.
type emphasis struct {
	*steps
	last *parser.Delimiter // of the block so far
}

func (*emphasis) Trigger() []byte { return []byte{'*', '_', '~'} }

func (*emphasis) IsDelimiter(c byte) bool { return c == '*' || c == '_' || c == '~' }

func (*emphasis) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

// OnMatch implements parser.DelimiterProcessor. It is not called.
func (*emphasis) OnMatch(int) ast.Node { return nil }

// Parse reads a run of delimiters.
func (e *emphasis) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	e.Beat()
	line, at := block.PeekLine()
	before := block.PrecendingCharacter()
	d := parser.ScanDelimiter(line, before, 1, e)
	block.Advance(d.OriginalLength)
	d.Segment = at.WithStop(at.Start + d.OriginalLength)
	if !d.CanOpen && !d.CanClose || d.Char == '~' && (d.OriginalLength > 2 || before == '~') {
		return ast.NewTextSegment(d.Segment)
	}
	if d.PreviousDelimiter = e.last; e.last != nil {
		e.last.NextDelimiter = d
	}
	e.last = d
	return d
}

// CloseBlock matches the delimiters at the end of a block.
func (e *emphasis) CloseBlock(ast.Node, text.Reader, parser.Context) { e.match(nil) }

// closeLink matches the delimiters within a link.
func (e *emphasis) closeLink(link ast.Node) {
	bottom := e.last
	for bottom != nil && bottom.Parent() == link {
		bottom = bottom.PreviousDelimiter
	}
	e.match(bottom)
}

// match matches the delimiters behind bottom, and turns the others into text.
func (e *emphasis) match(bottom *parser.Delimiter) {
	type kind struct {
		char    byte
		canOpen bool
		length  int // modulo 3
	}
	none := map[kind]int{} // before this place of the source there is no opener for closers of a kind
	closer := e.last
	for closer != bottom && closer.PreviousDelimiter != bottom {
		closer = closer.PreviousDelimiter
	}
	for closer != bottom && closer != nil {
		e.Beat()
		next := closer.NextDelimiter
		if !closer.CanClose {
			closer = next
			continue
		}
		k := kind{closer.Char, closer.CanOpen, closer.OriginalLength % 3}
		opener := closer.PreviousDelimiter
		for opener != bottom && opener.Segment.Start >= none[k] && !(opener.CanOpen && opener.Char == closer.Char &&
			opener.CalcComsumption(closer) > 0) {
			opener = opener.PreviousDelimiter
		}
		if opener == bottom || opener.Segment.Start < none[k] {
			none[k] = closer.Segment.Start
			closer = next
			continue
		}
		for between := closer.PreviousDelimiter; between != opener; between = closer.PreviousDelimiter {
			e.remove(between)
		}
		consumed := opener.CalcComsumption(closer)
		opener.ConsumeCharacters(consumed)
		closer.ConsumeCharacters(consumed)
		if opener.Length == 0 {
			e.remove(opener)
		}
		if closer.Length == 0 {
			e.remove(closer)
			closer = next
		}
	}
	for e.last != bottom {
		e.remove(e.last)
	}
}

// remove removes a delimiter from the list; its remaining characters become text.
func (e *emphasis) remove(d *parser.Delimiter) {
	if d.PreviousDelimiter != nil {
		d.PreviousDelimiter.NextDelimiter = d.NextDelimiter
	}
	if d.NextDelimiter != nil {
		d.NextDelimiter.PreviousDelimiter = d.PreviousDelimiter
	} else {
		e.last = d.PreviousDelimiter
	}
	if d.Length > 0 {
		ast.MergeOrReplaceTextSegment(d.Parent(), d, d.Segment)
	} else {
		d.Parent().RemoveChild(d.Parent(), d)
	}
}

// codeSpans is goldmark's parser of code spans, called only where a span ends: goldmark would search the whole block
// for the end of each.
type codeSpans struct {
	parser.InlineParser
	in   ast.Node    // the block of last
	last map[int]int // start of the last run of each number of backticks
}

// Parse reads a run of backticks, and the code up to the next run of the same length.
func (c *codeSpans) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if c.in != parent {
		c.in, c.last = parent, map[int]int{}
		for i := range parent.Lines().Len() {
			line := parent.Lines().At(i)
			for at := line.Start; at < line.Stop; at++ {
				n := runOf('`', block.Source()[at:line.Stop])
				if n > 0 {
					c.last[n] = at
				}
				at += n
			}
		}
	}
	line, at := block.PeekLine()
	n := runOf('`', line)
	if c.last[n] <= at.Start {
		block.Advance(n)
		return ast.NewTextSegment(at.WithStop(at.Start + n))
	}
	return c.InlineParser.Parse(parent, block, pc)
}

// runOf returns the number of bytes c at the beginning of a line.
func runOf(c byte, line []byte) (n int) {
	for n < len(line) && line[n] == c {
		n++
	}
	return n
}

// boundedLinks is goldmark's link parser with a limit on the bytes scanned for the ends of links: beyond it, links of
// the document are kept as plain text.
type boundedLinks struct {
	parser.InlineParser
	*emphasis
	*steps
	opened []int // starts of links that may still end
}

func (b *boundedLinks) Trigger() []byte { return b.InlineParser.Trigger() }

// Parse reads the beginning or the end of a link.
func (b *boundedLinks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, at := block.PeekLine()
	ends := line[0] == ']'
	if ends && b.exhausted() {
		return nil
	}
	if bytes.HasPrefix(line, []byte("](<")) && bytes.IndexByte(line, '>') < 0 {
		b.scan(len(line))
	}
	if n := len(b.opened); ends && n > 0 {
		b.scan(at.Start - b.opened[n-1])
		b.opened = b.opened[:n-1]
	}
	n := b.InlineParser.Parse(parent, scanned{block, parent.Lines(), b.steps}, pc)
	switch {
	case n == nil:
	case ends:
		b.closeLink(n)
	default:
		b.opened = append(b.opened, at.Start)
	}
	return n
}

// CloseBlock is called at the end of each block.
func (b *boundedLinks) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	b.opened = b.opened[:0]
	if c, ok := b.InlineParser.(parser.CloseBlocker); ok {
		c.CloseBlock(parent, block, pc)
	}
}

// boundedTags is goldmark's parser of HTML tags in text, with the same limit.
type boundedTags struct {
	parser.InlineParser
	*steps
}

// Parse reads a tag.
func (b boundedTags) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if b.exhausted() {
		return nil
	}
	return b.InlineParser.Parse(parent, scanned{block, parent.Lines(), b.steps}, pc)
}

// scanned is a reader of a block that counts the bytes it reads.
type scanned struct {
	text.Reader
	lines *text.Segments
	*steps
}

func (s scanned) Advance(n int) {
	s.scan(n)
	s.Reader.Advance(n)
}

func (s scanned) ReadRune() (r rune, size int, err error) {
	r, size, err = s.Reader.ReadRune()
	s.scan(size)
	return r, size, err
}

// Match calls the reader's Match, and counts the bytes that it reads.
func (s scanned) Match(e *regexp.Regexp) bool {
	line, at := s.Position()
	m := e.FindReaderSubmatchIndex(s)
	s.SetPosition(line, at)
	if m == nil {
		return false
	}
	s.Advance(m[1] - m[0])
	return true
}

func (s scanned) FindClosure(opener, closer byte, o text.FindClosureOptions) (*text.Segments, bool) {
	_, from := s.Position()
	found, ok := s.Reader.FindClosure(opener, closer, o)
	_, to := s.Position()
	if !ok && s.lines.Len() > 0 {
		to.Start = max(s.lines.At(s.lines.Len()-1).Stop, from.Start)
	}
	s.scan(to.Start - from.Start)
	return found, ok
}

// Value calls the reader's Value, which scans all the lines of a block.
func (s scanned) Value(of text.Segment) []byte {
	var value []byte
	first := max(sort.Search(s.lines.Len(), func(i int) bool { return s.lines.At(i).Start > of.Start })-1, 0)
	for i, from := first, of.Start; i < s.lines.Len(); i++ {
		line := s.lines.At(i)
		if from = max(from, line.Start); from >= of.Stop {
			break
		}
		value = line.ConcatPadding(value)
		value = append(value, s.Source()[from:max(min(of.Stop, line.Stop), from)]...)
	}
	s.scan(len(value))
	return value
}
