package markdown

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// dialectInlines returns the parsers of what stands in a line.
func dialectInlines(s *steps) []util.PrioritizedValue {
	return []util.PrioritizedValue{
		util.Prioritized(brackets{s}, 150),
		util.Prioritized(braces{s}, 160),
	}
}

// brackets reads marks in brackets: references to footnotes, links of wikis, kinds of boxes, and where a table of
// contents is to be put.
type brackets struct{ *steps }

var (
	noteReference = regexp.MustCompile(`^\[\^([^\[\]\s]+)\]`)
	wikiLink      = regexp.MustCompile(`^(!?)\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]+))?\]\]`)
	alertKind     = regexp.MustCompile(`^\[![A-Za-z-]+\][+-]?`)
	contentsMark  = regexp.MustCompile(`^(?i:\[_?toc_?\])`)
)

func (brackets) Trigger() []byte { return []byte{'[', '!'} }

// Parse reads a mark in brackets.
func (b brackets) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, at := block.PeekLine()
	line = line[:min(len(line), longestMark)]
	first := parent.FirstChild() == nil
	before := block.PrecendingCharacter() // x[[1]] is an index
	isIndex := before == ']' || before == ')' || unicode.IsLetter(before) || unicode.IsDigit(before)
	if m := wikiLink.FindSubmatchIndex(line); m != nil && !isIndex && doc.HasLetters(string(line[m[4]:m[5]])) {
		if _, defined := pc.Reference(util.ToLinkReference(line[m[4]:m[5]])); defined {
			return nil
		}
		from, to := m[4], m[5]
		if m[6] >= 0 {
			from, to = m[6], m[7]
		}
		block.Advance(m[1])
		if m[2] < m[3] || contentsMark.Match(line[m[4]-1:]) {
			return nothing()
		}
		return ast.NewTextSegment(text.NewSegment(at.Start+from, at.Start+to))
	}
	var m []int
	switch reference := noteReference.FindSubmatch(line); {
	case reference != nil && b.notes[string(reference[1])]:
		m = noteReference.FindIndex(line)
	case first && parent.Parent().Kind() == ast.KindBlockquote:
		m = alertKind.FindIndex(line)
	case first && len(bytes.TrimSpace(line)) < len("[_toc_] "):
		m = contentsMark.FindIndex(line)
	}
	if m == nil {
		return nil
	}
	block.Advance(m[1])
	return nothing()
}

// withoutOptions returns the lines of a block of code, without the options of a directive at its beginning.
func withoutOptions(n ast.Node, src []byte) *text.Segments {
	lines := n.Lines()
	fenced, ok := n.(*ast.FencedCodeBlock)
	if !ok || fenced.Info == nil || src[fenced.Info.Segment.Start] != '{' {
		return lines
	}
	first := 0
	for ; first < lines.Len(); first++ {
		if line := lines.At(first); line.Len() > longestMark || !optionLine.Match(line.Value(src)) {
			break
		}
	}
	rest := text.NewSegments()
	rest.AppendAll(lines.Sliced(first, lines.Len()))
	return rest
}

// ofRole returns the part of a code span that is shown: not the language in front ("#!py x"), nor the target of a role
// ("{ref}`text <target>`").
func ofRole(n *ast.CodeSpan, src string, s text.Segment) text.Segment {
	if n.FirstChild() == n.LastChild() {
		s.Start += len(codeLanguage.FindString(src[s.Start:min(s.Stop, s.Start+longestMark)]))
	}
	role, ok := n.PreviousSibling().(*ast.String)
	if at := strings.LastIndex(src[s.Start:s.Stop], " <"); ok && role.IsCode() && at > 0 && src[s.Stop-1] == '>' {
		s.Stop = s.Start + at
	}
	return s
}

var codeLanguage = regexp.MustCompile(`^#!\w[\w+-]* `)

// nothing is a node without text.
func nothing() ast.Node { return ast.NewString(nil) }

// braces reads marks in braces: attributes of spans, links, code and kramdown's blocks, roles of MyST, tags of Hugo and
// Jekyll, comments of MDX.
type braces struct{ *steps }

var (
	oneAttribute = `(?:[#.][A-Za-z_][^\s{}]*|[A-Za-z][\w:-]*=(?:"[^"\n]*"|'[^'\n]*'|[^\s{}"']+)|=[a-z]\w*|-)`
	attribution  = regexp.MustCompile(`^\{\s*` + oneAttribute + `(?:\s+` + oneAttribute + `)*\s*\}`)
	relation     = regexp.MustCompile(`\srel="?([a-z]+)`)
	role         = regexp.MustCompile("^\\{[a-z][\\w:+-]*\\}`")
	braceTag     = regexp.MustCompile(`^(?:\{:\s*(?:toc|` + oneAttribute + `)(?:\s+` + oneAttribute + `)*\s*\}|` +
		`\{::[^{}\n]*\}|\{\{[<%][^\n]*?[%>]\}\}|\{%[^\n]*?%\}|\{/\*[^\n]*?\*/\})`)
)

func (braces) Trigger() []byte { return []byte{'{'} }

// Parse reads a mark in braces. Attributes end the span in brackets before them.
func (b braces) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, at := block.PeekLine()
	line = line[:min(len(line), longestMark)]
	m := braceTag.FindIndex(line)
	if m == nil && role.Match(line) {
		block.Advance(bytes.IndexByte(line, '}') + 1)
		n := ast.NewString(nil)
		n.SetCode(true) // for ofRole
		return n
	}
	before := block.PrecendingCharacter()
	if m != nil || before != ']' && !hasAttributes(parent.LastChild()) {
		return b.skip(block, m)
	}
	line = linesTo('}', block)
	if m = attribution.FindIndex(line); m == nil {
		return nil
	}
	link, linked := parent.LastChild().(*ast.Link)
	if rel := relation.FindSubmatch(line[:m[1]]); linked && rel != nil {
		link.SetAttributeString("rel", string(rel[1]))
	}
	if before == ']' && !linked {
		b.unbracket(parent, block.Source(), at.Start-1)
	}
	return b.skip(block, m)
}

// hasAttributes reports whether attributes behind a node are its own.
func hasAttributes(n ast.Node) bool {
	switch n.(type) {
	case *ast.Link, *ast.Image, *ast.CodeSpan, *ast.AutoLink, *ast.RawHTML:
		return true
	}
	return false
}

// skip goes behind a mark, if there is one.
func (braces) skip(block text.Reader, m []int) ast.Node {
	if m == nil {
		return nil
	}
	block.Advance(m[1])
	return nothing()
}

// linesTo returns what follows of a block to the line in which a character is, at most longestMark bytes.
func linesTo(c byte, block text.Reader) []byte {
	number, at := block.Position()
	defer func() { block.SetPosition(number, at) }()
	var lines []byte
	for len(lines) < longestMark && bytes.IndexByte(lines, c) < 0 {
		line, _ := block.PeekLine()
		if line == nil {
			break
		}
		lines = append(lines, line[:min(len(line), longestMark)]...)
		block.AdvanceLine()
	}
	return lines
}

// unbracket takes the bracket at source[end], and the one that opens it, out of the text.
func (b braces) unbracket(parent ast.Node, source []byte, end int) {
	depth := 0
	for i := end; i >= max(end-longestMark, 0); i-- {
		switch source[i] {
		case ']':
			depth++
		case '[':
			depth--
		}
		if depth == 0 {
			b.scan(end - i)
			cutText(parent, end)
			cutText(parent, i)
			return
		}
	}
}

// cutText takes one byte of the source out of the text of a node.
func cutText(parent ast.Node, at int) {
	for n := parent.LastChild(); n != nil; n = n.PreviousSibling() {
		t, ok := n.(*ast.Text)
		if !ok || at < t.Segment.Start {
			continue
		}
		if at < t.Segment.Stop {
			rest := ast.NewTextSegment(t.Segment.WithStart(at + 1))
			rest.SetSoftLineBreak(t.SoftLineBreak())
			rest.SetHardLineBreak(t.HardLineBreak())
			t.Segment = t.Segment.WithStop(at)
			t.SetSoftLineBreak(false)
			t.SetHardLineBreak(false)
			parent.InsertAfter(parent, t, rest)
		}
		return
	}
}
