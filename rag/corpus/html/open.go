package html

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// openElements are the open HTML elements, outermost first. It finds the innermost one of a name without a search, so
// that nesting takes linear time.
type openElements struct {
	names []string
	last  map[string][]int // indices in names, by name; "": those that end tags of inline elements do not cross
}

// push opens an element.
func (o *openElements) push(name string) {
	if o.last == nil {
		o.last = map[string][]int{}
	}
	o.last[name] = append(o.last[name], len(o.names))
	if isSpecial(name) {
		o.last[""] = append(o.last[""], len(o.names))
	}
	o.names = append(o.names, name)
}

// pop closes the innermost element.
func (o *openElements) pop() (name string) {
	n := len(o.names) - 1
	name = o.names[n]
	o.names = o.names[:n]
	o.last[name] = o.last[name][:len(o.last[name])-1]
	if isSpecial(name) {
		o.last[""] = o.last[""][:len(o.last[""])-1]
	}
	return name
}

// place returns the index of the innermost open element with one of the names, else -1.
func (o *openElements) place(names ...string) int {
	at := -1
	for _, name := range names {
		if places := o.last[name]; len(places) > 0 {
			at = max(at, places[len(places)-1])
		}
	}
	return at
}

// ended returns the index of the element that an end tag ends, or -1 (HTML, 13.2.6.4.7).
func (o *openElements) ended(name string, xml bool) int {
	at, within := o.place(name), -1
	switch {
	case xml:
	case name == "body" || name == "html": // what follows still belongs to them
		return -1
	case name == "table":
	case kindOf(name) == cell || slices.Contains(tableParts[:], name):
		within = o.place("table")
	case isSpecial(name):
		within = o.place(scopes[:]...)
	default:
		within = o.place("")
	}
	if at < within {
		return -1
	}
	return at
}

var (
	tableParts = [...]string{"caption", "colgroup", "tbody", "thead", "tfoot", "tr"}
	// scopes are the elements within which an end tag does not end an element opened outside of them.
	scopes = [...]string{"td", "th", "caption", "table", "object", "template", "button", "marquee", "applet",
		"foreignobject"}
	// foreign are the elements in which names have the meaning of SVG or MathML, and natives the elements within those
	// that contain HTML.
	foreign = [...]string{"svg", "math"}
	natives = [...]string{"foreignobject", "desc", "title", "annotation-xml", "mtext"}
)

// implied returns the index of the element that a start tag ends because its end tag may be omitted, or -1.
func (o *openElements) implied(name string) int {
	var ends, within []string
	switch name {
	case "li":
		ends, within = []string{"li"}, []string{"ul", "ol", "menu", "dir"}
	case "dt", "dd":
		ends, within = []string{"dt", "dd"}, []string{"dl"}
	case "rt", "rp", "rb", "rtc":
		ends, within = []string{"rt", "rp", "rb", "rtc"}, []string{"ruby"}
	case "option", "optgroup":
		ends, within = []string{"option"}, []string{"select"}
	case "td", "th":
		ends, within = []string{"td", "th"}, []string{"table", "tr"}
	case "tr":
		ends, within = []string{"tr", "caption"}, []string{"table"}
	case "tbody", "thead", "tfoot":
		ends, within = []string{"tbody", "thead", "tfoot", "caption"}, []string{"table"}
	default:
		if !isSpecial(name) || kindOf(name) == dropped || name == "title" { // it may be an SVG element
			return -1
		}
		if at := o.place(foreign[:]...); at > o.place(natives[:]...) { // they contain no HTML
			return at
		}
		ends, within = []string{"p"}, scopes[:]
	}
	if at := o.place(ends...); at > o.place(within...) {
		return at
	}
	return -1
}

// isSpecial reports whether an element is not crossed by the end tags of inline elements.
func isSpecial(name string) bool {
	switch name {
	case "svg", "rt", "rp", "rtc", "option":
		return false
	case "button", "marquee", "applet", "foreignobject":
		return true
	}
	return kindOf(name) != inline
}

// voidElements have no content and no end tag.
const voidElements = " area base basefont bgsound br col embed frame hr img input keygen link meta param source " +
	"track wbr "

// isHidden reports whether an element is hidden by its own attributes. Where a page hides its whole body, its scripts
// show it, so the body is read.
func (r *htmlReader) isHidden(name string) bool {
	value, hidden := r.attrs["hidden"]
	_, isOpen := r.attrs["open"]
	_, popover := r.attrs["popover"]
	switch {
	case name == "html" || name == "body":
		return false
	case hidden && value != "until-found", popover, name == "dialog" && !isOpen, r.isWikiMark(name):
		return true
	case r.attrs["aria-hidden"] == "true":
		// KaTeX's visual form of a formula is read only if its MathML was not
		return r.formulaRead || !strings.Contains(r.attrs["class"], "katex-html")
	}
	for declaration := range strings.SplitSeq(strings.ToLower(r.attrs["style"]), ";") {
		property, value, _ := strings.Cut(declaration, ":")
		value, _, _ = strings.Cut(value, "!")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(property) {
		case "display":
			hidden = value == "none"
		case "visibility", "content-visibility":
			hidden = value == "hidden" || value == "collapse"
		case "opacity", "font-size":
			x, err := strconv.ParseFloat(strings.TrimRight(value, "%empxtrc"), 64)
			hidden = err == nil && x == 0
		case "mso-hide":
			hidden = value == "all"
		default:
			continue
		}
		if hidden {
			return true
		}
	}
	return false
}

// isNavigation reports whether an element leads to other pages or to a search: by its role, or as DocBook's stylesheets
// name it.
func (r *htmlReader) isNavigation() bool {
	role, class := r.attrs["role"], r.attrs["class"]
	return role == "navigation" || role == "search" || class == "navheader" || class == "navfooter"
}

// MaxPermalink is more than the length in bytes of a mark that links to its own place.
const MaxPermalink = 16

// IsPermalink reports whether the text of a link is the mark that Sphinx, rustdoc, MkDocs and others put behind
// headings and terms, so that readers can link to them, or leads to a note or back from it, such as a raised number.
func IsPermalink(text string, raised bool) bool {
	switch text = strings.TrimSpace(text); text {
	case "¶", "§", "#", "🔗", "↩", "↩︎", "↑", "*", "†", "‡":
		return true
	}
	bare := strings.Trim(text, "[]()")
	isNote := raised || strings.HasPrefix(text, "(") && bare != text
	return isNote && bare != "" && strings.Trim(bare, "0123456789") == ""
}

// isWikiMark reports whether an element is what MediaWiki adds to a text: the number of a source, "citation needed", or
// the link "edit" of a heading.
func (r *htmlReader) isWikiMark(name string) bool {
	class := r.attrs["class"]
	return name == "sup" && (strings.Contains(class, "reference") || strings.Contains(class, "Inline-Template")) ||
		name == "span" && strings.Contains(class, "mw-editsection")
}

// property records the metadata in a <meta>, or the language of <html>.
func (r *htmlReader) property(element string) {
	name := ""
	for _, key := range []string{"itemprop", "property", "name"} {
		name = cmp.Or(name, strings.ToLower(r.attrs[key]))
	}
	content := r.attrs["content"]
	key := map[string]string{"author": doc.AuthorKey, "dc.creator": doc.AuthorKey, "article:author": doc.AuthorKey,
		"article:published_time": doc.CreatedKey, "date": doc.CreatedKey, "dc.date": doc.CreatedKey,
		"datepublished": doc.CreatedKey, "article:modified_time": doc.ModifiedKey,
		"last-modified": doc.ModifiedKey, "datemodified": doc.ModifiedKey}[name]
	if element == "html" {
		key, content = doc.LanguageKey, cmp.Or(r.attrs["lang"], r.attrs["xml:lang"])
	}
	if key != "" && r.b.Said[key] == "" {
		r.b.Said[key] = content
	}
}

// htmlList is an open list.
type htmlList struct {
	place  int    // index of its element
	format string // of the numbers of its items; "": without numbers
	next   int
	step   int
}

// beginList begins a list, whose element has been pushed.
func (r *htmlReader) beginList(name string) {
	l := htmlList{place: len(r.open.names) - 1, next: 1, step: 1}
	if name == "ol" {
		l.format = listFormat(r.attrs)
		start, err := strconv.Atoi(strings.TrimSpace(r.attrs["start"]))
		if err == nil {
			l.next = start
		}
		if _, reversed := r.attrs["reversed"]; reversed {
			if l.step = -1; err != nil { // it begins with the number of its items
				l.format = ""
			}
		}
	}
	r.lists = append(r.lists, l)
}

// listFormat returns the number format of a list, as build.Numeral takes it.
func listFormat(attrs map[string]string) string {
	format := map[string]string{"a": "lower-alpha", "A": "upper-alpha", "i": "lowerRoman", "I": "upperRoman",
		"": "decimal", "1": "decimal"}[strings.TrimSpace(attrs["type"])]
	_, style, _ := strings.Cut(strings.ToLower(attrs["style"]), "list-style")
	style, _, _ = strings.Cut(style, ";")
	for _, x := range [...][2]string{{"lower-alpha", "lower-alpha"}, {"lower-latin", "lower-alpha"},
		{"upper-alpha", "upper-alpha"}, {"upper-latin", "upper-alpha"}, {"lower-roman", "lowerRoman"},
		{"upper-roman", "upperRoman"}, {"decimal-leading-zero", "decimalZero"}, {"decimal", "decimal"}, {"none", ""},
		{"disc", ""}, {"circle", ""}, {"square", ""}} {
		if strings.Contains(style, x[0]) {
			return x[1]
		}
	}
	return format
}

// bullet returns the marker of the item that begins.
func (r *htmlReader) bullet() string {
	if len(r.lists) == 0 || r.lists[len(r.lists)-1].format == "" {
		return "- "
	}
	l := &r.lists[len(r.lists)-1]
	if n, err := strconv.Atoi(strings.TrimSpace(r.attrs["value"])); err == nil {
		l.next = n
	}
	n := l.next
	l.next += l.step
	return build.Numeral(l.format, n) + ". "
}

// term is the place in a list of terms and their definitions, which become one block: "term, other term: definition".
type term uint8

const (
	noTerm     term = iota
	terms           // a term has begun, and its definition may follow
	definition      // has begun, without text so far
)

// inTerm reports whether the start of an element goes on with the block of a term.
func (r *htmlReader) inTerm(name string, at int) bool {
	was := r.term
	switch {
	case name == "dt":
		r.term = terms
	case was == terms && name == "dd":
		r.term = definition
	case was == definition && (name == "p" || name == "div"):
		return true
	case kindOf(name) != inline:
		r.term = noTerm
	}
	if was != terms || r.term == noTerm || kindOf(name) == inline || !r.b.Open {
		return false
	}
	if name == "dt" {
		if len(r.b.Last()) > build.MostTerms { // an index
			return false
		}
		r.b.Gap(", ", at)
	} else {
		r.b.Colon(at)
	}
	return true
}

// spans returns the numbers of columns and of rows that a cell covers. 0 rows are all that remain of its part of the
// table.
func (r *htmlReader) spans() (columns, rows int) {
	number := func(key string) int {
		n, err := strconv.Atoi(strings.TrimSpace(r.attrs[key]))
		if err != nil || n < 0 {
			return 1
		}
		return n
	}
	columns, rows = number("colspan"), number("rowspan")
	rows = cmp.Or(rows, MaxRows)
	return columns, min(rows, MaxRows)
}

// rowGroups are the parts of a table whose end cells do not cross.
const rowGroups = " thead tbody tfoot "

// MaxRows is the limit of HTML's rowspan.
const MaxRows = 65534

// commentTitle reads the front matter of Go's own documents: a leading comment that is a JSON object.
func commentTitle(comment string) string {
	var front struct{ Title string }
	if json.Unmarshal([]byte(comment), &front) != nil {
		return ""
	}
	return front.Title
}

// Entity decodes the character reference that s begins with; n is its length, 0 if s begins with none. The longest name
// has 33 bytes. Outside of HTML a name must be whole and end with a semicolon.
func Entity(s string, whole bool) (text string, n int) {
	for n = 1; n < len(s) && n < 40 && (doc.IsAlnum(s[n]) || n == 1 && s[n] == '#'); n++ {
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	text = html.UnescapeString(s[:n])
	// a name stands for at most two characters: a longer text means that only a prefix was a name
	if text == s[:n] || whole && (s[n-1] != ';' || utf8.RuneCountInString(text) > 2) {
		return "", 0
	}
	return text, n
}

// IsXML reports whether src is well-formed enough to be tokenised as XML; other XHTML is read as HTML. Unclosed
// elements and undeclared entities are allowed.
func IsXML(src string, p *doc.Pulse) bool {
	if prolog, rest, ok := strings.Cut(src, "?>"); ok && strings.HasPrefix(prolog, "<?xml ") {
		src = rest // its encoding has been decoded already
	}
	d := xml.NewDecoder(p.Reader(strings.NewReader(src)))
	d.Strict = false
	for {
		if _, err := d.RawToken(); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}
