package corpus

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeading is the largest length of a heading in runes. A longer one is shortened, and kept whole as a paragraph
// below.
const maxHeading = 200

// block is a byte range of a text that no sentence crosses.
type block struct {
	start, end int
	code       bool  // split into lines, not sentences
	more       bool  // continues the row of the block before
	table      int32 // 1 + the index in Document.tables of the table that it is in; 0 outside of tables
}

// openHeading is a heading whose section is still open: no heading of its level or above has followed.
type openHeading struct {
	level int
	text  string
}

// builder collects a document's text, blocks and sections from the events of a format's reader.
// Separators and markers are held back until text follows, so that empty elements leave no trace.
type builder struct {
	w         textWriter
	blocks    []block
	sections  []Section
	tables    []tableSpan
	within    []openTable // outermost first
	more      bool        // blocks continue the row before: the format marks where rows begin
	path      []openHeading
	from, to  int                  // source range of the last heading
	open      bool                 // a block is open
	headed    bool                 // the last section was begun by a heading, whose text is not in a block
	sep       string               // to be inserted before the next block
	marker    string               // to be inserted before the next text: a list bullet
	marked    func(source int) int // the length of such a bullet directly before a source position; nil: always 0
	borders   int                  // number of table cell borders to be inserted before the next text
	loose     grid                 // of cells outside of tables
	repeated  int                  // bytes of the text that repeat a part of the source
	space     string               // white space inside a block, held back because it may be trailing
	spaceAt   int                  // where space began in the source
	pulse     *pulse
	said      map[string]string // metadata of the source, by key; nil: not collected
	ownLinks  []span            // of the text, that link to a place of the same document
	pageLinks []span            // of the text, that link to the page before, the next one or those above
}

// The memory that a block and a section take, besides their texts.
const (
	blockBytes   = 32
	sectionBytes = 128
)

// endBlock closes the block, if one is open. sep is the shortest separator from the next one.
func (b *builder) endBlock(sep string) {
	if b.open {
		last := &b.blocks[len(b.blocks)-1]
		if last.end = b.w.text.Len(); last.end == last.start {
			b.blocks = b.blocks[:len(b.blocks)-1]
		}
		b.open = false
	}
	b.space = ""
	if len(sep) > len(b.sep) {
		b.sep = sep
	}
}

// begin opens a block unless one is open, and writes what was held back for text at source.
func (b *builder) begin(source int, code bool) {
	marked, first := 0, ""
	if b.marker != "" && b.marked != nil {
		marked = b.marked(source)
	}
	if !b.open {
		if b.w.text.Len() > 0 {
			b.w.atom(b.sep, source-marked, 0)
		}
		b.open, b.sep, b.space = true, "", ""
		b.w.take(blockBytes)
		b.blocks = append(b.blocks, block{start: b.w.text.Len(), code: code, more: b.more && len(b.within) > 0})
		b.more = len(b.within) > 0 && b.within[len(b.within)-1].rows
		if b.borders > 0 && !b.blocks[len(b.blocks)-1].more {
			first = emptyFirst
		}
	}
	if b.space != "" && b.marker == "" && b.borders == 0 {
		b.w.atom(b.space, b.spaceAt, source-b.spaceAt)
	}
	b.w.take(len(cellBorder) * b.borders)
	b.w.atom(b.marker+first+strings.Repeat(cellBorder, b.borders), source-marked, marked)
	b.space, b.marker, b.borders = "", "", 0
}

// copy adds a text without white space that stands at source in the source as it is.
func (b *builder) copy(s string, source int) {
	if s != "" {
		b.begin(source, false)
		b.w.copy(s, source)
	}
}

// atom adds a text that stands for n bytes of the source.
func (b *builder) atom(s string, source, n int) {
	if s != "" {
		b.begin(source, false)
		b.w.atom(s, source, n)
	}
}

// gap adds white space, " " or "\n", or what stands for it, unless the block begins or ends with it.
func (b *builder) gap(s string, source int) {
	if b.open && (b.space != "\n" && len(b.space) < 2 || len(s) > 1) {
		if b.space == "" {
			b.spaceAt = source
		}
		b.space = s
	}
}

// last returns what the open block has so far.
func (b *builder) last() string { return b.w.text.String()[b.blocks[len(b.blocks)-1].start:] }

// mostTerms is how many bytes the terms of one definition have at most.
const mostTerms = 256

// colon ends the terms in the open block, whose definition follows, unless they have an end, are too long or are the
// number or mark of an item.
func (b *builder) colon(source int) {
	if !b.open {
		return
	}
	terms := b.last()
	last := terms[len(terms)-1]
	isMark := !hasWord(terms) || last == ')' && !strings.ContainsFunc(terms, unicode.IsLetter)
	if len(terms) <= mostTerms && !isMark && strings.IndexByte(":.?!", last) < 0 {
		b.w.atom(":", source, 0)
	}
	b.space, b.spaceAt = " ", source
}

// verbatim adds a text whose white space is kept.
func (b *builder) verbatim(s string, source int) {
	if s != "" {
		b.begin(source, true)
		b.w.copy(s, source)
	}
}

// collapsed adds a text that stands at source in the source, with each run of white space as one.
func (b *builder) collapsed(s string, source int) {
	for s != "" {
		n := 0
		for n < len(s) && isSpace(s[n]) {
			n++
		}
		if n > 0 {
			b.gap(" ", source)
			s, source = s[n:], source+n
		}
		n = 0
		for n < len(s) && !isSpace(s[n]) {
			n++
		}
		b.copy(s[:n], source)
		s, source = s[n:], source+n
		b.pulse.beat()
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// heading closes the section and opens the one of a heading whose text stands at source [from, to).
func (b *builder) heading(level int, text, anchor string, from, to int) {
	b.endBlock("\n\n")
	b.marker, b.borders, b.grid().column = "", 0, 0
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return
	}
	b.layout()
	b.endSection(level)
	for len(b.path) > 0 && b.path[len(b.path)-1].level >= level {
		b.path = b.path[:len(b.path)-1]
	}
	b.from, b.to = from, to
	whole := text
	if utf8.RuneCountInString(text) > maxHeading {
		text = cutRunes(text, maxHeading/2) + "…"
	}
	b.path = append(b.path, openHeading{level, text})
	b.beginSection(anchor, from)
	b.headed = true
	if text != whole {
		b.atom(whole, from, to-from)
		b.endBlock("\n\n")
	}
}

// leave ends the open headings that the title of the document has, too, such as the name of a site above all its pages.
// What follows, from source on, stands below the others.
func (b *builder) leave(title string, from int) {
	rest := slices.DeleteFunc(slices.Clone(b.path), func(h openHeading) bool { return strings.Contains(title, h.text) })
	if len(rest) == len(b.path) {
		return
	}
	b.endSection(math.MaxInt) // no heading becomes text: the title has it
	b.path, b.headed = rest, false
	b.beginSection("", from)
}

// cutRunes returns the first n runes of s.
func cutRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

func (b *builder) beginSection(anchor string, source int) {
	headings := make([]string, len(b.path))
	for i, h := range b.path {
		headings[i] = h.text
	}
	n := b.w.text.Len()
	b.w.take(sectionBytes + 16*len(headings) + len(anchor))
	b.sections = append(b.sections, Section{Heading: headings, Anchor: anchor, Start: n, End: n, source: source})
}

// endSection ends the current section before a heading of the given level. A heading without text
// below it, neither its own nor a deeper heading's, becomes the section's text.
func (b *builder) endSection(next int) {
	b.endBlock("\n\n")
	if len(b.sections) == 0 {
		if b.w.text.Len() > 0 {
			b.sections = append(b.sections, Section{End: b.w.text.Len()})
		}
		return
	}
	s := &b.sections[len(b.sections)-1]
	if b.headed && b.w.text.Len() == s.Start && next <= b.path[len(b.path)-1].level {
		b.atom(b.path[len(b.path)-1].text, b.from, b.to-b.from)
		b.endBlock("\n\n")
	}
	s.End = b.w.text.Len()
	for s.Start < s.End && isSpace(b.w.text.String()[s.Start]) { // the separator in front
		s.Start++
	}
}

// finish fills the text fields of d. in maps the reader's text to the source bytes.
func (b *builder) finish(d *Document, in offsetMap) {
	for len(b.within) > 0 {
		b.endTable()
	}
	if len(b.sections) > 0 {
		b.endSection(0)
	}
	b.endBlock("")
	text, m := b.w.done()
	if b.w.isSource {
		b.finishConverted(d, text)
		return
	}
	if len(text) > 0 && m == nil {
		m = offsetMap{{0, 0, 1, 1}}
	}
	d.Text, d.Sections, d.blocks, d.tables = text, b.sections, b.blocks, b.tables
	d.offsets = compose(m, in, len(text))
	for i := range d.Sections {
		d.Sections[i].source = in.start(d.Sections[i].source)
	}
	d.edit(d.removed(b.linkBlocks(d)))
	d.normalise(b.pulse)
}

// finishConverted is like finish, for a text that is its own source.
func (b *builder) finishConverted(d *Document, text string) {
	d.Text, d.Sections, d.blocks, d.tables = text, b.sections, b.blocks, b.tables
	d.edit(d.removed(b.linkBlocks(d)))
	d.normalise(b.pulse)
	d.offsets = nil
	for i := range d.Sections {
		d.Sections[i].source = d.Sections[i].Start
	}
}

// normalise converts the text to NFC and moves every offset along.
func (d *Document) normalise(p *pulse) {
	text, m := nfc(d.Text, p)
	if m == nil {
		return
	}
	for i := range d.Sections {
		d.Sections[i].Start = m.forward(d.Sections[i].Start, len(text))
		d.Sections[i].End = m.forward(d.Sections[i].End, len(text))
	}
	for i := range d.blocks {
		d.blocks[i].start = m.forward(d.blocks[i].start, len(text))
		d.blocks[i].end = m.forward(d.blocks[i].end, len(text))
	}
	for i := range d.tables {
		t := &d.tables[i]
		for _, at := range []*int{&t.start, &t.end, &t.caption.start, &t.caption.end, &t.head.start, &t.head.end} {
			*at = m.forward(*at, len(text))
		}
	}
	d.offsets = compose(m, d.offsets, len(text))
	d.Text = text
}
