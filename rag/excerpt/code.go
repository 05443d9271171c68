package excerpt

import (
	"slices"
	"strings"
	"unicode"
)

// isCode reports whether lines without a blank one between them are code: most of them look like it.
func isCode(lines []line) bool {
	like, indented := 0, 0
	for _, l := range lines {
		switch {
		case looksLikeCode(l.text):
			like++
		case strings.HasPrefix(l.text, "\t") || strings.HasPrefix(l.text, "    "):
			indented++ // what a line of code goes on with
		}
	}
	return len(lines) > 1 && like > 0 && 3*(like+min(indented, 2*like)) >= 2*len(lines)
}

// looksLikeCode reports whether a line has features that prose lacks. A line of prose may end in a semicolon, so that
// is not enough for a long one.
func looksLikeCode(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" {
		return false
	}
	for _, mark := range []string{"//", "/*", "*/", "#include", "#define", "#!", "@", "$ ", "<!--", "</"} {
		if strings.HasPrefix(text, mark) {
			return true
		}
	}
	for _, mark := range []string{":=", " = ", " += ", " == ", " != ", " => ", " -> ", "::", "()", "({", "</", " && "} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	last := text[len(text)-1]
	if strings.IndexByte("{}", last) >= 0 || text[0] == '[' && last == ']' && !strings.Contains(text, " ") {
		return true
	}
	if strings.HasSuffix(text, ");") || strings.HasSuffix(text, "):") || strings.HasSuffix(text, "),") &&
		!strings.Contains(text, " (") {
		return true
	}
	if i := strings.IndexByte(text, '('); i > 0 && last == ')' && strings.IndexByte(text[:i], ' ') < 0 { // a call
		return true
	}
	few := strings.Count(text, " ") < 4
	switch first, _, _ := strings.Cut(text, " "); first {
	case "func", "def", "fn", "package", "return", "const", "var", "let", "pub", "public", "private", "static", "elif":
		return few || last == ';' || last == ':' || last == '('
	case "import", "from", "use", "type", "class", "if", "else", "for", "while", "struct":
		return last == ';' || last == ':' && few || last == '('
	}
	return few && last == ';'
}

// code adds a unit for each statement: a line with those that are indented below it, or close what it opened, and with
// the comments before it. A longer one is cut between its lines, and a longer line as a sentence is.
func (s *splitter) code(b block) {
	var group []line
	words, depth, comment := 0, 0, false
	flush := func() {
		if len(group) > 0 {
			last := group[len(group)-1]
			s.addCode(group[0].start, last.start+len(last.text), len(group) > 1)
		}
		group, words = nil, 0
	}
	for _, l := range b.lines {
		body := strings.TrimSpace(l.text)
		if body == "" {
			flush()
			continue
		}
		indent := len(l.text) - len(strings.TrimLeft(l.text, " \t"))
		n := len(starts(l.text))
		if len(group) > 0 && (words+n > mostWords || !comment && indent <= depth && !closes(body)) {
			flush()
		}
		if len(group) == 0 || comment {
			depth = indent
		}
		group, words, comment = append(group, l), words+n, isComment(body)
	}
	flush()
}

// addCode adds lines of code; several keep the indent of the first.
func (s *splitter) addCode(start, end int, several bool) {
	text := s.passage[start:end]
	end = start + len(strings.TrimRightFunc(text, unicode.IsSpace))
	if several && len(starts(text)) <= mostWords {
		if strings.ContainsFunc(text, isWord) {
			s.units = append(s.units, Sentence{Text: s.passage[start:end], Start: start, End: end, Code: true})
		}
		return
	}
	s.add(Sentence{Start: start, End: end, Code: true})
}

// closes reports whether a line ends what a line before it opened.
func closes(body string) bool {
	switch body {
	case "end", "fi", "done", "esac":
		return true
	}
	return strings.IndexByte("})]", body[0]) >= 0
}

// isComment reports whether a line of code says something of the next one.
func isComment(body string) bool {
	return slices.ContainsFunc([]string{"//", "#", "/*", "* ", "--", "@"},
		func(mark string) bool { return strings.HasPrefix(body, mark) })
}
