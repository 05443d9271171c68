package code

import (
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// lineSyntax describes languages whose functions are found line by line: a function begins with an opening line and
// ends with a closing line of the same indent.
type lineSyntax struct {
	opens    *regexp.Regexp // a line without its indent; its groups make the name
	closes   *regexp.Regexp // as opens
	whole    *regexp.Regexp // an opening line that is a whole declaration; nil: there are no such lines
	comment  string         // what a line of comment begins with
	contains *regexp.Regexp // an opening line within which others are looked for; nil: no such lines
}

var (
	rubySyntax = lineSyntax{
		opens: regexp.MustCompile(`^((?:private |protected |public )?` +
			`(?:class *<< *\w+|(?:def|class|module) +[^\s(;=]+))`),
		closes:   regexp.MustCompile(`^end\b`),
		whole:    regexp.MustCompile(`(?:;|\s)end\s*(?:#.*)?$|^def +[^\s(=]+(?:\([^)]*\))? = `),
		comment:  "#",
		contains: regexp.MustCompile(`^(class|module)\b`),
	}
	shellSyntax = lineSyntax{
		opens:   regexp.MustCompile(`^((?:function +)?[\w:.-]+ *\( *\)|function +[\w:.-]+)`),
		closes:  regexp.MustCompile(`^[})]`),
		whole:   regexp.MustCompile(`^[^{(]*(?:\( *\))?\s*[{(].+[})]\s*(?:#.*)?$`),
		comment: "#",
	}
	luaSyntax = lineSyntax{
		opens:   regexp.MustCompile(`^((?:local +)?function +[\w.:]+|(?:local +)?[\w.]+ *= *function)`),
		closes:  regexp.MustCompile(`^end\b`),
		whole:   regexp.MustCompile(`\bend[\s,;)]*(?:--.*)?$`),
		comment: "--",
	}
	perlSyntax = lineSyntax{
		opens:   regexp.MustCompile(`^(sub +[\w:]+)`),
		closes:  regexp.MustCompile(`^}`),
		whole:   regexp.MustCompile(`}\s*(?:#.*)?$`),
		comment: "#",
	}
)

// openLine is a declaration whose end has not been found yet.
type openLine struct {
	declaration
	indent   int
	contains bool
}

// maxCodeLine bounds the bytes of a line of code that are examined.
const maxCodeLine = 1000

// lineOutline finds declarations by their first and last lines.
func lineOutline(text string, s lineSyntax, p *doc.Pulse) (out []declaration) {
	var open []openLine
	at, lead := 0, -1 // lead: start of the comment directly before the line
	for line := range strings.Lines(text) {
		p.Beat()
		start := at
		at += len(line)
		body := strings.TrimSpace(line[:min(len(line), maxCodeLine)])
		switch {
		case body == "":
			lead = -1
			continue
		case strings.HasPrefix(body, s.comment):
			if lead < 0 && !strings.HasPrefix(body, "#!") {
				lead = start
			}
			continue
		}
		from, indent := start, doc.IndentOf(line)
		if lead >= 0 {
			from = lead
		}
		lead = -1
		if n := len(open); n > 0 && open[n-1].indent == indent && s.closes.MatchString(body) {
			d := open[n-1].declaration
			d.end = start + len(strings.TrimRight(line, "\r\n"))
			out, open = append(out, d), open[:n-1]
			continue
		}
		if n := len(open); n > 0 && (!open[n-1].contains || n > maxScopes) {
			continue
		}
		if m := s.opens.FindStringSubmatch(body); m != nil {
			d := declaration{start: from, end: start + len(strings.TrimRight(line, "\r\n")), name: doc.Signature(m[1])}
			if s.whole != nil && s.whole.MatchString(body) {
				out = append(out, d)
				continue
			}
			open = append(open, openLine{d, indent, s.contains != nil && s.contains.MatchString(body)})
		}
	}
	return out
}

var pythonOpens = regexp.MustCompile(`^((?:async +)?def +\w+|class +\w+)`)

// pythonOutline finds functions, classes and their methods by their indent, with the decorators and comments above
// them.
func pythonOutline(text string, p *doc.Pulse) (out []declaration) {
	var open []openLine
	at, lead, last := 0, -1, 0 // last: the end of the last line that is not blank
	var in pythonState
	closeTo := func(indent int) {
		for n := len(open); n > 0 && open[n-1].indent >= indent; n = len(open) {
			d := open[n-1].declaration
			d.end = last
			out, open = append(out, d), open[:n-1]
		}
	}
	for line := range strings.Lines(text) {
		p.Beat()
		start, inside := at, in.inside()
		at += len(line)
		body := strings.TrimSpace(line)
		in.read(line)
		switch {
		case inside: // within a string or brackets
			last = start + len(strings.TrimRight(line, "\r\n"))
			continue
		case body == "":
			lead = -1
			continue
		case body[0] == '#' || body[0] == '@':
			if lead < 0 {
				lead = start
			}
			if body[0] == '@' {
				closeTo(doc.IndentOf(line))
			}
			continue
		}
		from, indent := start, doc.IndentOf(line)
		if lead >= 0 {
			from = lead
		}
		lead = -1
		closeTo(indent)
		last = start + len(strings.TrimRight(line, "\r\n"))
		if n := len(open); n > 0 && (!open[n-1].contains || n > maxScopes) {
			continue
		}
		if m := pythonOpens.FindString(body[:min(len(body), maxCodeLine)]); m != "" {
			open = append(open, openLine{declaration{start: from, name: doc.Signature(m)}, indent,
				strings.HasPrefix(m, "class")})
		}
	}
	closeTo(0)
	return out
}

// pythonState tracks whether a line ends within a string of three quotes or within brackets.
type pythonState struct {
	quote  string
	depth  int
	joined bool // the line ends with a backslash
}

func (s *pythonState) inside() bool { return s.quote != "" || s.depth > 0 || s.joined }

// read goes through a line.
func (s *pythonState) read(line string) {
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		if s.quote != "" {
			switch {
			case rest[0] == '\\':
				i++
			case strings.HasPrefix(rest, s.quote):
				i += len(s.quote) - 1
				s.quote = ""
			}
			continue
		}
		switch c := rest[0]; c {
		case '#':
			i = len(line)
		case '"', '\'':
			if len(rest) > 2 && rest[1] == c && rest[2] == c {
				s.quote = rest[:3]
				i += 2
			} else {
				s.quote = rest[:1]
			}
		case '(', '[', '{':
			s.depth++
		case ')', ']', '}':
			s.depth = max(s.depth-1, 0)
		}
	}
	s.joined = strings.HasSuffix(strings.TrimRight(line, "\r\n"), "\\")
	if len(s.quote) == 1 && !s.joined { // an unclosed string
		s.quote = ""
	}
}
