package corpus

import (
	"strings"
	"unicode"
)

// A page's tables of contents, and lines that lead to the pages beside it, repeat headings and say nothing else.

// ownLink notes that the text from a byte on links to a place of the same document.
func (b *builder) ownLink(from int) {
	if n := b.w.text.Len(); from < n {
		b.ownLinks = append(b.ownLinks, span{from, n})
	}
}

// pageLink notes that the text from a byte on links to the page before, the next one or those above.
func (b *builder) pageLink(from int) {
	if n := b.w.text.Len(); from < n {
		b.pageLinks = append(b.pageLinks, span{from, n})
	}
}

// isPageLink reports whether a link's relation is to a page beside this one, or to what all pages are listed in.
func isPageLink(rel string) bool {
	switch strings.ToLower(rel) {
	case "next", "prev", "previous", "up", "start", "contents", "index", "first", "last":
		return true
	}
	return false
}

// linkBlocks returns the blocks of text that are nothing but links of these kinds: of own links where at least
// fewContents come one after the other, and lines of others with the words that are usual before them.
func (b *builder) linkBlocks(d *Document) (lines []proseLine) {
	own, pages := b.ownLinks, b.pageLinks
	if len(own) < fewContents && len(pages) == 0 {
		return nil
	}
	var run []proseLine
	links := 0
	flush := func() {
		if links >= fewContents {
			lines = append(lines, run...)
		}
		run, links = nil, 0
	}
	for _, blk := range d.blocks {
		b.pulse.beat()
		s := span{blk.start, blk.end}.trim(d.Text)
		text := d.Text[s.start:s.end]
		rest, n := without(&own, d.Text, s)
		switch {
		case text == "":
		case n > 0 && !hasLetters(rest) && !blk.code && blk.table == 0:
			run, links = append(run, proseLine{span: s, text: text}), links+n
			continue
		default:
			flush()
			rest, n := without(&pages, d.Text, s)
			if n > 0 && !hasLetters(pageLinkWords.Replace(rest)) {
				lines = append(lines, proseLine{span: s, text: text})
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

func hasLetters(s string) bool { return strings.ContainsFunc(s, unicode.IsLetter) }

// without returns what a block has beside links, which ascend, and how many of them are in it. It takes those away that
// end before the block does.
func without(links *[]span, text string, block span) (rest string, n int) {
	var b strings.Builder
	at := block.start
	for len(*links) > 0 && (*links)[0].start < block.end {
		l := (*links)[0]
		if l.end > block.end {
			break
		}
		*links = (*links)[1:]
		if l.end <= at {
			continue
		}
		n++
		b.WriteString(text[at:max(l.start, at)])
		at = l.end
	}
	b.WriteString(text[at:block.end])
	return b.String(), n
}
