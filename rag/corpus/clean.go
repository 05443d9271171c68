package corpus

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Cleaner takes something out of the prose of documents: never of code or tables.
type Cleaner string

// The cleaners, in the order in which they work.
const (
	CleanContents    Cleaner = "contents"    // tables of contents, lists of figures and tables
	CleanIndex       Cleaner = "index"       // indexes: words with the numbers of pages
	CleanBoilerplate Cleaner = "boilerplate" // lines that come three times or more, page numbers, copyright lines
	CleanBullets     Cleaner = "bullets"     // marks before items of lists
	CleanDashes      Cleaner = "dashes"      // rules and leaders; all dashes become "-", soft hyphens go
	CleanSpace       Cleaner = "space"       // runs of white space become one, invisible characters go
)

func cleaners() []Cleaner {
	return []Cleaner{CleanContents, CleanIndex, CleanBoilerplate, CleanBullets, CleanDashes, CleanSpace}
}

// ParseCleaners reads "none" (or ""), "all", or names with commas between. What is returned is in the order of the
// work, each once. An unknown name is ErrCleaner.
func ParseCleaners(s string) (list []Cleaner, err error) {
	switch strings.TrimSpace(s) {
	case "", "none":
		return nil, nil
	case "all":
		return cleaners(), nil
	}
	asked := map[Cleaner]bool{}
	for name := range strings.SplitSeq(s, ",") {
		c := Cleaner(strings.TrimSpace(name))
		if !slices.Contains(cleaners(), c) {
			return nil, fmt.Errorf("%w: %q (known: none, all, and with commas between: %s)", ErrCleaner, c,
				strings.Trim(fmt.Sprint(cleaners()), "[]"))
		}
		asked[c] = true
	}
	return slices.DeleteFunc(cleaners(), func(c Cleaner) bool { return !asked[c] }), nil
}

// Cleaned is what a cleaner has taken out of a document.
type Cleaned struct {
	By   Cleaner `json:"by"`
	Text string  `json:"text"`
}

// edit replaces a range of a text. It begins and ends where white space begins or ends, or with a whole character.
type edit struct {
	span
	with string
}

// clean lets cleaners work on the document.
func (d *Document) clean(list []Cleaner, p *pulse) {
	for _, c := range list {
		var edits []edit
		switch c {
		case CleanContents:
			edits = d.removed(contentLines(d.proseLines(p)))
		case CleanIndex:
			edits = d.removed(indexLines(d.proseLines(p)))
		case CleanBoilerplate:
			edits = d.removed(repeatedLines(d.proseLines(p)))
		case CleanBullets:
			edits = d.replaced(bulletMark, "", p)
		case CleanDashes:
			d.apply(c, d.replaced(ruleOrLeader, " ", p))
			d.apply(c, d.replaced(softHyphen, "", p))
			edits = d.replaced(anyDash, "-", p)
		case CleanSpace:
			edits = d.spaces(p)
		}
		d.apply(c, edits)
	}
}

// maxCleaned bounds what is kept of one document for those who want to see what was taken out.
const maxCleaned = 10_000

// apply takes out what edits say, and keeps it.
func (d *Document) apply(by Cleaner, edits []edit) {
	for _, e := range edits[:min(len(edits), max(maxCleaned-len(d.Cleaned), 0))] {
		d.Cleaned = append(d.Cleaned, Cleaned{by, strings.Clone(cutRunes(d.Text[e.start:e.end], maxHeading))})
	}
	d.edit(edits)
}

// edit replaces ranges of the text, which ascend and do not overlap, and moves all offsets along.
func (d *Document) edit(list []edit) {
	if len(list) == 0 {
		return
	}
	var w textWriter
	at := 0
	for _, e := range list {
		w.copy(d.Text[at:e.start], at)
		w.atom(e.with, e.start, e.end-e.start)
		at = e.end
	}
	w.copy(d.Text[at:], at)
	text, m := w.done()
	if m == nil {
		m = offsetMap{{0, 0, 1, 1}}
	}
	shift := make([]int, len(list)+1) // behind so many edits
	for i, e := range list {
		shift[i+1] = shift[i] + len(e.with) - (e.end - e.start)
	}
	forward := func(at int) int { // of a place within what was replaced: where that begins
		i := sort.Search(len(list), func(i int) bool { return list[i].end > at })
		if i < len(list) {
			at = min(at, list[i].start)
		}
		return at + shift[i]
	}
	for i := range d.Sections {
		d.Sections[i].Start, d.Sections[i].End = forward(d.Sections[i].Start), forward(d.Sections[i].End)
	}
	for i := range d.blocks {
		d.blocks[i].start, d.blocks[i].end = forward(d.blocks[i].start), forward(d.blocks[i].end)
	}
	d.blocks = slices.DeleteFunc(d.blocks, func(b block) bool { return b.start >= b.end && b.table == 0 })
	for i := range d.tables {
		t := &d.tables[i]
		for _, at := range []*int{&t.start, &t.end, &t.caption.start, &t.caption.end, &t.head.start, &t.head.end} {
			*at = forward(*at)
		}
	}
	d.offsets = compose(m, d.offsets, len(text))
	d.Text = text
}
