package chunk

import (
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// lead is the text repeated at the beginning of a chunk that begins within a table or a block of code: the context of
// the rest.
type lead struct {
	heading string // of the chunk, with the enclosing declarations
	text    string // rows that name the columns, and the caption
	tokens  int    // that it takes in addition to the section's heading
	from    int    // chunks that begin at or behind this offset have it
}

// tableLead returns the lead of the chunks of a table: its caption and the rows that name its columns if they take at
// most half of room tokens, else those rows, else nothing.
func (s *splitter) tableLead(table int32, room int) (lead, error) {
	t := s.d.Tables[table-1]
	caption := strings.TrimSpace(s.d.Text[t.Caption.Start:t.Caption.End])
	head := strings.TrimSpace(s.d.Text[t.Head.Start:t.Head.End])
	for _, text := range []string{strings.TrimSpace(caption + "\n" + head), head} {
		if text == "" || len(text) > s.o.Size*BytesPerToken/4 {
			continue
		}
		n, err := s.count(text)
		if err != nil {
			return lead{}, err
		}
		if n -= s.special; n <= room/2 {
			return lead{text: text, tokens: n, from: max(t.Head.End, t.Caption.End)}, nil
		}
	}
	return lead{}, nil
}

// leadOf returns the lead of the chunk that begins with u.
func (s *splitter) leadOf(p *part, u unit) (lead, error) {
	switch {
	case u.table != 0 && u.row == 0 && p.lead.tokens > 0 && u.Start >= p.lead.from &&
		u.Start < s.d.Tables[u.table-1].End:
		l := p.lead
		l.heading = p.heading
		return l, nil
	case u.code && u.cost != cutFree && p.Line == 0:
		return s.codeLead(p, u)
	}
	return lead{heading: p.heading}, nil
}

// pieceLead returns the lead of a chunk of cells: the names of their columns.
func (s *splitter) pieceLead(p *part, first, last unit) lead {
	l := lead{heading: p.heading}
	t := s.d.Tables[first.table-1]
	row := doc.Span{Start: first.row - 1, End: t.End}
	names := s.columns(t, row, last.cell+1)
	if names == nil {
		return l
	}
	l.text = strings.TrimSuffix(s.d.Text[names[first.cell].Start:names[last.cell].End], " |")
	return l
}

// signatureBytes is how many bytes before a line of code are searched for the declarations around it.
const signatureBytes = 16 << 10

// codeLead returns the section's heading with the declarations around a line of a block of code.
func (s *splitter) codeLead(p *part, u unit) (lead, error) {
	plain := lead{heading: p.heading}
	path := enclosing(s.d.Text[max(p.Start, u.Start-signatureBytes):u.Start], s.d.Text[u.Start:u.End])
	if len(path) == 0 {
		return plain, nil
	}
	heading := strings.Join(append(slices.DeleteFunc([]string{p.heading}, func(h string) bool { return h == "" }),
		path...), pathSeparator)
	n, err := s.count(heading)
	if err != nil || n-p.base > (s.o.Size-p.base)/4 {
		return plain, err
	}
	return lead{heading: heading, tokens: max(n-p.base, 0)}, nil
}

// enclosing returns the declarations around a line of code, outermost first: preceding lines with a smaller indent.
func enclosing(before, line string) (path []string) {
	width := doc.IndentOf(line)
	for width > 0 && before != "" {
		before = strings.TrimSuffix(before, "\n")
		at := strings.LastIndexByte(before, '\n') + 1
		prev := strings.TrimRightFunc(before[at:], unicode.IsSpace)
		before = before[:at]
		first := strings.TrimLeft(prev, " \t")
		if first == "" || doc.IndentOf(prev) >= width || isCloser(first) || isAttached(first) {
			continue
		}
		width = doc.IndentOf(prev)
		if opensScope(first) {
			path = append(path, doc.Signature(first))
		}
	}
	slices.Reverse(path)
	return path
}

// opensScope reports whether a line declares the scope of the more indented lines behind it.
func opensScope(line string) bool {
	if isDeclaration(line) {
		return true
	}
	switch doc.FirstWord(line) {
	case "if", "for", "while", "switch", "case", "do", "try", "with", "return", "match", "when", "select", "loop", "go",
		"defer", "default", "unless", "until", "begin", "foreach", "using", "lock", "":
		return false
	}
	return strings.HasSuffix(line, "{") && strings.Contains(line, "(")
}
