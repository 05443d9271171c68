// Package html reads HTML and XHTML.
package html

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// element is the effect of an HTML element on the text around it.
type element uint8

const (
	inline  element = iota
	dropped         // its content is not read
	line            // separates lines
	para            // separates paragraphs
	heading
	cell
)

func kindOf(name string) element {
	switch name {
	case "script", "style", "nav", "template", "svg", "iframe", "noembed", "noframes", "noscript",
		"rt", "rp", "rtc": // readings beside the characters
		return dropped
	case "li", "dt", "dd", "tr", "option":
		return line
	case "h1", "h2", "h3", "h4", "h5", "h6":
		return heading
	case "td", "th":
		return cell
	case "address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dialog", "dir",
		"div", "dl", "fieldset", "figcaption", "figure", "footer", "form", "head", "header", "hgroup", "hr",
		"html", "legend", "main", "menu", "ol", "optgroup", "p", "pre", "search", "section", "select",
		"summary", "table", "tbody", "tfoot", "thead", "title", "ul", "video", "audio", "canvas", "object":
		return para
	}
	return inline
}

// htmlReader turns HTML tokens into builder events. It builds no tree: its stack does not grow with nesting, and
// malformed input takes linear time.
type htmlReader struct {
	b           *build.Builder
	z           *html.Tokenizer
	xml         bool     // it is XHTML, read as XML
	keep        []string // elements that are not dropped
	attrs       map[string]string
	open        openElements
	skip        int        // 1 + the place of the outermost open element that is not read; 0: all are read
	skipped     string     // its name, if it is of a dropped kind
	lists       []htmlList // open lists
	formula     formula
	formulaRead bool // the last thing read was a formula
	title       string
	inTitle     bool
	term        term
	permalink   bool // the last <a> leads to a place of this page
	ownLink     bool // that has a name
	pageLink    bool // it leads to the page before, the next one or those above
	linked      int  // where its text begins
	pre         int  // open <pre> elements
	afterPre    bool // the newline right behind <pre> is markup
	cells       int  // of the current row so far
	cellText    bool // the cell has text
	cellBreak   bool // the next text of the cell begins a line
	headRow     bool // the row has a cell that names its column
	bodyRow     bool // the row has another cell
	level       int  // of the open heading, 0 = no open heading
	head        strings.Builder
	anchor      string
	from        int // source of the open heading
}

// Read feeds b from src, whose first byte has offset base, and returns the title, or "". Elements named in keep are
// read although they are of a dropped kind. A dropped element without an end tag hides the rest of the source: it is
// returned as open. With xml src is well-formed XHTML.
func Read(b *build.Builder, src string, base int, xml bool, keep ...string) (title, open string) {
	r := htmlReader{b: b, xml: xml, keep: keep, attrs: map[string]string{}, formula: formula{place: -1}}
	tokenize := func(at int) {
		r.z = html.NewTokenizer(b.Pulse.Reader(strings.NewReader(src[at-base:])))
		r.z.AllowCDATA(xml)
	}
	tokenize(base)
	raw := false // the next token is the content of an element that has no tags in it
	for at := base; ; {
		n := strings.IndexByte(src[at-base:], '<')
		if n < 0 {
			n = len(src) - (at - base)
		}
		if n > longText && !raw {
			r.text(src[at-base:at-base+n], at)
			at += n
			tokenize(at)
		}
		kind := r.z.Next()
		n = len(r.z.Raw())
		raw = false
		switch kind {
		case html.ErrorToken:
			open = r.skipped
			r.cut(0, at)
			r.endHeading(at)
			return r.title, open
		case html.TextToken:
			r.text(src[at-base:at-base+n], at)
		case html.StartTagToken, html.SelfClosingTagToken:
			name := r.tag()
			r.start(name, at)
			if raw = !xml && doc.OneOf(name, rawElements) && r.open.place(foreign[:]...) < 0; !raw {
				r.z.NextIsNotRawText()
			}
			if kind == html.SelfClosingTagToken && (xml || r.open.place(foreign[:]...) >= 0) &&
				!doc.OneOf(name, voidElements) {
				r.end(name, at, at+n) // HTML ignores the slash in its own elements
			}
		case html.EndTagToken:
			r.end(r.tag(), at, at+n)
		case html.CommentToken:
			if at == 0 {
				r.title = commentTitle(string(r.z.Text()))
			}
		case html.DoctypeToken:
			before, inner, opens := strings.Cut(src[at-base:at-base+n], "[") // its declarations are still to come
			if xml && r.open.names == nil && at-base < maxProlog && opens && !strings.Contains(before+inner, "]") {
				if end := strings.Index(src[at-base+n:], "]>"); end >= 0 {
					n += end + len("]>")
					tokenize(at + n)
				}
			}
		}
		at += n
	}
}

// maxProlog bounds the offset in XHTML of a document type with declarations of its own.
const maxProlog = 4 << 10

// tag returns the name of the tag, and reads the attributes that the reader uses.
func (r *htmlReader) tag() string {
	tag, more := r.z.TagName()
	name := string(tag)
	if _, local, prefixed := strings.Cut(name, ":"); prefixed && r.xml {
		name = local
	}
	clear(r.attrs)
	for more {
		var key, value []byte
		key, value, more = r.z.TagAttr()
		switch k := string(key); k {
		case "id", "name", "class", "style", "hidden", "aria-hidden", "open", "popover", "start", "type", "value",
			"reversed", "alttext", "alt", "encoding", "property", "itemprop", "content", "lang", "xml:lang",
			"colspan", "rowspan", "role", "href", "rel":
			if _, again := r.attrs[k]; !again {
				r.attrs[k] = string(value)
			}
		}
	}
	return name
}

// longText is the length in bytes from which text without a tag bypasses the tokenizer, which would keep up to three
// copies of it.
const longText = 1 << 20

// rawElements are elements whose content the tokenizer takes as text, up to the end tag.
const rawElements = " iframe noembed noframes noscript plaintext script style textarea title xmp "

// Parse reads a whole HTML text into d. An element of a dropped kind that has markup as its content is read if its
// end tag is missing.
func Parse(d *doc.Document, in charset.Text, xml bool, p *doc.Pulse) {
	var keep []string
	xml = xml && IsXML(in.Text, p)
	for {
		b := build.Builder{Pulse: p, Said: map[string]string{}}
		b.W.Text.Grow(len(in.Text))
		title, open := Read(&b, in.Text, 0, xml, keep...)
		if open == "nav" || open == "template" || open == "svg" || open == "rt" || open == "rp" {
			keep = append(keep, open)
			continue
		}
		d.Title = title
		for key, value := range b.Said {
			d.Property(key, value)
		}
		b.Finish(d, in.Map)
		d.Entitle()
		return
	}
}

func (r *htmlReader) start(name string, at int) {
	if !r.xml {
		for place := r.open.implied(name); place >= 0; place = r.open.implied(name) {
			r.cut(place, at)
		}
	}
	image := name == "img" && !r.formulaRead && strings.Contains(r.attrs["class"], "mwe-math-fallback-image")
	if image && r.skip == 0 { // MediaWiki hides its MathML and shows an image of the formula
		r.formulaText(plainTeX(r.attrs["alt"]), at, at)
	}
	if !doc.OneOf(name, voidElements) {
		r.open.push(name)
	}
	place := len(r.open.names) - 1
	switch {
	case r.skip > 0 || doc.OneOf(name, voidElements) && r.isHidden(name):
		return
	case r.formula.place >= 0:
		r.formula.start(name, r.attrs["encoding"])
		return
	case r.isHidden(name):
		r.skip = place + 1
		return
	}
	kind, as := kindOf(name), name
	if r.isNavigation() {
		kind, as = dropped, "nav"
	}
	if r.level > 0 && (kind == heading || kind > inline && r.head.Len() > 0) {
		r.endHeading(at) // it was not closed
	}
	switch {
	case kind == dropped && slices.Contains(r.keep, as):
		r.boundary(para, at)
	case kind == dropped:
		r.skip, r.skipped = place+1, as
	case kind == heading:
		r.level, r.from, r.anchor, r.term = int(name[1]-'0'), at, r.attrs["id"], noTerm
		r.head.Reset()
	case kind == cell:
		r.cells++
		columns, rows := r.spans()
		r.b.Cell(columns, rows, at)
		if name == "th" {
			r.headRow = true
		} else {
			r.bodyRow = true
		}
		r.cellText, r.cellBreak = false, false
	case name == "math":
		r.formula.begin(place, at, r.attrs["alttext"])
	case name == "a":
		r.permalink = strings.HasPrefix(r.attrs["href"], "#")
		r.ownLink = len(r.attrs["href"]) > 1 && r.permalink // "#" alone is a script's
		r.pageLink, r.linked = doc.OneOf(strings.ToLower(r.attrs["rel"]), build.PageRelations), r.b.W.Text.Len()
		if r.level > 0 {
			r.anchor = cmp.Or(r.anchor, r.attrs["id"], r.attrs["name"])
		}
	case name == "br":
		r.lineBreak(at)
	case (name == "meta" || name == "html") && r.b.Said != nil:
		r.property(name)
		r.boundary(kind, at)
	default:
		if name == "tr" || doc.OneOf(name, rowGroups) {
			r.b.EndCells(at)
		}
		if !r.inTerm(name, at) {
			r.boundary(kind, at)
		}
		r.begun(name, at)
	}
}

// begun notes how the start of an element changes the reading of its content.
func (r *htmlReader) begun(name string, at int) {
	switch name {
	case "table":
		r.b.BeginTable(build.OpenTable{Rows: true})
	case "tr":
		r.endRow()
		r.b.Row()
	case "thead", "tbody", "tfoot":
		r.b.EndCovered()
	case "ol", "ul", "menu", "dir":
		r.beginList(name)
	case "li":
		r.b.Marker = r.bullet()
	case "pre":
		r.pre++
		r.afterPre = !r.xml
	case "title":
		r.inTitle = r.title == ""
	}
	if name == "main" || r.attrs["role"] == "main" {
		r.b.Leave(r.title, at)
	}
}

// cut closes the open elements from index place on, before source at.
func (r *htmlReader) cut(place, at int) {
	for len(r.open.names) > place {
		r.open.pop()
		r.b.Pulse.Beat()
		n := len(r.open.names)
		switch {
		case r.formula.place == n:
			r.endFormula(at)
		case r.formula.place >= 0 && n > r.formula.place && r.skip == 0:
			r.formula.end()
		}
		if l := len(r.lists); l > 0 && r.lists[l-1].place == n {
			r.lists = r.lists[:l-1]
		}
		if r.skip > n {
			r.skip, r.skipped = 0, ""
		}
	}
}

func (r *htmlReader) end(name string, at, next int) {
	place, skip := r.open.ended(name, r.xml), r.skip
	formula := r.formula.place
	if place >= 0 {
		r.cut(place, at)
	}
	if r.skip > 0 || skip > 0 && skip == place+1 || formula >= 0 && place >= formula {
		return
	}
	kind := kindOf(name)
	switch {
	case name == "a":
		if r.ownLink {
			r.b.OwnLink(r.linked)
		}
		if r.pageLink {
			r.b.PageLink(r.linked)
		}
		r.permalink, r.ownLink, r.pageLink = false, false, false
	case kind == heading:
		r.endHeading(next)
		return
	case name == "title":
		r.inTitle = false
	case name == "pre" && r.pre > 0:
		r.pre--
	case name == "table":
		r.cells = 0
	case name == "caption":
		r.b.EndCaption()
	case name == "dt" && r.term == terms && r.b.Open: // its definition may follow
		return
	}
	if name == "tr" || name == "table" {
		r.b.EndCells(at)
	}
	if doc.OneOf(name, rowGroups) {
		r.b.EndCells(at)
		r.b.EndCovered()
	}
	r.boundary(kind, at)
	if name == "tr" || name == "table" {
		r.endRow()
	}
	if name == "table" {
		r.b.EndTable()
	}
}

// endRow ends a row. It names the columns if all of its cells do.
func (r *htmlReader) endRow() {
	r.b.EndRow(r.headRow && !r.bodyRow)
	r.headRow, r.bodyRow = false, false
}

// boundary separates the text before and behind a tag at source at.
func (r *htmlReader) boundary(kind element, at int) {
	switch {
	case kind != line && kind != para:
	case r.level > 0: // blocks inside a heading only separate words
		r.headText(" ")
	case kind == line:
		r.b.EndBlock("\n")
		r.b.Marker, r.b.Borders = "", 0
		r.cells = 0
	case r.cells > 0: // a paragraph in a cell
		r.cellBreak = r.cellText
		r.b.Gap(" ", at)
	default:
		r.b.EndBlock("\n\n")
	}
}

func (r *htmlReader) lineBreak(at int) {
	switch {
	case r.level > 0:
		r.headText(" ")
	case r.term == terms:
		r.b.Gap(", ", at)
	case r.pre > 0:
		r.b.Begin(at, true)
		r.b.W.Atom("\n", at, 0)
	default:
		r.b.Gap("\n", at)
	}
}

// headText adds to the open heading, which does not begin with white space, so that it is known at once whether it has
// text, however many elements have begun in it.
func (r *htmlReader) headText(s string) {
	if r.head.Len() == 0 {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	}
	r.head.WriteString(s)
}

func (r *htmlReader) endHeading(to int) {
	if r.level > 0 {
		r.b.Heading(r.level, r.head.String(), r.anchor, r.from, to)
		r.level, r.cells = 0, 0
	}
}

// text handles a text token; raw is the source from at.
func (r *htmlReader) text(raw string, at int) {
	if r.skip > 0 {
		return
	}
	if r.afterPre {
		r.afterPre = false
		if cut := strings.TrimPrefix(strings.TrimPrefix(raw, "\r"), "\n"); r.pre > 0 {
			raw, at = cut, at+len(raw)-len(cut)
		}
	}
	verbatim, unescape := false, html.UnescapeString
	if r.xml {
		if inner, ok := strings.CutPrefix(raw, "<![CDATA["); ok {
			raw, at = strings.TrimSuffix(inner, "]]>"), at+len(raw)-len(inner)
			verbatim, unescape = true, func(s string) string { return s }
		}
	}
	switch {
	case r.permalink && IsPermalink(unescape(raw[:min(len(raw), MaxPermalink)]), r.open.place("sup") >= 0):
		return
	case r.formula.place >= 0:
		r.formula.token(unescape(raw[:min(len(raw), maxFormula)]))
		return
	case r.inTitle && utf8.RuneCountInString(raw) <= doc.MaxHeading:
		r.title = strings.Join(strings.Fields(r.title+" "+unescape(raw)), " ")
		return
	case r.level > 0:
		r.headText(unescape(raw))
		return
	}
	for raw != "" {
		plain, n := raw, len(raw)
		if i := strings.IndexByte(raw, '&'); i >= 0 && !verbatim {
			plain = raw[:i]
		}
		r.plain(plain, at)
		raw, at, n = raw[len(plain):], at+len(plain), n-len(plain)
		if n > 0 {
			n = r.entity(raw, at)
			raw, at = raw[n:], at+n
		}
	}
}

func (r *htmlReader) plain(s string, at int) {
	r.inCell(s)
	if r.pre > 0 {
		r.b.Verbatim(s, at)
	} else {
		r.b.Collapsed(s, at)
	}
}

// entity handles raw, which begins with '&', and returns the length of what it consumed.
func (r *htmlReader) entity(raw string, at int) int {
	s, n := Entity(raw, r.xml)
	if n == 0 {
		r.plain("&", at)
		return 1
	}
	r.inCell(s)
	switch {
	case r.pre > 0:
		r.b.Begin(at, true)
		r.b.W.Atom(s, at, n)
	case strings.TrimSpace(s) == "":
		r.b.Gap(" ", at)
	default:
		r.b.Atom(s, at, n)
	}
	return n
}

// inCell begins a line if s is the first text of a further paragraph of a table cell.
func (r *htmlReader) inCell(s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	if r.term == definition {
		r.term = noTerm
	}
	if r.formulaRead = false; r.cells > 0 {
		if r.cellBreak {
			r.b.EndBlock("\n")
		}
		r.cellText, r.cellBreak = true, false
	}
}
