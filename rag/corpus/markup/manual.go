package markup

import (
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// manual reads a manual page in the macros of man or mdoc, with tables of tbl (groff_man(7), groff_mdoc(7), tbl(1)).
// Of roff itself it knows what pages use: strings (.ds), conditions for terminals, and what is not text.
type manual struct {
	defined    map[string]string // visible text of strings
	own        map[string]bool   // macros that the page defines: whether their arguments are text
	characters map[string]string
	kinds      map[string]string // of mdoc's macros
	expanded   int               // bytes that strings have stood for
	not        bool              // the last .ie did not hold
	endless    bool              // a block without an end has been found: no other is looked for
	term       bool              // the next text is the term of .TP or .It
	extended   bool              // that of mdoc goes on to .Xc
	hanging    bool              // the paragraph is the term of .HP, whose text stands behind .IP
	url        string            // of the link whose text is being read
	name       string            // what mdoc's .Nm stands for
	lists      []string          // mdoc's open lists: what begins an item
	glued      bool              // mdoc's next word stands at the one before
}

// longestString is the most characters that a string stands for, so that strings of strings do not grow, and
// mostExpanded the most bytes that all uses of strings add to a page.
const (
	longestString = 200
	mostExpanded  = 1 << 20
)

// argument is a part of a line that stands at a byte of the source.
type argument struct {
	text string
	at   int
}

// stretch is text of a paragraph. If it is made, it does not stand in the source; if it is glued, no space precedes it.
type stretch struct {
	argument
	made, glued bool
}

func (m *manual) line(r *lightReader, i int) int {
	if m.defined == nil {
		m.defined, m.own, r.plain = map[string]string{}, map[string]bool{}, m.plain
		m.characters, m.kinds = named(groffCharacters), mdocKinds()
	}
	line, at := uncommented(r.lines[i]), r.starts[i]
	for isRequest(line) {
		name, rest := requestOf(line)
		at += len(line) - len(rest)
		switch name {
		case "if", "ie":
			holds, body := condition(rest)
			if name == "ie" {
				m.not = !holds
			}
			if !holds {
				return m.skip(r, i)
			}
			line, at = opened(body, at+len(rest)-len(body))
		case "el":
			if !m.not {
				return m.skip(r, i)
			}
			line, at = opened(rest, at)
		default:
			return m.request(r, i, name, rest, at)
		}
	}
	switch {
	case line == "" && at > r.starts[i]: // of a condition
	case r.code != "":
		r.verbatim(r.visible(line), i)
	case line == r.lines[i]:
		r.line(i, "")
		m.endTerm(r, i)
	default:
		r.text(line, at)
		m.endTerm(r, i)
	}
	return 1
}

// endTerm ends the term of .TP or .It if it was on line i.
func (m *manual) endTerm(r *lightReader, i int) {
	if m.term && !m.extended && r.b.Open {
		r.b.Colon(r.starts[i] + len(r.lines[i]))
		m.term = false
	}
}

func isRequest(line string) bool { return line != "" && (line[0] == '.' || line[0] == '\'') }

// requestOf returns the name of a request and the rest of its line.
func requestOf(line string) (name, rest string) {
	line = strings.TrimLeft(line[1:], " \t")
	n := strings.IndexAny(line, " \t")
	if n < 0 {
		return line, ""
	}
	return line[:n], strings.TrimLeft(line[n:], " \t")
}

// uncommented returns a line without its comment.
func uncommented(line string) string {
	for at := 0; ; {
		n := strings.Index(line[at:], `\"`)
		if n < 0 {
			return line
		}
		if at += n; at == 0 || line[at-1] != '\\' {
			return line[:at]
		}
		at += 2
	}
}

// condition reads a condition: whether it holds on a terminal of groff, and what stands behind it.
func condition(s string) (holds bool, body string) {
	denied := strings.HasPrefix(s, "!")
	s = strings.TrimPrefix(s, "!")
	n := strings.IndexAny(s, " \t")
	if n < 0 {
		n = len(s)
	}
	if b := strings.Index(s[:n], `\{`); b >= 0 { // in what comes first only: a line may be of conditions alone
		n = b
	}
	holds = s[:n] == "n" || strings.Contains(s[:n], `\n(.g`) || strings.Contains(s[:n], `\n[.g]`)
	return holds != denied, strings.TrimLeft(s[n:], " \t")
}

// opened returns what stands behind the opening brace of a block; without one, s.
func opened(s string, at int) (string, int) {
	body := strings.TrimPrefix(s, `\{`)
	if len(body) < len(s) {
		body = strings.TrimLeft(strings.TrimPrefix(body, `\`), " \t")
	}
	return body, at + len(s) - len(body)
}

// skip returns the number of lines that a condition which does not hold leaves out.
func (m *manual) skip(r *lightReader, i int) int {
	depth := 0
	for n := i; n < len(r.lines) && !m.endless; n++ {
		r.b.Pulse.Beat()
		depth += strings.Count(r.lines[n], `\{`) - strings.Count(r.lines[n], `\}`)
		if depth <= 0 {
			return n - i + 1
		}
	}
	m.endless = true
	return 1
}

// skipTo returns the number of lines up to the one that ends a block which is not text.
func (m *manual) skipTo(r *lightReader, i int, end string) int {
	for n := i + 1; n < len(r.lines) && !m.endless; n++ {
		r.b.Pulse.Beat()
		if strings.TrimRight(r.lines[n], " \t") == end {
			return n - i + 1
		}
	}
	m.endless = true
	return 1
}

// arguments splits the rest of a request's line. Those in quotes hold spaces.
func arguments(s string, at int) (list []argument) {
	for i := 0; i < len(s); i++ {
		from := i
		switch s[i] {
		case ' ', '\t':
			continue
		case '"':
			from++
			for i++; i < len(s) && (s[i] != '"' || i+1 < len(s) && s[i+1] == '"'); i++ {
				if s[i] == '"' {
					i++ // two are one
				}
			}
		default:
			for i < len(s) && s[i] != ' ' && s[i] != '\t' {
				if s[i] == '\\' {
					i++
				}
				i++
			}
		}
		i = min(i, len(s))
		list = append(list, argument{s[from:i], at + from})
	}
	return list
}

// request reads a request, whose arguments stand at a byte of the source.
func (m *manual) request(r *lightReader, i int, name, rest string, at int) int {
	args := arguments(rest, at)
	first := argument{at: at}
	if len(args) > 0 {
		first = args[0]
	}
	hanging := m.hanging
	switch name {
	case "SH", "Sh", "SS", "Ss", "PP", "P", "LP", "Pp", "sp", "IP", "TP", "TQ", "HP", "RS", "RE", "SY", "YS":
		m.hanging, m.term = name == "HP", name == "TP" || name == "TQ"
	}
	switch name {
	case "de", "de1", "am", "ig":
		end := "."
		if n := len(args); name == "ig" && n > 0 || n > 1 {
			end = args[n-1].text
		}
		n := m.skipTo(r, i, "."+end)
		m.own[first.text] = name != "ig" && slices.ContainsFunc(r.lines[i:i+n], showsArguments)
		return n
	case "ds", "ds1":
		if value, found := strings.CutPrefix(rest, first.text); found && first.text != "" {
			value = strings.TrimPrefix(strings.TrimLeft(value, " \t"), `"`)
			m.defined[first.text] = doc.CutRunes(r.visible(value), longestString)
		}
	case "SH", "Sh", "SS", "Ss":
		n := 1
		if len(args) == 0 && i+1 < len(r.lines) && !isRequest(r.lines[i+1]) {
			rest, n = r.lines[i+1], 2
		}
		level := map[bool]int{true: 1, false: 2}[name[1] == 'H' || name[1] == 'h']
		r.heading(level, strings.ReplaceAll(rest, `"`, " "), i)
		return n
	case "TH", "Dt":
		if r.d.Title == "" {
			r.d.Title = r.shown(first.text)
		}
	case "IP":
		if hanging && len(args) == 0 {
			r.b.Colon(at)
			break
		}
		r.b.EndBlock("\n\n")
		if tag := r.shown(first.text); strings.Contains(" • · - * o ", " "+tag+" ") {
			r.b.Marker = "- "
		} else {
			r.text(first.text, first.at)
			r.b.Colon(first.at + len(first.text))
		}
	case "PP", "P", "LP", "Pp", "sp", "TP", "TQ", "HP", "RE", "YS":
		r.b.EndBlock("\n\n")
	case "br":
		r.b.Gap("\n", at)
	case "RS": // DocBook has the text of a term in it
		r.b.Colon(at)
	case "nf", "EX":
		r.b.EndBlock("\n\n")
		r.code = "fi"
	case "fi", "EE":
		r.b.EndBlock("\n\n")
		r.code = ""
	case "TS":
		return m.table(r, i)
	default:
		m.emit(r, i, m.inline(r, name, args, at))
		m.endTerm(r, i)
	}
	return 1
}

// showsArguments reports whether a line of a macro shows one of its arguments.
func showsArguments(line string) bool {
	name := "B"
	if isRequest(line) {
		name, _ = requestOf(line)
	}
	return strings.Contains(line, `\$`) && strings.Contains(" B I SM SB BR RB IR RI BI IB if ie el ", " "+name+" ")
}

// inline returns the text of a request within a paragraph.
func (m *manual) inline(r *lightReader, name string, args []argument, at int) (parts []stretch) {
	made := func(text string, glued bool) stretch { return stretch{argument{text, at}, true, glued} }
	switch name {
	case "B", "I", "SM", "SB":
		for _, a := range args {
			parts = append(parts, stretch{argument: a})
		}
	case "BR", "RB", "IR", "RI", "BI", "IB":
		for n, a := range args {
			parts = append(parts, stretch{argument: a, glued: n > 0})
		}
	case "SY":
		r.b.EndBlock("\n\n")
		return m.inline(r, "B", args, at)
	case "OP":
		for n, a := range args {
			parts = append(parts, stretch{argument: a, glued: n == 0})
		}
		return append(append([]stretch{made("[", false)}, parts...), made("]", true))
	case "UR", "MT":
		m.url = ""
		if len(args) > 0 {
			m.url = r.visible(args[0].text)
		}
	case "UE", "ME":
		parts = append(linked(m.url, at), inGlue(args)...)
		m.url = ""
	case "URL", "MTO":
		if len(args) > 1 {
			parts = append(parts, stretch{argument: args[1]})
		}
		if len(args) > 0 {
			parts = append(parts, linked(r.visible(args[0].text), args[len(args)-1].at)...)
		}
		parts = append(parts, inGlue(args[min(2, len(args)):])...)
	default:
		if m.own[name] {
			return m.inline(r, "B", args, at)
		}
		return m.macro(r, name, args, at)
	}
	return parts
}

// linked returns an address as groff shows it, in the place of a request.
func linked(url string, at int) []stretch {
	if url == "" {
		return nil
	}
	return []stretch{{argument{"⟨" + url + "⟩", at}, true, false}}
}

// inGlue returns arguments that follow what stands before them without a space.
func inGlue(args []argument) (parts []stretch) {
	for _, a := range args {
		parts = append(parts, stretch{a, false, true})
	}
	return parts
}

// emit adds parts of line i to the paragraph, or as a line of code.
func (m *manual) emit(r *lightReader, i int, parts []stretch) {
	if r.code == "" {
		m.add(r, parts)
		return
	}
	var b strings.Builder
	for n, p := range parts {
		if n > 0 && !p.glued {
			b.WriteByte(' ')
		}
		b.WriteString(r.visible(p.text))
	}
	if b.Len() > 0 {
		r.verbatim(b.String(), i)
	}
}

// add adds parts to the paragraph. What is made stands behind the part before it.
func (m *manual) add(r *lightReader, parts []stretch) {
	behind := 0
	for _, p := range parts {
		p.at = max(p.at, behind)
		if !p.glued {
			r.b.Gap(" ", p.at)
		}
		if p.made {
			r.b.Atom(p.text, p.at, 0)
			continue
		}
		r.inline(p.text, p.at)
		behind = p.at + len(p.text)
	}
}

// table reads a table of tbl from its .TS on: a line for each row.
func (m *manual) table(r *lightReader, i int) int {
	separator, n := "\t", i+1
	if n < len(r.lines) && strings.HasSuffix(strings.TrimSpace(r.lines[n]), ";") {
		if _, tab, found := strings.Cut(r.lines[n], "tab("); found && tab != "" {
			separator = tab[:1]
		}
		n++
	}
	formats := func() {
		for n < len(r.lines) && !strings.HasSuffix(strings.TrimSpace(r.lines[n]), ".") && r.lines[n] != ".TE" {
			n++
		}
	}
	formats()
	r.b.BeginTable(build.OpenTable{})
	for n++; n < len(r.lines); n++ {
		r.b.Pulse.Beat()
		line := uncommented(r.lines[n])
		if isRequest(line) {
			name, _ := requestOf(line)
			if name == "TE" {
				n++
				break
			}
			if name == "T&" {
				formats()
			}
			continue
		}
		n = m.row(r, n, separator)
	}
	r.b.EndTable()
	return n - i
}

// row reads a row of a table, which may have blocks of text of several lines, and returns its last line.
func (m *manual) row(r *lightReader, n int, separator string) int {
	line, at := uncommented(r.lines[n]), r.starts[n]
	for more := true; more; {
		var cell string
		cell, line, more = strings.Cut(line, separator)
		switch body := strings.TrimSpace(cell); {
		case body == "T{":
			for n++; n < len(r.lines) && !strings.HasPrefix(r.lines[n], "T}"); n++ {
				r.b.Pulse.Beat()
				m.block(r, n)
			}
			if more = n < len(r.lines) && strings.HasPrefix(r.lines[n], "T}"+separator); more {
				line, at = r.lines[n][len("T}"+separator):], r.starts[n]+len("T}"+separator)
				r.b.Borders++
			}
			continue
		case strings.Trim(body, "_=") == "", body == `\^`: // a rule, or a cell that covers this one, too
		default:
			r.text(cell, at)
		}
		if at += len(cell) + len(separator); more {
			r.b.Borders++
		}
	}
	r.b.EndBlock("\n")
	r.b.Borders = 0
	r.b.EndRow(false)
	return n
}

// block adds a line of a cell of several lines.
func (m *manual) block(r *lightReader, n int) {
	line := uncommented(r.lines[n])
	if !isRequest(line) {
		r.text(line, r.starts[n])
		return
	}
	name, rest := requestOf(line)
	at := r.starts[n] + len(line) - len(rest)
	if name == "SY" || r.code != "" { // breaks no row
		return
	}
	m.add(r, m.inline(r, name, arguments(rest, at), at))
}
