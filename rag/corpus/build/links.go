package build

import (
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// A page's tables of contents, and lines that lead to the pages beside it, repeat headings and say nothing else.

// fewLinks are no table of contents.
const fewLinks = 3

// OwnLink notes that the text from a byte on links to a place of the same document.
func (b *Builder) OwnLink(from int) {
	if n := b.W.Text.Len(); from < n {
		b.ownLinks = append(b.ownLinks, doc.Span{Start: from, End: n})
	}
}

// PageLink notes that the text from a byte on links to the page before, the next one or those above.
func (b *Builder) PageLink(from int) {
	if n := b.W.Text.Len(); from < n {
		b.pageLinks = append(b.pageLinks, doc.Span{Start: from, End: n})
	}
}

// PageRelations are the relations of links to a page beside this one, or to what all pages are listed in.
const PageRelations = " next prev previous up start contents index first last "

// linkBlocks returns the blocks of text that are nothing but links of these kinds: of own links where at least
// fewLinks come one after the other, and lines of others with the words that are usual before them.
func (b *Builder) linkBlocks(d *doc.Document) (lines []doc.Line) {
	own, pages := b.ownLinks, b.pageLinks
	if len(own) < fewLinks && len(pages) == 0 {
		return nil
	}
	var run []doc.Line
	links := 0
	flush := func() {
		if links >= fewLinks {
			lines = append(lines, run...)
		}
		run, links = nil, 0
	}
	for _, blk := range d.Blocks {
		b.Pulse.Beat()
		s := blk.Trim(d.Text)
		text := d.Text[s.Start:s.End]
		rest, n := without(&own, d.Text, s)
		switch {
		case text == "":
		case n > 0 && !doc.HasLetters(rest) && !blk.Code && blk.Table == 0:
			run, links = append(run, doc.Line{Span: s, Text: text}), links+n
			continue
		default:
			flush()
			rest, n := without(&pages, d.Text, s)
			if n > 0 && !doc.HasLetters(pageLinkWords.Replace(rest)) {
				lines = append(lines, doc.Line{Span: s, Text: text})
			}
		}
	}
	flush()
	return lines
}

// pageLinkWords takes away the words that stand before links to other pages.
var pageLinkWords = strings.NewReplacer("Next", "", "Previous", "", "Prev", "", "Up", "", "Top", "", "Contents", "",
	"Index", "", "Nächstes", "", "Vorheriges", "", "Aufwärts", "", "Inhalt", "", "Suivant", "", "Précédent", "",
	"Monter", "", "Sommaire", "")

// without returns what a block has beside links, which ascend, and how many of them are in it. It takes those away that
// end before the block does.
func without(links *[]doc.Span, text string, block doc.Span) (rest string, n int) {
	var b strings.Builder
	at := block.Start
	for len(*links) > 0 && (*links)[0].Start < block.End {
		l := (*links)[0]
		if l.End > block.End {
			break
		}
		*links = (*links)[1:]
		if l.End <= at {
			continue
		}
		n++
		b.WriteString(text[at:max(l.Start, at)])
		at = l.End
	}
	b.WriteString(text[at:block.End])
	return b.String(), n
}
