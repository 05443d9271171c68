// Package markdown reads Markdown in the dialects of many programs.
package markdown

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
)

// markdownReader turns a goldmark tree into builder events.
type markdownReader struct {
	b        *build.Builder
	src      []byte
	text     string            // src as a string, for substrings without a copy
	base     int               // bytes of front matter in front of src
	at       int               // offset in src up to which the text has been read, for nodes without a position
	item     map[*ast.List]int // number of the next item of an ordered list
	cell     bool              // in a cell of a table, where a backslash also escapes "|" in code
	linked   int               // where the text of the open link begins
	defining ast.Node          // the first block of a definition, which goes on with the line of its term
}

// Parse reads a whole Markdown text into d. It returns false, with d unchanged, when the text is too hostile to
// parse.
func Parse(d *doc.Document, in charset.Text, p *doc.Pulse) bool {
	meta, base := frontMatter(in.Text)
	if groups, ok := meta[doc.AccessKey]; ok { // also of a text that is not parsed
		d.SetMeta(doc.AccessKey, groups)
	}
	if isHostile(in.Text[base:]) {
		return false
	}
	r := markdownReader{b: &build.Builder{Pulse: p}, src: []byte(in.Text[base:]), text: in.Text[base:], base: base,
		item: map[*ast.List]int{}}
	r.b.W.Text.Grow(len(r.src))
	r.b.Marked = r.numberBefore
	root, ok := newSteps(r.text, p).parse(r.src)
	if !ok {
		return false
	}
	walk(root, r.visit)
	d.Title = meta.Text("title")
	delete(meta, "title")
	if len(meta) > 0 {
		if d.Meta == nil {
			d.Meta = doc.Meta{}
		}
		maps.Copy(d.Meta, meta)
	}
	r.b.Finish(d, in.Map)
	d.Entitle()
	return true
}

// newMarkdown returns goldmark's default parser with tables, task lists, strike-through and heading ids, and with
// bounds.
func newMarkdown(s *steps) parser.Parser {
	marks := &emphasis{steps: s}
	ids := parser.WithAutoHeadingID()
	return parser.NewParser(
		parser.WithBlockParsers(append(dialectBlocks(s),
			util.Prioritized(boundedHeading{parser.NewSetextHeadingParser(ids, parser.WithHeadingAttribute()),
				parser.NewSetextHeadingParser(ids)}, 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(boundedHeading{parser.NewATXHeadingParser(ids, parser.WithHeadingAttribute()),
				parser.NewATXHeadingParser(ids)}, 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewHTMLBlockParser(), 900),
			util.Prioritized(parser.NewParagraphParser(), 1000))...),
		parser.WithInlineParsers(append(dialectInlines(s),
			util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
			util.Prioritized(&codeSpans{InlineParser: parser.NewCodeSpanParser()}, 100),
			util.Prioritized(&boundedLinks{InlineParser: parser.NewLinkParser(), emphasis: marks, steps: s}, 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(boundedTags{parser.NewRawHTMLParser(), s}, 400),
			util.Prioritized(marks, 500))...),
		parser.WithParagraphTransformers(
			util.Prioritized(definitions{parser.LinkReferenceParagraphTransformer}, 100),
			util.Prioritized(extension.NewTableParagraphTransformer(), 200)))
}

// frontMatter reads the YAML between lines of "---" at the beginning of a file: its values, and its length, 0 without
// front matter.
func frontMatter(src string) (doc.Meta, int) {
	body, ok := strings.CutPrefix(src, "---\n")
	if !ok {
		if body, ok = strings.CutPrefix(src, "---\r\n"); !ok {
			return nil, 0
		}
	}
	at := len(src) - len(body)
	for line := range strings.Lines(body) {
		end := at
		at += len(line)
		if trimmed := strings.TrimRight(line, "\r\n"); trimmed != "---" && trimmed != "..." {
			continue
		}
		block := src[len(src)-len(body) : end]
		meta, ok := frontValues(block)
		if !ok && namesAccess.MatchString(block) {
			return doc.Meta{doc.AccessKey: []any{}}, 0
		}
		if !ok {
			return nil, 0
		}
		return meta, at
	}
	return nil, 0
}

// namesAccess finds AccessKey in front matter that cannot be read.
var namesAccess = regexp.MustCompile(`(?m)^["']?` + doc.AccessKey + `["']?[ \t]*:`)

// maxYAMLValues bounds the values of front matter; an aliased value counts at each use.
const maxYAMLValues = 10_000

// frontValues returns the values of a mapping, false for anything else. It reads the nodes: decoding into a map would
// compare each key with each other one, and report an error for each pair of equal keys.
func frontValues(src string) (doc.Meta, bool) {
	var root yaml.Node
	if yaml.Unmarshal([]byte(src), &root) != nil {
		return nil, false
	}
	meta := doc.Meta{}
	if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return meta, true
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, false
	}
	keys, left := map[string]bool{}, maxYAMLValues
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if key.Kind != yaml.ScalarNode || keys[key.Value] {
			return nil, false
		}
		keys[key.Value] = true
		if key.Value != "" {
			meta.Keep(key.Value, doc.YAMLValue(value, 0, &left), false, 0)
		}
	}
	return meta, true
}

// walk visits a tree in document order without recursion; if visit returns true on entering a node, its children are
// skipped.
func walk(root ast.Node, visit func(n ast.Node, entering bool) (skip bool)) {
	for n, entering := root, true; n != nil; {
		if entering && !visit(n, true) && n.FirstChild() != nil {
			n = n.FirstChild()
			continue
		}
		visit(n, false)
		switch {
		case n == root:
			return
		case n.NextSibling() != nil:
			n, entering = n.NextSibling(), true
		default:
			n, entering = n.Parent(), false
		}
	}
}

func (r *markdownReader) visit(n ast.Node, entering bool) (skip bool) {
	if link, ok := n.(*ast.Link); ok {
		if entering && r.isNote(link) {
			return true
		}
		r.link(link, entering)
	}
	if n.Type() == ast.TypeInline {
		return entering && r.inline(n)
	}
	if n == r.defining {
		return false
	}
	switch n := n.(type) {
	case *ast.Heading:
		if entering {
			r.heading(n)
		}
		return true
	case *east.Table:
		if entering {
			r.b.BeginTable(build.OpenTable{})
		} else {
			r.b.EndTable()
		}
	case *east.DefinitionTerm:
		if _, further := n.PreviousSibling().(*east.DefinitionTerm); entering && further {
			r.b.Gap(", ", r.at+r.base)
		} else if entering {
			r.b.EndBlock("\n")
		}
	case *east.DefinitionDescription:
		if _, ok := n.PreviousSibling().(*east.DefinitionTerm); entering && ok && r.b.Open {
			r.b.Colon(r.at + r.base)
			r.defining = n.FirstChild()
		} else {
			r.b.EndBlock("\n")
		}
	case *ast.TextBlock:
		if r.cell { // a line of it
			r.b.Gap(" ", r.at+r.base)
			return false
		}
		r.b.EndBlock("\n")
		r.b.Borders = 0
	case *east.TableRow:
		r.b.EndBlock("\n")
		r.b.Borders = 0
	case *east.TableHeader:
		r.b.EndBlock("\n")
		r.b.EndRow(true)
		r.b.Borders = 0
	case *ast.ListItem:
		r.b.EndBlock("\n")
		if r.b.Marker = ""; entering {
			r.b.Marker = r.bullet(n)
		}
	case *east.TableCell:
		if r.cell = entering; entering && n.PreviousSibling() != nil {
			r.b.Borders++
		}
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		r.b.EndBlock("\n\n")
		if entering {
			r.code(withoutOptions(n, r.src))
			r.b.EndBlock("\n\n")
		}
		return true
	case *ast.HTMLBlock:
		if entering {
			r.html(n)
		}
	default:
		r.b.EndBlock("\n\n")
	}
	return false
}

// link notes where the text of a link is that leads to a place of the same document, or to the pages beside it.
func (r *markdownReader) link(link *ast.Link, entering bool) {
	if entering {
		r.linked = r.b.W.Text.Len()
		return
	}
	if len(link.Destination) > 1 && link.Destination[0] == '#' {
		r.b.OwnLink(r.linked)
	}
	if rel, _ := link.AttributeString("rel"); doc.OneOf(strings.ToLower(fmt.Sprint(rel)), build.PageRelations) {
		r.b.PageLink(r.linked)
	}
}

// isNote reports whether a link to a place of the same document is the number of a note there.
func (r *markdownReader) isNote(link *ast.Link) bool {
	if t, ok := link.FirstChild().(*ast.Text); ok && bytes.HasPrefix(link.Destination, []byte("#")) {
		mark := string(t.Segment.Value(r.src))
		bare := strings.Trim(mark, "^")
		return t.NextSibling() == nil && len(mark) < html.MaxPermalink && html.IsPermalink(bare, bare != mark)
	}
	return false
}

func (r *markdownReader) bullet(n *ast.ListItem) string {
	list, ok := n.Parent().(*ast.List)
	if !ok || !list.IsOrdered() {
		return "- "
	}
	if _, begun := r.item[list]; !begun {
		r.item[list] = list.Start
	}
	number := r.item[list]
	r.item[list]++
	return strconv.Itoa(number) + ". "
}

// numberBefore returns the length in bytes of the number of a list item that stands directly before a place of the
// source: a chunk that is only such a number still gets a position.
func (r *markdownReader) numberBefore(source int) int {
	before := r.text[:source-r.base]
	rest := strings.TrimRight(before, " \t")
	dotless := strings.TrimRight(rest, ".)")
	head := strings.TrimRight(dotless, "0123456789")
	if len(dotless) != len(rest)-1 || len(head) == len(dotless) {
		return 0
	}
	return len(before) - len(head)
}

// inline handles an inline node; it returns true to skip the node's children.
func (r *markdownReader) inline(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Text:
		s := n.Segment
		code, raw := n.Parent().(*ast.CodeSpan)
		if raw {
			s = ofRole(code, r.text, s)
		}
		for bar := s.Start; raw && r.cell; s.Start = bar + 1 {
			n := strings.Index(r.text[s.Start:s.Stop], `\|`)
			if n < 0 {
				break
			}
			bar = s.Start + n
			r.words(r.text[s.Start:bar], s.Start+r.base, true)
		}
		r.words(r.text[s.Start:s.Stop], s.Start+r.base, raw || n.IsRaw())
		r.at = s.Stop
		if n.HardLineBreak() || n.SoftLineBreak() {
			r.b.Gap("\n", s.Stop+r.base)
		}
	case *ast.AutoLink:
		label := n.Label(r.src)
		if i := bytes.Index(r.src[r.at:], label); i >= 0 {
			r.b.Copy(string(label), r.at+i+r.base)
			r.at += i + len(label)
		}
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			s := n.Segments.At(i)
			if tag := strings.ToLower(string(r.src[s.Start:s.Stop])); strings.HasPrefix(tag, "<br") {
				r.b.Gap("\n", s.Start+r.base)
			}
			r.at = s.Stop
		}
	case *east.TaskCheckBox:
		box, length := "[ ] ", 0
		if n.IsChecked {
			box = "[x] "
		}
		if i := strings.IndexByte(r.text[r.at:], '['); i >= 0 && len(r.text)-r.at-i >= 3 {
			r.at, length = r.at+i, 3
		}
		r.b.Atom(box, r.at+r.base, length)
		r.at += length
	case *ast.String:
		r.b.Atom(string(n.Value), r.at+r.base, 0)
	}
	return false
}

// words adds inline text, and unless it is raw resolves backslash escapes and character references.
func (r *markdownReader) words(s string, at int, raw bool) {
	for s != "" {
		i := len(s)
		if !raw {
			if j := strings.IndexAny(s, `\&`); j >= 0 {
				i = j
			}
		}
		r.b.Collapsed(s[:i], at)
		if s, at = s[i:], at+i; s == "" {
			return
		}
		n := 1
		switch decoded, length := html.Entity(s, true); {
		case s[0] == '\\' && len(s) > 1 && s[1] > ' ' && s[1] < 0x7f && !doc.IsAlnum(s[1]):
			n = 2
			r.b.Atom(s[1:2], at, 2)
		case s[0] == '&' && length > 0:
			n = length
			r.b.Atom(decoded, at, n)
		default:
			r.b.Copy(s[:1], at)
		}
		s, at = s[n:], at+n
	}
}

func (r *markdownReader) heading(n *ast.Heading) {
	var plain build.Builder
	sub := markdownReader{b: &plain, src: r.src, text: r.text, base: r.base, at: r.at}
	walk(n, func(c ast.Node, entering bool) bool { return entering && c.Type() == ast.TypeInline && sub.inline(c) })
	anchor := ""
	if id, ok := n.AttributeString("id"); ok {
		if b, ok := id.([]byte); ok {
			anchor = string(b)
		}
	}
	from, to := r.at+r.base, r.at+r.base
	if l := n.Lines(); l.Len() > 0 {
		from, to = l.At(0).Start+r.base, l.At(l.Len()-1).Stop+r.base
	}
	r.b.Heading(n.Level, plain.W.Text.String(), anchor, from, to)
}

func (r *markdownReader) code(lines *text.Segments) {
	for i := range lines.Len() {
		s := lines.At(i)
		if s.Padding > 0 { // a tab that is partly consumed by the container
			r.b.Begin(s.Start+r.base, true)
			r.b.W.Atom(strings.Repeat(" ", s.Padding), s.Start+r.base, 0)
		}
		r.b.Verbatim(r.text[s.Start:s.Stop], s.Start+r.base)
		r.at = s.Stop
	}
}

// html reads a block of HTML, line by line if there are container markers between its lines.
func (r *markdownReader) html(n *ast.HTMLBlock) {
	r.b.EndBlock("\n\n")
	segments := append([]text.Segment(nil), n.Lines().Sliced(0, n.Lines().Len())...)
	if n.HasClosure() {
		segments = append(segments, n.ClosureLine)
	}
	segments = slices.DeleteFunc(segments, func(s text.Segment) bool { // behind an end tag
		return s.Len() < longestMark && fenceLine.MatchString(r.text[s.Start:s.Stop])
	})
	for i := 0; i < len(segments); {
		from, to := segments[i].Start, segments[i].Stop
		for i++; i < len(segments) && segments[i].Start == to; i++ {
			to = segments[i].Stop
		}
		if title, _ := html.Read(r.b, r.text[from:to], from+r.base, false, "nav", "template", "svg"); title != "" {
			r.b.EndBlock("\n\n")
			r.b.Atom(title, from+r.base, to-from)
		}
		r.at = to
	}
	r.b.EndBlock("\n\n")
}
