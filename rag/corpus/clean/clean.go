// Package clean takes out of documents what answers no question: tables of contents, indexes, boilerplate.
package clean

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// The cleaners, in the order in which they work.
const (
	Contents    doc.Cleaner = "contents"    // tables of contents, lists of figures and tables
	Index       doc.Cleaner = "index"       // indexes: words with the numbers of pages
	Boilerplate doc.Cleaner = "boilerplate" // lines that come three times or more, page numbers, copyright lines
	Bullets     doc.Cleaner = "bullets"     // marks before items of lists
	Dashes      doc.Cleaner = "dashes"      // rules and leaders; all dashes become "-", soft hyphens go
	Space       doc.Cleaner = "space"       // runs of white space become one, invisible characters go
)

// ErrUnknown is the name of no cleaner.
var ErrUnknown = errors.New("corpus: unknown way of cleaning")

func cleaners() []doc.Cleaner {
	return []doc.Cleaner{Contents, Index, Boilerplate, Bullets, Dashes, Space}
}

// Parse reads "none" (or ""), "all", or names with commas between. What is returned is in the order of the
// work, each once. An unknown name is ErrCleaner.
func Parse(s string) (list []doc.Cleaner, err error) {
	switch strings.TrimSpace(s) {
	case "", "none":
		return nil, nil
	case "all":
		return cleaners(), nil
	}
	asked := map[doc.Cleaner]bool{}
	for name := range strings.SplitSeq(s, ",") {
		c := doc.Cleaner(strings.TrimSpace(name))
		if !slices.Contains(cleaners(), c) {
			return nil, fmt.Errorf("%w: %q (known: none, all, and with commas between: %s)", ErrUnknown, c,
				strings.Trim(fmt.Sprint(cleaners()), "[]"))
		}
		asked[c] = true
	}
	return slices.DeleteFunc(cleaners(), func(c doc.Cleaner) bool { return !asked[c] }), nil
}

// Document lets cleaners work on a document.
func Document(d *doc.Document, list []doc.Cleaner, p *doc.Pulse) {
	as := func(text string) func(string) string { return func(string) string { return text } }
	for _, c := range list {
		var edits []doc.Edit
		switch c {
		case Contents:
			edits = d.Removed(contentLines(proseLines(d, p)))
		case Index:
			edits = d.Removed(indexLines(proseLines(d, p)))
		case Boilerplate:
			edits = d.Removed(repeatedLines(proseLines(d, p)))
		case Bullets:
			edits = replaced(d, bulletMark, as(""), p)
		case Dashes:
			apply(d, c, replaced(d, ruleOrLeader, as(" "), p))
			apply(d, c, replaced(d, softHyphen, as(""), p))
			edits = replaced(d, anyDash, as("-"), p)
		case Space:
			edits = replaced(d, spaceRun, oneSpace, p)
		}
		apply(d, c, edits)
	}
}

// maxCleaned bounds what is kept of one document for those who want to see what was taken out.
const maxCleaned = 10_000

// apply takes out what edits say, and keeps it.
func apply(d *doc.Document, by doc.Cleaner, edits []doc.Edit) {
	for _, e := range edits[:min(len(edits), max(maxCleaned-len(d.Cleaned), 0))] {
		text := strings.Clone(doc.CutRunes(d.Text[e.Start:e.End], doc.MaxHeading))
		d.Cleaned = append(d.Cleaned, doc.Cleaned{By: by, Text: text})
	}
	d.Edit(edits)
}

// prose yields the blocks of a document that are neither code nor of tables, without white space around them, and the
// headings above each.
func prose(d *doc.Document, p *doc.Pulse) iter.Seq2[doc.Span, []string] {
	return func(yield func(doc.Span, []string) bool) {
		for _, sec := range d.Sectioned() {
			for b := range d.BlocksOf(sec.Start, sec.End) {
				p.Beat()
				t := b.Trim(d.Text)
				if !b.Code && b.Table == 0 && t.Start < t.End && !yield(t, sec.Heading) {
					return
				}
			}
		}
	}
}

func proseLines(d *doc.Document, p *doc.Pulse) (lines []doc.Line) {
	for b, heads := range prose(d, p) {
		at := b.Start
		for line := range strings.Lines(d.Text[b.Start:b.End]) {
			t := doc.Span{Start: at, End: at + len(line)}.Trim(d.Text)
			if at += len(line); t.Start < t.End {
				lines = append(lines, doc.Line{Span: t, Text: d.Text[t.Start:t.End], Heads: heads})
			}
		}
	}
	return lines
}

// replaced are the edits that put another text in the place of what matches.
func replaced(d *doc.Document, what *regexp.Regexp, with func(found string) string, p *doc.Pulse) (edits []doc.Edit) {
	for b := range prose(d, p) {
		for _, at := range what.FindAllStringIndex(d.Text[b.Start:b.End], -1) {
			s := doc.Span{Start: b.Start + at[0], End: b.Start + at[1]}
			if found := d.Text[s.Start:s.End]; with(found) != found {
				edits = append(edits, doc.Edit{Span: s, With: with(found)})
			}
		}
	}
	return edits
}

var (
	bulletMark   = regexp.MustCompile(`(?m)^[ \t]*(?:[•‣◦▪▫●○■□◆◇➢➤✓✔►▶·∙⁃–—*+\x{f0b7}\x{f0a7}-][ \t]+)+`)
	ruleOrLeader = regexp.MustCompile(`[ \t]*(?:[-‐‑‒–—―=_~*#.·…][ \t]?){4,}`)
	softHyphen   = regexp.MustCompile(`\x{ad}`)
	anyDash      = regexp.MustCompile(`[‐‑‒–—―−⸺⸻]`)
	spaceRun     = regexp.MustCompile(`[\s\p{Zs}\x{200b}\x{2060}\x{feff}]+`)
)

// oneSpace returns one space or line break for a run of white space, and nothing for what is invisible.
func oneSpace(run string) string {
	switch {
	case strings.ContainsRune(run, '\n'):
		return "\n"
	case strings.ContainsFunc(run, unicode.IsSpace):
		return " "
	}
	return ""
}

// Headings of tables of contents and of indexes, and what their lines are like.
var (
	ContentsTitle = regexp.MustCompile(`(?i)^(?:\d+[. ]*)?(?:table of contents|contents|list of (?:figures|tables)|` +
		`inhalt|inhaltsverzeichnis|abbildungsverzeichnis|tabellenverzeichnis|table des matières|sommaire|índice|` +
		`contenido|indice|sommario|inhoud|inhoudsopgave|spis treści|содержание|оглавление)$`)
	IndexTitle = regexp.MustCompile(`(?i)^(?:\d+[. ]*)?(?:index|subject index|index of names|register|sachregister|` +
		`stichwortverzeichnis|personenregister|index général|índice alfabético|indice analitico)$`)
	leaderPage   = regexp.MustCompile(`(?:\.(?:[ .]*\.){2,}|…+|·{3,}|_{3,}|\t+| {3,})[ .…]*(?:\d{1,4}|[ivxlc]{1,7})$`)
	manyLeads    = regexp.MustCompile(`\.(?: ?\.){3,} ?\d{1,4}\b`)
	endsInPage   = regexp.MustCompile(`\S\s+\d{1,4}$`)
	Pages        = `\d{1,4}(?:[-–]\d{1,4})?(?:, ?\d{1,4}(?:[-–]\d{1,4})?)*`
	IndexEntry   = regexp.MustCompile(`^\pL[^.!?]{0,80}?(?:,|\s{2,}|\t) ?` + Pages + `[,;]?$`)
	indexEntries = regexp.MustCompile(`\pL[\pL ’'()-]{0,60}, ` + Pages)
)

// Fewer lines are no table of contents, and no index without its title.
const (
	FewContents = 3
	fewEntries  = 8
)

// contentLines returns the lines of tables of contents: runs of lines that end in a leader and a page, paragraphs of
// several such entries, and, below a heading that names such a table, lines that end in a page or are not sentences.
func contentLines(lines []doc.Line) (out []doc.Line) {
	titled := func(l doc.Line) bool {
		return len(l.Heads) > 0 && ContentsTitle.MatchString(strings.TrimSpace(l.Heads[len(l.Heads)-1]))
	}
	isEntry := func(l doc.Line) bool {
		return leaderPage.MatchString(l.Text) ||
			len(manyLeads.FindAllStringIndex(l.Text, FewContents)) == FewContents ||
			titled(l) && (endsInPage.MatchString(l.Text) || !isSentence(l.Text))
	}
	for i := 0; i < len(lines); {
		n := 0
		for i+n < len(lines) && isEntry(lines[i+n]) {
			n++
		}
		long := n > 0 && manyLeads.MatchString(lines[i].Text)
		if n >= FewContents || n > 0 && long && len(manyLeads.FindAllStringIndex(lines[i].Text, -1)) >= FewContents {
			first := i
			if i > 0 && ContentsTitle.MatchString(lines[i-1].Text) {
				first-- // the title is a line of text
			}
			out = append(out, lines[first:i+n]...)
		}
		i += max(n, 1)
	}
	return out
}

// isSentence reports whether a text is prose, not an entry of a list.
func isSentence(text string) bool {
	return strings.ContainsAny(text[len(text)-1:], ".!?:") || utf8.RuneCountInString(text) > doc.MaxHeading/2
}

// indexLines returns the lines of an index: runs of lines of words with pages, and paragraphs of many such entries.
func indexLines(lines []doc.Line) (out []doc.Line) {
	for i := 0; i < len(lines); {
		n, hits := 0, 0
		for more, ok := 0, true; i+n < len(lines); n++ {
			if more, ok = entries(lines[i+n].Text); !ok {
				break
			}
			hits += more
		}
		first, few := i, fewEntries
		if n > 0 && len(lines[i].Heads) > 0 && IndexTitle.MatchString(lines[i].Heads[len(lines[i].Heads)-1]) {
			few = FewContents
		}
		if i > 0 && IndexTitle.MatchString(lines[i-1].Text) { // the title is a line of text
			first, few = i-1, FewContents
		}
		if hits >= few {
			out = append(out, lines[first:i+n]...)
		}
		i += max(n, 1)
	}
	return out
}

// entries returns about how many entries of an index a line has, and whether it belongs to an index at all: the letter
// above a group of entries does, and counts 0.
func entries(text string) (n int, ok bool) {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case isDense(text):
		return fewEntries, true
	case IndexEntry.MatchString(text):
		return 1, true
	}
	return 0, size == len(text) && unicode.IsLetter(r)
}

// isDense reports whether a paragraph consists of entries of an index.
func isDense(text string) bool {
	found := indexEntries.FindAllStringIndex(text, -1)
	covered := 0
	for _, at := range found {
		covered += at[1] - at[0]
	}
	return len(found) >= fewEntries && 10*covered >= 7*len(text)
}

var (
	pageNumber = regexp.MustCompile(`(?i)^(?:[-–—| ]*\d{1,4}[-–—| ]*|(?:page|seite|página|pagina|p\.|s\.)\s*\d{1,4}` +
		`(?:\s*(?:/|of|von|de|di)\s*\d{1,4})?)$`)
	legalLine = regexp.MustCompile(`(?i)^(?:©|\(c\) |copyright ).*\d{4}|\ball rights reserved\b|` +
		`\balle rechte vorbehalten\b`)
	number   = regexp.MustCompile(`\d+`)
	menuLine = regexp.MustCompile(`(?i)^(?:skip to (?:main )?content|back to top|cookie (?:policy|settings)|` +
		`accept all cookies|privacy policy|terms of (?:use|service)|share this(?: page| article)?|subscribe now)[.!]?$`)
)

// A line of at most boilerplateRunes characters with boilerplateLetters letters or more that comes boilerplateTimes is
// boilerplate.
const (
	boilerplateTimes   = 3
	boilerplateRunes   = 200
	boilerplateLetters = 10
)

// repeatedLines returns the lines that occur boilerplateTimes or more often, compared without their numbers, and page
// numbers, copyright lines and menus.
func repeatedLines(lines []doc.Line) (out []doc.Line) {
	times := map[string]int{}
	key := func(l doc.Line) string {
		if utf8.RuneCountInString(l.Text) > boilerplateRunes {
			return ""
		}
		k := number.ReplaceAllString(strings.ToLower(strings.Join(strings.Fields(l.Text), " ")), "0")
		letters := 0
		for _, r := range k {
			if unicode.IsLetter(r) {
				letters++
			}
		}
		if letters < boilerplateLetters || !strings.Contains(k, " ") {
			return ""
		}
		return k
	}
	for _, l := range lines {
		times[key(l)]++
	}
	times[""] = 0
	for _, l := range lines {
		short := utf8.RuneCountInString(l.Text) <= boilerplateRunes
		if times[key(l)] >= boilerplateTimes || short && (pageNumber.MatchString(l.Text) ||
			legalLine.MatchString(l.Text) || menuLine.MatchString(l.Text)) {
			out = append(out, l)
		}
	}
	return out
}
