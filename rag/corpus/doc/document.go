// Package doc holds a document and what its readers share: byte ranges and offsets of texts, metadata, and the pulse by
// which a context ends the work.
package doc

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Document is one source with its plain text. Section offsets are bytes of Text; Chunk positions are
// bytes of the source file, so that a citation can be opened in an editor. Headings are in Sections,
// not in Text (a heading that has nothing below it is text as well, so that it is not lost).
type Document struct {
	ID       string // stable: from the source's path relative to its root, or the JSON line's id
	Source   string // path as the user gave it, "path:line" for JSON lines
	Path     string // of the file: absolute, links followed; "" without a file
	Folder   string // the given folder, or the folder of the given file; in the form of Path. ID is relative to it
	Given    bool   // the file was given, not a folder
	Line     int    // of the file; 0 when the document is the whole file
	Title    string
	Topic    string
	Text     string // plain text, valid UTF-8, NFC, no NUL
	Sections []Section
	Digest   string    // "sha256:…" of the source bytes that were read
	Cut      bool      // the source has more text than LoadOptions.MaxTextBytes
	Meta     Meta      // further fields of a JSON line or of Markdown front matter
	Repaired int       // invalid byte sequences that became U+FFFD, and NULs that were removed
	Empty    []int     // pages of a PDF file without text, mostly pictures of text
	Cleaned  []Cleaned // what LoadOptions.Clean removed, in the order of the cleaners
	Missing  []error   // parts of a book or an Office document that could not be read
	Offsets  Map       // Text → source bytes; empty: the identity
	Blocks   []Block   // paragraphs, list items, table rows, code; nil: found by blank lines
	Tables   []Table
}

// maxMissing bounds the parts that are said to be missing.
const maxMissing = 1000

// Lacks notes a part that could not be read.
func (d *Document) Lacks(err error) {
	if len(d.Missing) < maxMissing {
		d.Missing = append(d.Missing, err)
	}
}

// Section is a heading and the byte range of Text that belongs to it (its own text, not its children's).
type Section struct {
	Heading    []string // path of headings, outermost first
	Anchor     string   // id attribute or slug, for links; may be ""
	Start, End int
	Source     int // first source byte of the heading
	Line       int // of a source file, from 1: its first line, comments included; 0: not code
}

// Entitle puts the title above the headings of each section, unless they say it or it says one of them: the options of
// a command are options of what its manual is called.
func (d *Document) Entitle() {
	title := strings.Join(strings.Fields(d.Title), " ")
	if title == "" {
		return
	}
	if utf8.RuneCountInString(title) > MaxHeading {
		title = CutRunes(title, MaxHeading/2) + "…"
	}
	words := func(s string) string {
		return " " + strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsNumber(r)
		}), " ") + " "
	}
	of := words(title)
	said := func(heading string) bool {
		h := words(heading)
		return strings.Contains(of, h) || strings.Contains(h, of)
	}
	d.Sections = d.Sectioned()
	for i, s := range d.Sections {
		if !slices.ContainsFunc(s.Heading, said) {
			d.Sections[i].Heading = append([]string{title}, s.Heading...)
		}
	}
}

// Skipped is a file or line that was not read, and why.
type Skipped struct {
	Source string
	Err    error
}

// Sectioned returns the document's sections in order and without overlap; text outside of them is in sections without a
// heading.
func (d *Document) Sectioned() []Section {
	var out []Section
	at := 0
	gap := func(to int) {
		if strings.TrimSpace(d.Text[at:to]) != "" {
			out = append(out, Section{Start: at, End: to, Source: d.Offsets.Start(at)})
		}
	}
	for _, s := range d.Sections {
		s.Start = min(max(s.Start, at), len(d.Text))
		s.End = min(max(s.End, s.Start), len(d.Text))
		gap(s.Start)
		out = append(out, s)
		at = s.End
	}
	gap(len(d.Text))
	return out
}

// BlocksOf yields the blocks of [start, end), which cover it.
func (d *Document) BlocksOf(start, end int) iter.Seq[Block] {
	if d.Blocks == nil {
		return PlainBlocks(d.Text, Span{start, end})
	}
	return func(yield func(Block) bool) {
		for i := d.BlockAt(start); i < len(d.Blocks) && d.Blocks[i].Start < end; i++ {
			b := d.Blocks[i]
			b.Start, b.End = max(b.Start, start), min(b.End, end)
			if !yield(b) {
				return
			}
		}
	}
}

// BlockAt returns the index of the first block that ends behind a byte of the text.
func (d *Document) BlockAt(at int) int {
	i, _ := slices.BinarySearchFunc(d.Blocks, at, func(b Block, at int) int { return b.End - at - 1 })
	return i
}

// Normalise converts the text to NFC and moves every offset along.
func (d *Document) Normalise(p *Pulse) {
	text, m := nfc(d.Text, p)
	if m == nil {
		return
	}
	d.move(func(at int) int { return m.forward(at, len(text)) })
	d.Offsets = Compose(m, d.Offsets, len(text))
	d.Text = text
}

// move gives each place of sections, blocks and tables another value.
func (d *Document) move(to func(at int) int) {
	for i := range d.Sections {
		s := &d.Sections[i]
		s.Start, s.End = to(s.Start), to(s.End)
	}
	move := func(s *Span) { s.Start, s.End = to(s.Start), to(s.End) }
	for i := range d.Blocks {
		move(&d.Blocks[i].Span)
	}
	for i := range d.Tables {
		move(&d.Tables[i].Span)
		move(&d.Tables[i].Caption)
		move(&d.Tables[i].Head)
	}
}

// Shorten keeps the first most bytes of the text, to the end of a word if that is near. 0 keeps all.
func (d *Document) Shorten(most int) {
	if most <= 0 || len(d.Text) <= most {
		return
	}
	d.Cut = true
	for most > 0 && !utf8.RuneStart(d.Text[most]) {
		most--
	}
	if i := strings.LastIndexFunc(d.Text[:most], unicode.IsSpace); i > most*3/4 {
		most = i
	}
	d.Text = strings.Clone(d.Text[:most])
	d.Sections = slices.DeleteFunc(d.Sections, func(s Section) bool { return s.Start >= most })
	d.Blocks = slices.DeleteFunc(d.Blocks, func(b Block) bool { return b.Start >= most })
	d.move(func(at int) int { return min(at, most) })
}

// Block is a byte range of a text that no sentence crosses.
type Block struct {
	Span
	Code  bool  // split into lines, not sentences
	More  bool  // continues the row of the block before
	Table int32 // 1 + the index in Document.Tables of the table that it is in; 0 outside of tables
}

// Table is a table in a text, as byte ranges.
type Table struct {
	Span
	Caption Span // text above the table that belongs to it; empty: no caption
	Head    Span // rows that name the columns; empty: no such rows, or each cell has its column's name
}

// TextDigest returns the SHA-256 of text in hex.
func TextDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// MaxHeading is the largest length of a heading in runes. A longer one is shortened, and kept whole as a paragraph
// below.
const MaxHeading = 200

// Cleaner takes something out of the prose of documents: never of code or tables.
type Cleaner string

// Cleaned is what a cleaner has taken out of a document.
type Cleaned struct {
	By   Cleaner `json:"by"`
	Text string  `json:"text"`
}

// Edit replaces a range of a text. It begins and ends where white space begins or ends, or with a whole character.
type Edit struct {
	Span
	With string
}

// Edit replaces ranges of the text, which ascend and do not overlap, and moves all offsets along.
func (d *Document) Edit(list []Edit) {
	if len(list) == 0 {
		return
	}
	var w Writer
	at := 0
	for _, e := range list {
		w.Copy(d.Text[at:e.Start], at)
		w.Atom(e.With, e.Start, e.End-e.Start)
		at = e.End
	}
	w.Copy(d.Text[at:], at)
	text, m := w.Done()
	if m == nil {
		m = Map{{0, 0, 1, 1}}
	}
	shift := make([]int, len(list)+1) // behind so many edits
	for i, e := range list {
		shift[i+1] = shift[i] + len(e.With) - (e.End - e.Start)
	}
	forward := func(at int) int { // of a place within what was replaced: where that begins
		i := sort.Search(len(list), func(i int) bool { return list[i].End > at })
		if i < len(list) {
			at = min(at, list[i].Start)
		}
		return at + shift[i]
	}
	d.move(forward)
	d.Blocks = slices.DeleteFunc(d.Blocks, func(b Block) bool { return b.Start >= b.End && b.Table == 0 })
	d.Offsets = Compose(m, d.Offsets, len(text))
	d.Text = text
}

// Line is a line of prose that is not blank, without white space around it.
type Line struct {
	Span
	Text  string
	Heads []string
}

// Removed are the edits that take lines out, each run of lines with the white space on the side where there is less.
func (d *Document) Removed(lines []Line) (edits []Edit) {
	for i := 0; i < len(lines); {
		s := lines[i].Span
		for i++; i < len(lines) && strings.TrimSpace(d.Text[s.End:lines[i].Start]) == ""; i++ {
			s.End = lines[i].End
		}
		before := len(strings.TrimRightFunc(d.Text[:s.Start], unicode.IsSpace))
		after := len(d.Text) - len(strings.TrimLeftFunc(d.Text[s.End:], unicode.IsSpace))
		switch {
		case before == 0 || after == len(d.Text):
			s = Span{before, after}
		case strings.Count(d.Text[before:s.Start], "\n") >= strings.Count(d.Text[s.End:after], "\n"):
			s.End = after
		default:
			s.Start = before
		}
		edits = append(edits, Edit{Span: s})
	}
	return edits
}
