package corpus

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// element is what an HTML element does to the text around it.
type element uint8

const (
	inline  element = iota
	dropped         // its content is not read
	line            // parts lines
	para            // parts paragraphs
	heading
	cell
)

func kindOf(name string) element {
	switch name {
	case "script", "style", "nav", "template", "svg", "iframe", "noembed", "noframes", "noscript",
		"rt", "rp": // readings beside the characters
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

// htmlReader turns HTML tokens into builder events. It works on tokens, not on a tree: no nesting,
// however deep or broken, costs it stack or more than linear time.
type htmlReader struct {
	b         *builder
	z         *html.Tokenizer
	keep      []string // elements that are not dropped
	title     string
	inTitle   bool
	pre       int    // open <pre> elements
	afterPre  bool   // the newline right behind <pre> is markup
	skip      string // the dropped element that is open
	skips     int    // how many of that name are
	cells     int    // of the current row so far
	cellText  bool   // the cell has text
	cellBreak bool   // the next text of the cell begins a line
	headRow   bool   // the row has a cell that names its column
	bodyRow   bool   // the row has another cell
	level     int    // of the open heading, 0 = none
	head      strings.Builder
	anchor    string
	from      int // source of the open heading
}

// readHTML feeds b from src, whose first byte has offset base, and returns the title, or "". Elements
// named in keep are read although they are of a kind that is dropped. A dropped element that is
// never closed has swallowed the rest of the source: it is returned as open.
func readHTML(b *builder, src string, base int, keep ...string) (title, open string) {
	r := htmlReader{b: b, keep: keep}
	tokenize := func(at int) { r.z = html.NewTokenizer(beating{strings.NewReader(src[at-base:]), b.pulse}) }
	tokenize(base)
	raw := false // the next token is the content of an element that has no tags in it
	for at := base; ; {
		if n := textUntilTag(src[at-base:]); n > longText && !raw {
			if r.skip == "" {
				r.text(src[at-base:at-base+n], at)
			}
			at += n
			tokenize(at)
		}
		kind := r.z.Next()
		n := len(r.z.Raw())
		raw = false
		switch kind {
		case html.ErrorToken:
			r.endHeading(at)
			return r.title, r.skip
		case html.TextToken:
			if r.skip == "" {
				r.text(src[at-base:at-base+n], at)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attrs := r.z.TagName()
			raw = isRaw(string(name))
			r.start(string(name), at, attrs, kind == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := r.z.TagName()
			r.end(string(name), at, at+n)
		case html.CommentToken:
			if at == 0 {
				r.title = commentTitle(string(r.z.Text()))
			}
		}
		at += n
	}
}

// longText is how many bytes of text without a tag go past the tokenizer, which would keep up to three copies of them.
const longText = 1 << 20

// textUntilTag is how many bytes of src are text for certain.
func textUntilTag(src string) int {
	if n := strings.IndexByte(src, '<'); n >= 0 {
		return n
	}
	return len(src)
}

// isRaw tells whether the tokenizer takes what follows a tag, up to its end tag, as text whatever it is.
func isRaw(name string) bool {
	switch name {
	case "iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "title", "xmp":
		return true
	}
	return false
}

// parseHTML reads a whole HTML text into d. An element whose content is markup, not code, is not
// dropped where its end is missing.
func parseHTML(d *Document, in decoded, p *pulse) {
	var keep []string
	for {
		b := builder{pulse: p, said: map[string]string{}}
		b.w.text.Grow(len(in.text))
		title, open := readHTML(&b, in.text, 0, keep...)
		if open == "nav" || open == "template" || open == "svg" || open == "rt" || open == "rp" {
			keep = append(keep, open)
			continue
		}
		d.Title = title
		for key, value := range b.said {
			d.property(key, value)
		}
		b.finish(d, in.m)
		return
	}
}

// commentTitle reads the front matter of Go's own documents: a leading comment that is a JSON object.
func commentTitle(comment string) string {
	var front struct{ Title string }
	if json.Unmarshal([]byte(comment), &front) != nil {
		return ""
	}
	return front.Title
}

func (r *htmlReader) start(name string, at int, attrs, selfClosing bool) {
	if r.skip != "" {
		if name == r.skip && !selfClosing {
			r.skips++
		}
		return
	}
	kind := kindOf(name)
	if r.level > 0 && (kind == heading || kind > inline && strings.TrimSpace(r.head.String()) != "") {
		r.endHeading(at) // it was not closed
	}
	switch {
	case kind == dropped && slices.Contains(r.keep, name):
		r.boundary(para, at)
	case kind == dropped:
		if !selfClosing || name != "svg" { // HTML ignores the slash of its own elements
			r.skip, r.skips = name, 1
		}
	case kind == heading:
		r.level, r.from, r.anchor = int(name[1]-'0'), at, r.attribute(attrs, "id")
		r.head.Reset()
	case kind == cell:
		if r.cells++; r.cells > 1 {
			r.b.borders++
		}
		if name == "th" {
			r.headRow = true
		} else {
			r.bodyRow = true
		}
		r.cellText, r.cellBreak = false, false
	case name == "a" && r.level > 0 && r.anchor == "":
		r.anchor = r.attribute(attrs, "id", "name")
	case name == "br":
		r.lineBreak(at)
	case (name == "meta" || name == "html") && r.b.said != nil:
		r.property(name, attrs)
		r.boundary(kind, at)
	default:
		r.boundary(kind, at)
		switch name {
		case "table":
			r.b.beginTable(openTable{rows: true})
		case "tr":
			r.endRow()
			r.b.row()
		case "li":
			r.b.marker = "- "
		case "pre":
			r.pre++
			r.afterPre = true
		case "title":
			r.inTitle = r.title == ""
		}
	}
}

// property keeps what a <meta> says of the document, or the language of <html>.
func (r *htmlReader) property(element string, more bool) {
	var name, content, lang string
	for more {
		var key, value []byte
		key, value, more = r.z.TagAttr()
		switch string(key) {
		case "name", "property", "itemprop":
			name = strings.ToLower(string(value))
		case "content":
			content = string(value)
		case "lang", "xml:lang":
			lang = string(value)
		}
	}
	key := map[string]string{"author": authorKey, "dc.creator": authorKey, "article:author": authorKey,
		"article:published_time": createdKey, "date": createdKey, "dc.date": createdKey, "datepublished": createdKey,
		"article:modified_time": modifiedKey, "last-modified": modifiedKey, "datemodified": modifiedKey}[name]
	if element == "html" {
		key, content = languageKey, lang
	}
	if key != "" && r.b.said[key] == "" {
		r.b.said[key] = content
	}
}

func (r *htmlReader) end(name string, at, next int) {
	if r.skip != "" {
		if name == r.skip {
			if r.skips--; r.skips == 0 {
				r.skip = ""
			}
		}
		return
	}
	kind := kindOf(name)
	switch {
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
		r.b.endCaption()
	}
	r.boundary(kind, at)
	if name == "tr" || name == "table" {
		r.endRow()
	}
	if name == "table" {
		r.b.endTable()
	}
}

// endRow ends a row. It names the columns if all its cells do.
func (r *htmlReader) endRow() {
	r.b.endRow(r.headRow && !r.bodyRow)
	r.headRow, r.bodyRow = false, false
}

// boundary parts the text before and behind a tag at source at.
func (r *htmlReader) boundary(kind element, at int) {
	switch {
	case kind != line && kind != para:
	case r.level > 0: // blocks inside a heading part nothing but words
		r.head.WriteByte(' ')
	case kind == line:
		r.b.endBlock("\n")
		r.b.marker, r.b.borders = "", 0
		r.cells = 0
	case r.cells > 0: // a paragraph in a cell
		r.cellBreak = r.cellText
		r.b.gap(" ", at)
	default:
		r.b.endBlock("\n\n")
	}
}

func (r *htmlReader) lineBreak(at int) {
	switch {
	case r.level > 0:
		r.head.WriteByte(' ')
	case r.pre > 0:
		r.b.begin(at, true)
		r.b.w.atom("\n", at, 0)
	default:
		r.b.gap("\n", at)
	}
}

func (r *htmlReader) endHeading(to int) {
	if r.level > 0 {
		r.b.heading(r.level, r.head.String(), r.anchor, r.from, to)
		r.level, r.cells = 0, 0
	}
}

// text handles a text token; raw is the source from at on.
func (r *htmlReader) text(raw string, at int) {
	if r.afterPre {
		r.afterPre = false
		if cut := strings.TrimPrefix(strings.TrimPrefix(raw, "\r"), "\n"); r.pre > 0 {
			raw, at = cut, at+len(raw)-len(cut)
		}
	}
	switch {
	case r.inTitle && utf8.RuneCountInString(raw) <= maxHeading:
		r.title = strings.Join(strings.Fields(r.title+" "+html.UnescapeString(raw)), " ")
		return
	case r.level > 0:
		r.head.WriteString(html.UnescapeString(raw))
		return
	}
	for raw != "" {
		plain, n := raw, len(raw)
		if i := strings.IndexByte(raw, '&'); i >= 0 {
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
		r.b.verbatim(s, at)
	} else {
		r.b.collapsed(s, at)
	}
}

// entity handles raw, which begins with '&', and returns the length of what it consumed.
func (r *htmlReader) entity(raw string, at int) int {
	s, n := entity(raw)
	if n == 0 {
		r.plain("&", at)
		return 1
	}
	r.inCell(s)
	switch {
	case r.pre > 0:
		r.b.begin(at, true)
		r.b.w.atom(s, at, n)
	case strings.TrimSpace(s) == "":
		r.b.gap(" ", at)
	default:
		r.b.atom(s, at, n)
	}
	return n
}

// inCell begins a line where s is the first text of a further paragraph of a table cell.
func (r *htmlReader) inCell(s string) {
	if r.cells > 0 && strings.TrimSpace(s) != "" {
		if r.cellBreak {
			r.b.endBlock("\n")
		}
		r.cellText, r.cellBreak = true, false
	}
}

// entity decodes the character reference that s begins with; n is its length, 0 if it is none.
// The longest name has 33 bytes.
func entity(s string) (text string, n int) {
	for n = 1; n < len(s) && n < 40 && (isAlnum(s[n]) || n == 1 && s[n] == '#'); n++ {
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	if text = html.UnescapeString(s[:n]); text == s[:n] {
		return "", 0
	}
	return text, n
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// attribute returns the first of the named attributes of the current tag, in the tag's order.
func (r *htmlReader) attribute(more bool, names ...string) string {
	for more {
		var key, value []byte
		key, value, more = r.z.TagAttr()
		if slices.Contains(names, string(key)) {
			return string(value)
		}
	}
	return ""
}
