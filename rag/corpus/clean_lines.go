package corpus

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// prose yields the blocks of a document that are neither code nor of tables, without white space around them, and the
// headings above each.
func (d *Document) prose(p *pulse) iter.Seq2[span, []string] {
	return func(yield func(span, []string) bool) {
		for _, sec := range d.sections() {
			for b := range d.blocksOf(sec.Start, sec.End) {
				p.beat()
				t := span{b.start, b.end}.trim(d.Text)
				if !b.code && b.table == 0 && t.start < t.end && !yield(t, sec.Heading) {
					return
				}
			}
		}
	}
}

// proseLine is a line of prose that is not blank, without white space around it.
type proseLine struct {
	span
	text  string
	heads []string
}

func (d *Document) proseLines(p *pulse) (lines []proseLine) {
	for b, heads := range d.prose(p) {
		at := b.start
		for line := range strings.Lines(d.Text[b.start:b.end]) {
			t := span{at, at + len(line)}.trim(d.Text)
			if at += len(line); t.start < t.end {
				lines = append(lines, proseLine{t, d.Text[t.start:t.end], heads})
			}
		}
	}
	return lines
}

// removed are the edits that take lines out, each run of lines with the white space on the side where there is less.
func (d *Document) removed(lines []proseLine) (edits []edit) {
	for i := 0; i < len(lines); {
		s := lines[i].span
		for i++; i < len(lines) && strings.TrimSpace(d.Text[s.end:lines[i].start]) == ""; i++ {
			s.end = lines[i].end
		}
		before := len(strings.TrimRightFunc(d.Text[:s.start], unicode.IsSpace))
		after := len(d.Text) - len(strings.TrimLeftFunc(d.Text[s.end:], unicode.IsSpace))
		switch {
		case before == 0 || after == len(d.Text):
			s = span{before, after}
		case strings.Count(d.Text[before:s.start], "\n") >= strings.Count(d.Text[s.end:after], "\n"):
			s.end = after
		default:
			s.start = before
		}
		edits = append(edits, edit{span: s})
	}
	return edits
}

// replaced are the edits that put a text in the place of what matches.
func (d *Document) replaced(what *regexp.Regexp, with string, p *pulse) (edits []edit) {
	for b := range d.prose(p) {
		for _, at := range what.FindAllStringIndex(d.Text[b.start:b.end], -1) {
			if s := (span{b.start + at[0], b.start + at[1]}); d.Text[s.start:s.end] != with {
				edits = append(edits, edit{s, with})
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
func (d *Document) spaces(p *pulse) (edits []edit) {
	for b := range d.prose(p) {
		for _, at := range spaceRun.FindAllStringIndex(d.Text[b.start:b.end], -1) {
			s, with := span{b.start + at[0], b.start + at[1]}, ""
			switch run := d.Text[s.start:s.end]; {
			case strings.ContainsRune(run, '\n'):
				with = "\n"
			case strings.ContainsFunc(run, unicode.IsSpace):
				with = " "
			}
			if d.Text[s.start:s.end] != with {
				edits = append(edits, edit{s, with})
			}
		}
	}
	return edits
}

var (
	contentsTitle = regexp.MustCompile(`(?i)^(?:\d+[. ]*)?(?:table of contents|contents|list of (?:figures|tables)|` +
		`inhalt|inhaltsverzeichnis|abbildungsverzeichnis|tabellenverzeichnis|table des matières|sommaire|índice|` +
		`contenido|indice|sommario|inhoud|inhoudsopgave|spis treści|содержание|оглавление)$`)
	indexTitle = regexp.MustCompile(`(?i)^(?:\d+[. ]*)?(?:index|subject index|index of names|register|sachregister|` +
		`stichwortverzeichnis|personenregister|index général|índice alfabético|indice analitico)$`)
	leaderPage   = regexp.MustCompile(`(?:\.(?:[ .]*\.){2,}|…+|·{3,}|_{3,}|\t+| {3,})[ .…]*(?:\d{1,4}|[ivxlc]{1,7})$`)
	manyLeads    = regexp.MustCompile(`\.(?: ?\.){3,} ?\d{1,4}\b`)
	endsInPage   = regexp.MustCompile(`\S\s+\d{1,4}$`)
	pages        = `\d{1,4}(?:[-–]\d{1,4})?(?:, ?\d{1,4}(?:[-–]\d{1,4})?)*`
	indexEntry   = regexp.MustCompile(`^\pL[^.!?]{0,80}?(?:,|\s{2,}|\t) ?` + pages + `[,;]?$`)
	indexEntries = regexp.MustCompile(`\pL[\pL ’'()-]{0,60}, ` + pages)
)

// Fewer lines are no table of contents, and no index without its title.
const (
	fewContents = 3
	fewEntries  = 8
)

// contentLines returns the lines of tables of contents: runs of lines that end in a leader and a page, paragraphs of
// several such entries, and, below a heading that names such a table, lines that end in a page or are not sentences.
func contentLines(lines []proseLine) (out []proseLine) {
	titled := func(l proseLine) bool {
		return len(l.heads) > 0 && contentsTitle.MatchString(strings.TrimSpace(l.heads[len(l.heads)-1]))
	}
	isEntry := func(l proseLine) bool {
		return leaderPage.MatchString(l.text) ||
			len(manyLeads.FindAllStringIndex(l.text, fewContents)) == fewContents ||
			titled(l) && (endsInPage.MatchString(l.text) || !isSentence(l.text))
	}
	for i := 0; i < len(lines); {
		n := 0
		for i+n < len(lines) && isEntry(lines[i+n]) {
			n++
		}
		long := n > 0 && manyLeads.MatchString(lines[i].text)
		if n >= fewContents || n > 0 && long && len(manyLeads.FindAllStringIndex(lines[i].text, -1)) >= fewContents {
			first := i
			if i > 0 && contentsTitle.MatchString(lines[i-1].text) {
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
	return strings.ContainsAny(text[len(text)-1:], ".!?:") || utf8.RuneCountInString(text) > maxHeading/2
}

// indexLines returns the lines of an index: runs of lines of words with pages, and paragraphs of many such entries.
func indexLines(lines []proseLine) (out []proseLine) {
	for i := 0; i < len(lines); {
		n, hits := 0, 0
		for more, ok := 0, true; i+n < len(lines); n++ {
			if more, ok = entries(lines[i+n].text); !ok {
				break
			}
			hits += more
		}
		first, few := i, fewEntries
		if n > 0 && len(lines[i].heads) > 0 && indexTitle.MatchString(lines[i].heads[len(lines[i].heads)-1]) {
			few = fewContents
		}
		if i > 0 && indexTitle.MatchString(lines[i-1].text) { // the title is a line of text
			first, few = i-1, fewContents
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
	case indexEntry.MatchString(text):
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
func repeatedLines(lines []proseLine) (out []proseLine) {
	times := map[string]int{}
	key := func(l proseLine) string {
		if utf8.RuneCountInString(l.text) > boilerplateRunes {
			return ""
		}
		k := digits.ReplaceAllString(strings.ToLower(strings.Join(strings.Fields(l.text), " ")), "0")
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
		short := utf8.RuneCountInString(l.text) <= boilerplateRunes
		if times[key(l)] >= boilerplateTimes || short && (pageNumber.MatchString(l.text) ||
			legalLine.MatchString(l.text) || menuLine.MatchString(l.text)) {
			out = append(out, l)
		}
	}
	return out
}
