// Package markup reads line-based markup: reStructuredText, AsciiDoc, Org, LaTeX and manual pages.
package markup

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/drawn"
)

// lightReader reads line-based markup: reStructuredText, AsciiDoc, Org, manual pages and LaTeX. It recognises headings,
// code, lists and what is not for readers; the rest of a line is its text.
type lightReader struct {
	b      *build.Builder
	d      *doc.Document
	src    string
	lines  []string // without their ends
	starts []int    // of the lines in the source
	words  *regexp.Regexp
	plain  func(match string) string // the visible text of a match of words
	code   string                    // the end of the open block of code; "": no block is open
}

// Endings are the extensions of files that Parse reads, with spaces between them.
const Endings = ".rst .adoc .asciidoc .org .tex .man .mdoc .1 .2 .3 .4 .5 .6 .7 .8 .9"

// Parse reads a text of a light markup.
func Parse(d *doc.Document, in charset.Text, ending string, p *doc.Pulse) error {
	r := &lightReader{b: &build.Builder{Pulse: p}, d: d, src: in.Text}
	at := 0
	for line := range strings.Lines(in.Text) {
		r.lines, r.starts = append(r.lines, strings.TrimRight(line, "\r\n")), append(r.starts, at)
		at += len(line)
	}
	if ending == ".rst" {
		r.joinMarks()
	}
	line := r.format(ending)
	if isManual(ending) && !manualBegin.MatchString(in.Text) {
		return fmt.Errorf("%w %q: no manual page", doc.ErrUnknown, ending)
	}
	for i := 0; i < len(r.lines); {
		p.Beat()
		i += max(line(r, i), 1)
	}
	r.b.Finish(d, in.Map)
	d.Entitle()
	return nil
}

// manualBegin is the request that each manual page has.
var manualBegin = regexp.MustCompile(`(?m)^\.(?:TH|Dd) `)

// isManual reports whether files with an ending are manual pages: .man, .mdoc, or a section (.1).
func isManual(ending string) bool {
	return len(ending) == 2 && ending[1] >= '1' && ending[1] <= '9' || ending == ".man" || ending == ".mdoc"
}

// WithoutGroup returns the ending of a manual page without the group of its section: .3pm and .3ssl are .3. Others are
// what they are, and so are the formats whose names begin with a digit.
func WithoutGroup(ending string) string {
	other := strings.Contains(" .7z .3gp .3gpp .3ds .3mf .3dm ", " "+ending+" ")
	if len(ending) < 3 || !isManual(ending[:2]) || other ||
		strings.Trim(ending[2:], "abcdefghijklmnopqrstuvwxyz") != "" {
		return ending
	}
	return ending[:2]
}

// format sets the inline markup of a format, and returns its reader of lines: it is given the index of a line and
// returns how many lines it has read.
func (r *lightReader) format(ending string) (line func(*lightReader, int) int) {
	switch {
	case ending == ".rst":
		line = (&rst{}).line
		r.words = regexp.MustCompile("(\\[[^\\[\\]\\s]+\\])_|``([^`]+)``|`(<[^`<>]+>)`|\\|([A-Za-z][\\w.-]+)\\||(?::[\\w:+.-]+:)?`([^`<]+?)(?:\\s*<[^`>]*>)?`_{0,2}|\\*\\*([^*]+)\\*\\*|\\*([^*\\s][^*]*)\\*")
	case ending == ".org":
		line = org
		r.words = regexp.MustCompile(`\[fn:[\w-]+\]|\[\[[^\]]*\]\[([^\]]*)\]\]|\[\[([^\]]*)\]\]|[=~]([^\s=~][^=~]*)[=~]`)
	case ending == ".tex":
		r.words, r.plain = latexMark, latexText
		return latex
	case isManual(ending):
		r.words = regexp.MustCompile(escapes)
		return (&manual{}).line // which knows the strings
	default:
		r.words, r.plain = asciidocMark, asciidocText
		return asciidoc
	}
	r.plain = func(match string) string { return groupOf(r.words, match) }
	return line
}

// groupOf returns the first group of a match that is not empty.
func groupOf(re *regexp.Regexp, match string) string {
	for _, g := range re.FindStringSubmatch(match)[1:] {
		if g != "" {
			return g
		}
	}
	return ""
}

// shown returns the visible text of marked-up text, without white space around it.
func (r *lightReader) shown(text string) string { return strings.TrimSpace(r.visible(text)) }

// visible returns the visible text of marked-up text.
func (r *lightReader) visible(text string) string {
	var b strings.Builder
	for text != "" {
		from, to := r.match(text)
		b.WriteString(text[:from])
		if from < to {
			b.WriteString(r.plain(text[from:to]))
		}
		text = text[to:]
	}
	return b.String()
}

// maxInline is the length up to which inline markup is recognised: an opening mark without an end may be followed by
// any number of others, each of which would have the rest of the line searched.
const maxInline = 300

// match returns where the first inline markup of a text begins and ends. In a text without markup, both are its length.
func (r *lightReader) match(text string) (from, to int) {
	for at := 0; at < len(text); at += maxInline {
		window := text[at:min(len(text), at+2*maxInline)]
		if m := r.words.FindStringIndex(window); m != nil && (m[0] < maxInline || at+len(window) == len(text)) {
			return at + m[0], at + m[1]
		}
	}
	return len(text), len(text)
}

// text adds to the paragraph a part of a line that begins at a byte of the source.
func (r *lightReader) text(text string, at int) {
	r.b.Gap(" ", at)
	r.inline(text, at)
}

// inline adds text to what stands before it.
func (r *lightReader) inline(text string, at int) {
	for text != "" {
		from, to := r.match(text)
		r.b.Pulse.Beat()
		r.b.Collapsed(text[:from], at)
		if from < to {
			s := r.plain(text[from:to])
			if strings.Contains(s, "\n") {
				s = strings.Join(strings.Fields(s), " ")
			}
			if strings.TrimSpace(s) != "" {
				r.b.Atom(s, at+from, to-from)
			} else if s != "" {
				r.b.Gap(" ", at+from)
			}
		}
		text, at = text[to:], at+to
	}
}

// line adds a whole line. A blank line ends the paragraph, and a mark in front begins a list item.
func (r *lightReader) line(i int, marks string) {
	line := r.lines[i]
	body := strings.TrimLeft(line, " \t")
	at := r.starts[i] + len(line) - len(body)
	if body == "" {
		r.b.EndBlock("\n\n")
		return
	}
	if n := len(body) - len(strings.TrimLeft(body, marks)); n > 0 && n < len(body) && body[n] == ' ' {
		r.b.EndBlock("\n")
		r.b.Marker = "- "
		body, at = body[n+1:], at+n+1
	}
	r.text(body, at)
}

// verbatim adds a line of code, whose text is given. The last line of a source may have no end.
func (r *lightReader) verbatim(text string, i int) {
	if r.starts[i]+len(r.lines[i]) < len(r.src) {
		text += "\n"
	}
	r.b.Verbatim(text, r.starts[i])
}

func (r *lightReader) heading(level int, text string, i int) {
	r.b.Heading(level, r.shown(text), "", r.starts[i], r.starts[i]+len(r.lines[i]))
}

// inCode adds a line to the open block of code, or ends it; it returns false if no block is open.
func (r *lightReader) inCode(i int, end func(line string) bool) bool {
	if r.code == "" {
		return false
	}
	if end(r.lines[i]) {
		r.code = ""
		r.b.EndBlock("\n\n")
	} else {
		r.verbatim(r.lines[i], i)
	}
	return true
}

func org(r *lightReader, i int) int {
	line := r.lines[i]
	if r.inCode(i, func(line string) bool { return strings.EqualFold(strings.TrimSpace(line), r.code) }) {
		return 1
	}
	stars := len(line) - len(strings.TrimLeft(line, "*"))
	body := strings.TrimSpace(line)
	lower := strings.ToLower(body)
	switch {
	case stars > 0 && len(line) > stars && line[stars] == ' ':
		r.heading(stars, line[stars:], i)
	case strings.HasPrefix(lower, "#+begin_src"), strings.HasPrefix(lower, "#+begin_example"):
		r.b.EndBlock("\n\n")
		kind, _, _ := strings.Cut(lower[len("#+begin_"):], " ")
		r.code = "#+end_" + kind
	case strings.HasPrefix(lower, "#+title:"):
		r.d.Title = strings.TrimSpace(body[len("#+title:"):])
	case strings.HasPrefix(body, "#"), strings.HasPrefix(body, ":") && strings.HasSuffix(body, ":"):
		r.b.EndBlock("\n\n")
	case strings.HasPrefix(body, "|"):
		return r.pipeTable(i)
	case strings.HasPrefix(body, "- ") && strings.Contains(body, " :: "):
		term, definition, _ := strings.Cut(body[2:], " :: ")
		at := r.starts[i] + strings.Index(line, body) + 2
		r.b.EndBlock("\n")
		r.text(term, at)
		r.b.Colon(at + len(term))
		r.text(definition, at+len(term)+len(" :: "))
	default:
		r.line(i, "-+")
	}
	return 1
}

// table writes a table that is drawn in the source.
func (r *lightReader) table(t drawn.Table) {
	r.b.BeginTable(build.OpenTable{})
	for i, row := range t.Rows {
		r.b.EndBlock("\n")
		for column, parts := range row {
			if column > 0 {
				r.b.Borders++
			}
			for _, s := range parts {
				r.text(r.src[s.Start:s.End], s.Start)
			}
		}
		r.b.EndBlock("\n")
		r.b.Borders = 0
		r.b.EndRow(i < t.Header)
	}
	r.b.EndTable()
}

// pipeTable reads the lines of a table of Org that begin with "|"; those above the first rule are the header.
func (r *lightReader) pipeTable(i int) (n int) {
	var t drawn.Table
	for ; i+n < len(r.lines); n++ {
		body := strings.TrimSpace(r.lines[i+n])
		if !strings.HasPrefix(body, "|") {
			break
		}
		if strings.HasPrefix(body, "|-") {
			if t.Header == 0 {
				t.Header = len(t.Rows)
			}
			continue
		}
		var row drawn.Row
		at := r.starts[i+n] + strings.Index(r.lines[i+n], body)
		for from := 1; from < len(body); {
			to := len(body)
			if bar := strings.IndexByte(body[from:], '|'); bar >= 0 {
				to = from + bar
			}
			var cell []doc.Span
			if s := (doc.Span{Start: from, End: to}).Trim(body); s.Start < s.End {
				cell = []doc.Span{{Start: at + s.Start, End: at + s.End}}
			}
			row = append(row, cell)
			from = to + 1
		}
		t.Rows = append(t.Rows, row)
	}
	r.table(t)
	return n
}
