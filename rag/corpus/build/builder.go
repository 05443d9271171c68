// Package build collects a document from the events of a reader: headings, paragraphs, tables, links.
package build

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// OpenHeading is a heading whose section is still open: no heading of its level or above has followed.
type OpenHeading struct {
	Level int
	Text  string
}

// Builder collects a document's text, blocks and sections from the events of a format's reader.
// Separators and markers are held back until text follows, so that empty elements leave no trace.
type Builder struct {
	W         doc.Writer
	Blocks    []doc.Block
	Sections  []doc.Section
	tables    []doc.Table
	within    []OpenTable // outermost first
	more      bool        // blocks continue the row before: the format marks where rows begin
	Path      []OpenHeading
	from, to  int                  // source range of the last heading
	Open      bool                 // a block is open
	Headed    bool                 // the last section was begun by a heading, whose text is not in a block
	Sep       string               // to be inserted before the next block
	Marker    string               // to be inserted before the next text: a list bullet
	Marked    func(source int) int // the length of such a bullet directly before a source position; nil: always 0
	Borders   int                  // number of table cell borders to be inserted before the next text
	loose     grid                 // of cells outside of tables
	repeated  int                  // bytes of the text that repeat a part of the source
	space     string               // white space inside a block, held back because it may be trailing
	spaceAt   int                  // where space began in the source
	Pulse     *doc.Pulse
	Said      map[string]string // metadata of the source, by key; nil: not collected
	ownLinks  []doc.Span        // of the text, that link to a place of the same document
	pageLinks []doc.Span        // of the text, that link to the page before, the next one or those above
}

// The memory that a block and a section take, besides their texts.
const (
	BlockBytes   = 32
	sectionBytes = 128
)

// EndBlock closes the block, if one is open. sep is the shortest separator from the next one.
func (b *Builder) EndBlock(sep string) {
	if b.Open {
		last := &b.Blocks[len(b.Blocks)-1]
		if last.End = b.W.Text.Len(); last.End == last.Start {
			b.Blocks = b.Blocks[:len(b.Blocks)-1]
		}
		b.Open = false
	}
	b.space = ""
	if len(sep) > len(b.Sep) {
		b.Sep = sep
	}
}

// Begin opens a block unless one is open, and writes what was held back for text at source.
func (b *Builder) Begin(source int, code bool) {
	marked, first := 0, ""
	if b.Marker != "" && b.Marked != nil {
		marked = b.Marked(source)
	}
	if !b.Open {
		if b.W.Text.Len() > 0 {
			b.W.Atom(b.Sep, source-marked, 0)
		}
		b.Open, b.Sep, b.space = true, "", ""
		b.W.Take(BlockBytes)
		at := doc.Span{Start: b.W.Text.Len()}
		b.Blocks = append(b.Blocks, doc.Block{Span: at, Code: code, More: b.more && len(b.within) > 0})
		b.more = len(b.within) > 0 && b.within[len(b.within)-1].Rows
		if b.Borders > 0 && !b.Blocks[len(b.Blocks)-1].More {
			first = doc.EmptyFirst
		}
	}
	if b.space != "" && b.Marker == "" && b.Borders == 0 {
		b.W.Atom(b.space, b.spaceAt, source-b.spaceAt)
	}
	b.W.Take(len(doc.CellBorder) * b.Borders)
	b.W.Atom(b.Marker+first+strings.Repeat(doc.CellBorder, b.Borders), source-marked, marked)
	b.space, b.Marker, b.Borders = "", "", 0
}

// Copy adds a text without white space that stands at source in the source as it is.
func (b *Builder) Copy(s string, source int) {
	if s != "" {
		b.Begin(source, false)
		b.W.Copy(s, source)
	}
}

// Atom adds a text that stands for n bytes of the source.
func (b *Builder) Atom(s string, source, n int) {
	if s != "" {
		b.Begin(source, false)
		b.W.Atom(s, source, n)
	}
}

// Gap adds white space, " " or "\n", or what stands for it, unless the block begins or ends with it.
func (b *Builder) Gap(s string, source int) {
	if b.Open && (b.space != "\n" && len(b.space) < 2 || len(s) > 1) {
		if b.space == "" {
			b.spaceAt = source
		}
		b.space = s
	}
}

// Last returns what the open block has so far.
func (b *Builder) Last() string { return b.W.Text.String()[b.Blocks[len(b.Blocks)-1].Start:] }

// MostTerms is how many bytes the terms of one definition have at most.
const MostTerms = 256

// Colon ends the terms in the open block, whose definition follows, unless they have an end, are too long or are the
// number or mark of an item.
func (b *Builder) Colon(source int) {
	if !b.Open {
		return
	}
	terms := b.Last()
	last := terms[len(terms)-1]
	isMark := !doc.HasWord(terms) || last == ')' && !strings.ContainsFunc(terms, unicode.IsLetter)
	if len(terms) <= MostTerms && !isMark && strings.IndexByte(":.?!", last) < 0 {
		b.W.Atom(":", source, 0)
	}
	b.space, b.spaceAt = " ", source
}

// Verbatim adds a text whose white space is kept.
func (b *Builder) Verbatim(s string, source int) {
	if s != "" {
		b.Begin(source, true)
		b.W.Copy(s, source)
	}
}

// Collapsed adds a text that stands at source in the source, with each run of white space as one.
func (b *Builder) Collapsed(s string, source int) {
	for s != "" {
		n := 0
		for n < len(s) && doc.IsSpace(s[n]) {
			n++
		}
		if n > 0 {
			b.Gap(" ", source)
			s, source = s[n:], source+n
		}
		n = 0
		for n < len(s) && !doc.IsSpace(s[n]) {
			n++
		}
		b.Copy(s[:n], source)
		s, source = s[n:], source+n
		b.Pulse.Beat()
	}
}

// Heading closes the section and opens the one of a heading whose text stands at source [from, to).
func (b *Builder) Heading(level int, text, anchor string, from, to int) {
	b.EndBlock("\n\n")
	b.Marker, b.Borders, b.grid().column = "", 0, 0
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return
	}
	b.layout()
	b.endSection(level)
	for len(b.Path) > 0 && b.Path[len(b.Path)-1].Level >= level {
		b.Path = b.Path[:len(b.Path)-1]
	}
	b.from, b.to = from, to
	whole := text
	if utf8.RuneCountInString(text) > doc.MaxHeading {
		text = doc.CutRunes(text, doc.MaxHeading/2) + "…"
	}
	b.Path = append(b.Path, OpenHeading{level, text})
	b.beginSection(anchor, from)
	b.Headed = true
	if text != whole {
		b.Atom(whole, from, to-from)
		b.EndBlock("\n\n")
	}
}

// Leave ends the open headings that the title of the document has, too, such as the name of a site above all its pages.
// What follows, from source on, stands below the others.
func (b *Builder) Leave(title string, from int) {
	rest := slices.DeleteFunc(slices.Clone(b.Path), func(h OpenHeading) bool { return strings.Contains(title, h.Text) })
	if len(rest) == len(b.Path) {
		return
	}
	b.endSection(math.MaxInt) // no heading becomes text: the title has it
	b.Path, b.Headed = rest, false
	b.beginSection("", from)
}

func (b *Builder) beginSection(anchor string, source int) {
	headings := make([]string, len(b.Path))
	for i, h := range b.Path {
		headings[i] = h.Text
	}
	n := b.W.Text.Len()
	b.W.Take(sectionBytes + 16*len(headings) + len(anchor))
	b.Sections = append(b.Sections, doc.Section{Heading: headings, Anchor: anchor, Start: n, End: n, Source: source})
}

// endSection ends the current section before a heading of the given level. A heading without text
// below it, neither its own nor a deeper heading's, becomes the section's text.
func (b *Builder) endSection(next int) {
	b.EndBlock("\n\n")
	if len(b.Sections) == 0 {
		if b.W.Text.Len() > 0 {
			b.Sections = append(b.Sections, doc.Section{End: b.W.Text.Len()})
		}
		return
	}
	s := &b.Sections[len(b.Sections)-1]
	if b.Headed && b.W.Text.Len() == s.Start && next <= b.Path[len(b.Path)-1].Level {
		b.Atom(b.Path[len(b.Path)-1].Text, b.from, b.to-b.from)
		b.EndBlock("\n\n")
	}
	s.End = b.W.Text.Len()
	for s.Start < s.End && doc.IsSpace(b.W.Text.String()[s.Start]) { // the separator in front
		s.Start++
	}
}

// Finish fills the text fields of d. in maps the reader's text to the source bytes.
func (b *Builder) Finish(d *doc.Document, in doc.Map) {
	for len(b.within) > 0 {
		b.EndTable()
	}
	if len(b.Sections) > 0 {
		b.endSection(0)
	}
	b.EndBlock("")
	text, m := b.W.Done()
	if b.W.IsSource {
		b.finishConverted(d, text)
		return
	}
	if len(text) > 0 && m == nil {
		m = doc.Map{{Text: 0, Source: 0, PerText: 1, PerSource: 1}}
	}
	d.Text, d.Sections, d.Blocks, d.Tables = text, b.Sections, b.Blocks, b.tables
	d.Offsets = doc.Compose(m, in, len(text))
	for i := range d.Sections {
		d.Sections[i].Source = in.Start(d.Sections[i].Source)
	}
	d.Edit(d.Removed(b.linkBlocks(d)))
	d.Normalise(b.Pulse)
}

// finishConverted is like finish, for a text that is its own source.
func (b *Builder) finishConverted(d *doc.Document, text string) {
	d.Text, d.Sections, d.Blocks, d.Tables = text, b.Sections, b.Blocks, b.tables
	d.Edit(d.Removed(b.linkBlocks(d)))
	d.Normalise(b.Pulse)
	d.Offsets = nil
	for i := range d.Sections {
		d.Sections[i].Source = d.Sections[i].Start
	}
}

// Lines adds a text whose line breaks are kept.
func Lines(b *Builder, text string) {
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.Gap("\n", 0)
		}
		b.Collapsed(line, 0)
	}
}

// Page begins a section below the headings that are open.
func (b *Builder) Page(anchor string) {
	b.EndBlock("\n\n")
	if len(b.Sections) > 0 || b.W.Text.Len() > 0 {
		b.endSection(math.MaxInt)
	}
	b.beginSection(anchor, 0)
	b.Headed = false
}
