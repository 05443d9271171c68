package clean

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

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

// replaced are the edits that put a text in the place of what matches.
func replaced(d *doc.Document, what *regexp.Regexp, with string, p *doc.Pulse) (edits []doc.Edit) {
	for b := range prose(d, p) {
		for _, at := range what.FindAllStringIndex(d.Text[b.Start:b.End], -1) {
			if s := (doc.Span{Start: b.Start + at[0], End: b.Start + at[1]}); d.Text[s.Start:s.End] != with {
				edits = append(edits, doc.Edit{Span: s, With: with})
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

// spaces are the edits that make one space or line break of a run of white space, and nothing of what is invisible.
func spaces(d *doc.Document, p *doc.Pulse) (edits []doc.Edit) {
	for b := range prose(d, p) {
		for _, at := range spaceRun.FindAllStringIndex(d.Text[b.Start:b.End], -1) {
			s, with := doc.Span{Start: b.Start + at[0], End: b.Start + at[1]}, ""
			switch run := d.Text[s.Start:s.End]; {
			case strings.ContainsRune(run, '\n'):
				with = "\n"
			case strings.ContainsFunc(run, unicode.IsSpace):
				with = " "
			}
			if d.Text[s.Start:s.End] != with {
				edits = append(edits, doc.Edit{Span: s, With: with})
			}
		}
	}
	return edits
}

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

// entries counts the entries of a line of an index, about; a letter that others stand below is none, and belongs to it.
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

// What comes so often, in lines of so many characters with so many letters at least, is boilerplate.
const (
	boilerplateTimes   = 3
	boilerplateRunes   = 200
	boilerplateLetters = 10
)

// repeatedLines are those that come again and again, whatever their numbers, and those that say nothing of the subject.
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
