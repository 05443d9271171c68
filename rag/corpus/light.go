package corpus

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// lightReader reads line-based markup: reStructuredText, AsciiDoc, Org, manual pages and LaTeX. It recognises headings,
// code, lists and what is not for readers; the rest of a line is its text.
type lightReader struct {
	b      *builder
	d      *Document
	lines  []string // without their ends
	starts []int    // of the lines in the source
	size   int      // of the source
	words  *regexp.Regexp
	plain  func(match string) string // the visible text of a match of words
	code   string                    // the end of the open block of code; "": no block is open
}

// lightFormats returns the line readers by extension: each is given the index of a line and returns how many lines it
// has consumed.
func lightFormats() map[string]func(*lightReader, int) int {
	formats := map[string]func(*lightReader, int) int{".rst": (&rst{}).line, ".adoc": asciidoc, ".asciidoc": asciidoc,
		".org": org, ".tex": latex, ".man": (&manual{}).line, ".mdoc": (&manual{}).line}
	for _, section := range "123456789" {
		formats["."+string(section)] = (&manual{}).line
	}
	return formats
}

// parseLight reads a text of a light markup.
func parseLight(d *Document, in decoded, ending string, p *pulse) error {
	r := &lightReader{b: &builder{pulse: p}, d: d, plain: func(s string) string { return s }}
	at := 0
	for line := range strings.Lines(in.text) {
		r.lines, r.starts = append(r.lines, strings.TrimRight(line, "\r\n")), append(r.starts, at)
		at += len(line)
	}
	r.size = at
	r.words, r.plain = inlineOf(ending)
	if isManual(ending) && !manualBegin.MatchString(in.text) {
		return fmt.Errorf("%w %q: no manual page", ErrUnknown, ending)
	}
	line := lightFormats()[ending]
	for i := 0; i < len(r.lines); {
		p.beat()
		i += max(line(r, i), 1)
	}
	r.b.finish(d, in.m)
	d.entitle()
	return nil
}

// manualBegin is the request that each manual page has.
var manualBegin = regexp.MustCompile(`(?m)^\.(?:TH|Dd) `)

// isManual reports whether files with an ending are manual pages: .man, .mdoc, or a section (.1).
func isManual(ending string) bool {
	return len(ending) == 2 && ending[1] >= '1' && ending[1] <= '9' || ending == ".man" || ending == ".mdoc"
}

// withoutGroup returns the ending of a manual page without the group of its section: .3pm and .3ssl are .3. Others are
// what they are, and so are the formats whose names begin with a digit.
func withoutGroup(ending string) string {
	other := strings.Contains(" .7z .3gp .3gpp .3ds .3mf .3dm ", " "+ending+" ")
	if len(ending) < 3 || !isManual(ending[:2]) || other ||
		strings.Trim(ending[2:], "abcdefghijklmnopqrstuvwxyz") != "" {
		return ending
	}
	return ending[:2]
}

// inlineOf returns the inline markup of a format, and a function from a match to its visible text.
func inlineOf(ending string) (*regexp.Regexp, func(string) string) {
	group := func(re *regexp.Regexp) func(string) string {
		return func(match string) string {
			for _, g := range re.FindStringSubmatch(match)[1:] {
				if g != "" {
					return g
				}
			}
			return ""
		}
	}
	pattern := ""
	switch {
	case ending == ".rst":
		pattern = "``([^`]+)``|(?::[\\w:+.-]+:)?`([^`<]+?)(?: *<[^`>]*>)?`_{0,2}|\\*\\*([^*]+)\\*\\*|\\*([^*\\s][^*]*)\\*"
	case ending == ".org":
		pattern = `\[\[[^\]]*\]\[([^\]]*)\]\]|\[\[([^\]]*)\]\]|[=~]([^\s=~][^=~]*)[=~]`
	case ending == ".tex":
		re := regexp.MustCompile(`\\(?:cite\w*|ref|label|eqref|pageref|index|vspace|hspace|includegraphics)\*?(?:\[[^\]]*\])*\{[^}]*\}` +
			`|\\[a-zA-Z]+\*?(?:\[[^\]]*\])?[ {]?|\\.|[{}~]|---?|` + "``|''")
		return re, func(match string) string {
			switch match {
			case "~", `\ `, `\,`, `\\`:
				return " "
			case "--":
				return "–"
			case "---":
				return "—"
			case "``", "''":
				return `"`
			}
			if len(match) == 2 && strings.ContainsAny(match[1:], "%&$#_{}") {
				return match[1:]
			}
			return ""
		}
	case isManual(ending):
		return regexp.MustCompile(escapes), nil // (*manual).plain knows the strings
	default:
		pattern = "`([^`]+)`|https?://\\S+?\\[([^\\]]*)\\]|\\*([^*\\s][^*]*)\\*"
	}
	re := regexp.MustCompile(pattern)
	return re, group(re)
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
	r.b.gap(" ", at)
	r.inline(text, at)
}

// inline adds text to what stands before it.
func (r *lightReader) inline(text string, at int) {
	for text != "" {
		from, to := r.match(text)
		r.b.pulse.beat()
		r.b.collapsed(text[:from], at)
		if from < to {
			if s := r.plain(text[from:to]); strings.TrimSpace(s) != "" {
				r.b.atom(s, at+from, to-from)
			} else if s != "" {
				r.b.gap(" ", at+from)
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
		r.b.endBlock("\n\n")
		return
	}
	if n := len(body) - len(strings.TrimLeft(body, marks)); n > 0 && n < len(body) && body[n] == ' ' {
		r.b.endBlock("\n")
		r.b.marker = "- "
		body, at = body[n+1:], at+n+1
	}
	r.text(body, at)
}

// verbatim adds a line of code, whose text is given. The last line of a source may have no end.
func (r *lightReader) verbatim(text string, i int) {
	if r.starts[i]+len(r.lines[i]) < r.size {
		text += "\n"
	}
	r.b.verbatim(text, r.starts[i])
}

func (r *lightReader) heading(level int, text string, i int) {
	r.b.heading(level, r.shown(text), "", r.starts[i], r.starts[i]+len(r.lines[i]))
}

// inCode adds a line to the open block of code, or ends it; it returns false if no block is open.
func (r *lightReader) inCode(i int, end func(line string) bool) bool {
	if r.code == "" {
		return false
	}
	if end(r.lines[i]) {
		r.code = ""
		r.b.endBlock("\n\n")
	} else {
		r.verbatim(r.lines[i], i)
	}
	return true
}

// rst reads reStructuredText.
type rst struct{ levels []string } // heading underlines, in the order of their first use

func (s *rst) line(r *lightReader, i int) int {
	line := r.lines[i]
	next := ""
	if i+1 < len(r.lines) {
		next = r.lines[i+1]
	}
	switch body := strings.TrimSpace(line); {
	case adorns(line) && next != "" && i+2 < len(r.lines) && r.lines[i+2] == line:
		r.heading(s.level(line[:1]+"over"), next, i+1)
		return 3
	case body != "" && line[0] != ' ' && adorns(next) && len(next) >= utf8.RuneCountInString(body):
		r.heading(s.level(next[:1]), body, i)
		return 2
	case adorns(line) && len(line) > 3:
		r.b.endBlock("\n\n")
	case strings.HasPrefix(body, ".. "):
		r.b.endBlock("\n\n")
		return s.directive(r, i, body[3:])
	case strings.HasPrefix(body, ":") && strings.Contains(body[1:], ": "):
		r.b.endBlock("\n")
		r.line(i, "")
	case strings.HasSuffix(body, "::"):
		r.lines[i] = strings.TrimSuffix(strings.TrimRight(line, " "), ":")
		r.line(i, "*-+")
		return 1 + r.indented(i+1, len(line)-len(strings.TrimLeft(line, " ")))
	default:
		isTerm := body != "" && strings.IndexByte("*-+#|(0123456789", body[0]) < 0 && isFurtherIn(next, line)
		if isTerm && i > 0 && isFurtherIn(r.lines[i-1], line) {
			r.b.endBlock("\n")
		}
		isTerm = isTerm && !r.b.open
		if r.line(i, "*-+"); isTerm {
			r.b.colon(r.starts[i] + len(line))
		}
	}
	return 1
}

func isOption(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), ":") }

// isFurtherIn reports whether a line has text that is indented by more than another.
func isFurtherIn(line, other string) bool {
	return strings.TrimSpace(line) != "" && indentOf(line) > indentOf(other)
}

// adorns reports whether a line can be the underline or overline of a heading.
func adorns(line string) bool {
	return len(line) > 1 && strings.Contains("=-`:'\"~^_*+#<>.", line[:1]) && strings.Trim(line, line[:1]) == ""
}

func (s *rst) level(mark string) int {
	for i, m := range s.levels {
		if m == mark {
			return i + 1
		}
	}
	s.levels = append(s.levels, mark)
	return len(s.levels)
}

// directive reads a line behind two dots: code, or a directive that contains text; comments, targets and images are
// skipped.
func (s *rst) directive(r *lightReader, i int, body string) int {
	indent := indentOf(r.lines[i])
	name, rest, is := strings.Cut(body, "::")
	switch {
	case is && (name == "code-block" || name == "code" || name == "sourcecode" || name == "literalinclude" ||
		name == "parsed-literal"):
		return 1 + r.indented(i+1, indent)
	case is && name != "image" && name != "toctree" && name != "raw" && name != "math" && !strings.Contains(name, " "):
		n := i + 1
		for n < len(r.lines) && isFurtherIn(r.lines[n], r.lines[i]) && isOption(r.lines[n]) {
			n++
		}
		if rest = strings.TrimSpace(rest); rest != "" {
			r.text(rest, r.starts[i]+strings.LastIndex(r.lines[i], rest))
			if n+1 < len(r.lines) && r.lines[n] == "" && isFurtherIn(r.lines[n+1], r.lines[i]) &&
				!strings.HasPrefix(strings.TrimSpace(r.lines[n+1]), "..") {
				r.b.colon(r.starts[i] + len(r.lines[i])) // it describes what it names
				return n + 1 - i
			}
			r.b.endBlock("\n\n")
		}
		return n - i
	}
	n := 1
	for i+n < len(r.lines) && (r.lines[i+n] == "" || strings.HasPrefix(r.lines[i+n], strings.Repeat(" ", indent+1))) {
		n++
	}
	return n
}

// indented reads the lines from one on that are indented by more, as code; options at their beginning are skipped.
func (r *lightReader) indented(i, indent int) (n int) {
	r.b.endBlock("\n\n")
	began := false
	for ; i+n < len(r.lines); n++ {
		line := r.lines[i+n]
		body := strings.TrimLeft(line, " \t")
		if body != "" && len(line)-len(body) <= indent {
			break
		}
		if !began && (body == "" || strings.HasPrefix(body, ":")) {
			continue
		}
		began = true
		r.verbatim(line, i+n)
	}
	r.b.endBlock("\n\n")
	return n
}

func asciidoc(r *lightReader, i int) int {
	line := r.lines[i]
	if r.inCode(i, func(line string) bool { return strings.TrimSpace(line) == r.code }) {
		return 1
	}
	marks := len(line) - len(strings.TrimLeft(line, "="))
	switch body := strings.TrimSpace(line); {
	case marks > 0 && marks < 7 && len(line) > marks && line[marks] == ' ':
		r.heading(marks, line[marks:], i)
	case len(body) >= 4 && (strings.Trim(body, "-") == "" || strings.Trim(body, ".") == ""):
		r.b.endBlock("\n\n")
		r.code = body
	case strings.HasPrefix(body, "[") && strings.HasSuffix(body, "]"), strings.HasPrefix(body, "//"), body == "+",
		strings.HasPrefix(body, ":") && strings.Contains(body[1:], ":"), strings.HasPrefix(body, "include::"),
		len(body) >= 4 && strings.Trim(body, body[:1]) == "" && strings.Contains("=*_", body[:1]), body == "|===":
		r.b.endBlock("\n\n")
	case strings.HasPrefix(body, "|"):
		r.b.endBlock("\n")
		r.line(i, "")
		r.b.endBlock("\n")
	case len(body) > 1 && body[0] == '.' && body[1] != '.' && body[1] != ' ':
		r.b.endBlock("\n\n")
		r.text(body[1:], r.starts[i]+strings.Index(line, body)+1)
		r.b.endBlock("\n\n")
	default:
		r.line(i, "*-.")
	}
	return 1
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
		r.b.endBlock("\n\n")
		kind, _, _ := strings.Cut(lower[len("#+begin_"):], " ")
		r.code = "#+end_" + kind
	case strings.HasPrefix(lower, "#+title:"):
		r.d.Title = strings.TrimSpace(body[len("#+title:"):])
	case strings.HasPrefix(body, "#"), strings.HasPrefix(body, ":") && strings.HasSuffix(body, ":"):
		r.b.endBlock("\n\n")
	case strings.HasPrefix(body, "|-"):
	case strings.HasPrefix(body, "|"):
		r.b.endBlock("\n")
		r.line(i, "")
		r.b.endBlock("\n")
	default:
		r.line(i, "-+")
	}
	return 1
}

func latex(r *lightReader, i int) int {
	line := r.lines[i]
	if r.inCode(i, func(line string) bool { return strings.Contains(line, r.code) }) {
		return 1
	}
	if n := comment(line); n >= 0 {
		if line = line[:n]; strings.TrimSpace(line) == "" {
			return 1
		}
		r.lines[i] = line
	}
	body := strings.TrimSpace(line)
	name, rest, _ := strings.Cut(strings.TrimPrefix(body, `\`), "{")
	levels := map[string]int{"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
	switch level := levels[strings.TrimRight(name, "*")]; {
	case !strings.HasPrefix(body, `\`):
		r.line(i, "")
	case level > 0 && strings.Contains(rest, "}"):
		r.heading(level, rest[:strings.LastIndex(rest, "}")], i)
	case name == "title" && strings.Contains(rest, "}"):
		r.d.Title = r.shown(rest[:strings.LastIndex(rest, "}")])
	case strings.HasPrefix(rest, "verbatim"), strings.HasPrefix(rest, "lstlisting"), strings.HasPrefix(rest, "minted"):
		r.b.endBlock("\n\n")
		environment, _, _ := strings.Cut(rest, "}")
		r.code = `\end{` + environment + "}"
	case name == "begin" && strings.HasPrefix(rest, "document"): // the preamble, before it, is not text
		r.b.blocks, r.b.sections, r.b.open = r.b.blocks[:0], r.b.sections[:0], false
		r.b.w, r.b.path, r.b.sep, r.b.headed = textWriter{}, nil, "", false
	case name == "begin", name == "end", name == "documentclass", name == "usepackage", name == "newcommand":
		r.b.endBlock("\n\n")
	case strings.HasPrefix(body, `\item`):
		r.b.endBlock("\n")
		r.b.marker = "- "
		r.line(i, "")
	default:
		r.line(i, "")
	}
	return 1
}

// comment returns where a comment of LaTeX begins, or -1.
func comment(line string) int {
	for i := range len(line) {
		if line[i] == '%' && (i == 0 || line[i-1] != '\\') {
			return i
		}
	}
	return -1
}

// isPlainName reports whether a file without an extension is known by its name as text: README, LICENSE-MIT, Makefile,
// and the copyright of a package of Debian.
func isPlainName(base string) bool {
	switch strings.ToLower(base) {
	case "readme", "license", "licence", "copying", "copyright", "notice", "authors", "changelog", "changes", "news",
		"todo", "install", "contributing", "makefile", "dockerfile", "history", "credits", "contributors", "thanks":
		return true
	}
	head, _, _ := strings.Cut(base, "-")
	switch head {
	case "README", "LICENSE", "LICENCE", "COPYING", "NOTICE":
		return true
	}
	return false
}
