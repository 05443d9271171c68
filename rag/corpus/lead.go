package corpus

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lead is what a chunk begins with that begins within a table or a block of code: what says what the rest is about.
type lead struct {
	heading string // of the chunk, with the declarations around it
	text    string // rows that name the columns, and the caption
	tokens  int    // that it takes besides the section's heading
	from    int    // chunks that begin from there on have it
}

// tableLead is what the chunks of a table repeat: its caption and the rows that name its columns if they take at most
// half of room tokens, else those rows, else nothing.
func (s *splitter) tableLead(table int32, room int) (lead, error) {
	t := s.d.tables[table-1]
	caption := strings.TrimSpace(s.d.Text[t.caption.start:t.caption.end])
	head := strings.TrimSpace(s.d.Text[t.head.start:t.head.end])
	for _, text := range []string{strings.TrimSpace(caption + "\n" + head), head} {
		if text == "" || len(text) > s.o.Size*BytesPerToken/4 {
			continue
		}
		n, err := s.count(text)
		if err != nil {
			return lead{}, err
		}
		if n -= s.special; n <= room/2 {
			return lead{text: text, tokens: n, from: max(t.head.end, t.caption.end)}, nil
		}
	}
	return lead{}, nil
}

// leadOf is what the chunk that begins with u repeats.
func (s *splitter) leadOf(p *part, u unit) (lead, error) {
	switch {
	case u.table != 0 && u.row == 0 && p.lead.tokens > 0 && u.start >= p.lead.from &&
		u.start < s.d.tables[u.table-1].end:
		l := p.lead
		l.heading = p.heading
		return l, nil
	case u.code && u.cost != cutFree && p.line == 0:
		return s.codeLead(p, u)
	}
	return lead{heading: p.heading}, nil
}

// pieceLead is what a chunk of cells repeats: the names of their columns.
func (s *splitter) pieceLead(p *part, first, last unit) lead {
	l := lead{heading: p.heading}
	t := s.d.tables[first.table-1]
	row := span{first.row - 1, t.end}
	names := s.columns(t, row, last.cell+1)
	if names == nil {
		return l
	}
	l.text = strings.TrimSuffix(s.d.Text[names[first.cell].start:names[last.cell].end], " |")
	return l
}

// signatureBytes is how far before a line of code the declarations around it are looked for, and maxSignature how many
// characters of one are kept.
const (
	signatureBytes = 16 << 10
	maxSignature   = 120
)

// codeLead is the section's heading with the declarations around a line of a block of code.
func (s *splitter) codeLead(p *part, u unit) (lead, error) {
	plain := lead{heading: p.heading}
	path := enclosing(s.d.Text[max(p.Start, u.start-signatureBytes):u.start], s.d.Text[u.start:u.end])
	if len(path) == 0 {
		return plain, nil
	}
	heading := strings.Join(append(slices.DeleteFunc([]string{p.heading}, func(h string) bool { return h == "" }),
		path...),
		pathSeparator)
	n, err := s.count(heading)
	if err != nil || n-p.base > (s.o.Size-p.base)/4 {
		return plain, err
	}
	return lead{heading: heading, tokens: max(n-p.base, 0)}, nil
}

// enclosing returns the declarations that a line of code is within, outermost first: lines before it that are indented
// less.
func enclosing(before, line string) (path []string) {
	width := indentOf(line)
	for width > 0 && before != "" {
		before = strings.TrimSuffix(before, "\n")
		at := strings.LastIndexByte(before, '\n') + 1
		prev := strings.TrimRightFunc(before[at:], unicode.IsSpace)
		before = before[:at]
		first := strings.TrimLeft(prev, " \t")
		if first == "" || indentOf(prev) >= width || isCloser(first) || isAttached(first) {
			continue
		}
		width = indentOf(prev)
		if opensScope(first) {
			path = append(path, signature(first))
		}
	}
	slices.Reverse(path)
	return path
}

// opensScope tells whether a line declares what the more indented ones behind it belong to.
func opensScope(line string) bool {
	if isDeclaration(line) {
		return true
	}
	switch firstWord(line) {
	case "if", "for", "while", "switch", "case", "do", "try", "with", "return", "match", "when", "select", "loop", "go",
		"defer", "default", "unless", "until", "begin", "foreach", "using", "lock", "":
		return false
	}
	return strings.HasSuffix(line, "{") && strings.Contains(line, "(")
}

// signature shortens the line of a declaration.
func signature(line string) string {
	line = strings.TrimRight(strings.TrimSpace(line), " {:")
	line = strings.Join(strings.Fields(line), " ")
	if utf8.RuneCountInString(line) > maxSignature {
		line = cutRunes(line, maxSignature) + "…"
	}
	return line
}
