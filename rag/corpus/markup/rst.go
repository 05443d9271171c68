package markup

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/drawn"
)

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
		r.b.EndBlock("\n\n")
	case strings.HasPrefix(body, "+-") || strings.HasPrefix(body, "=="):
		if n := r.drawnTable(i); n > 0 {
			return n
		}
		r.line(i, "")
	case strings.HasPrefix(body, "| "):
		r.b.EndBlock("\n")
		r.text(body[2:], r.starts[i]+len(line)-len(body)+2)
	case strings.HasPrefix(body, ".. "):
		r.b.EndBlock("\n\n")
		return s.directive(r, i, body[3:])
	case strings.HasPrefix(body, ":") && strings.Contains(body[1:], ": "):
		r.b.EndBlock("\n")
		r.line(i, "")
	case strings.HasSuffix(body, "::"):
		if body != "::" {
			r.lines[i] = strings.TrimSuffix(strings.TrimRight(line, " "), ":")
			r.line(i, "*-+")
		}
		return 1 + r.indented(i+1, r.contentIndent(i))
	default:
		isTerm := body != "" && strings.IndexByte("*-+#|(0123456789", body[0]) < 0 && isFurtherIn(next, line)
		if isTerm && i > 0 && isFurtherIn(r.lines[i-1], line) {
			r.b.EndBlock("\n")
		}
		isTerm = isTerm && !r.b.Open
		if r.line(i, "*-+"); isTerm {
			r.b.Colon(r.starts[i] + len(line))
		}
	}
	return 1
}

// joinMarks puts lines together where a mark of one backtick or two begins in one and ends in a later one.
func (r *lightReader) joinMarks() {
	n := 0
	for i := 0; i < len(r.lines); i++ {
		line, at := r.lines[i], r.starts[i]
		for more := 0; more < mostJoined && (strings.Count(line, "``")%2 == 1 || strings.Count(line, "`")%2 == 1) &&
			i+1 < len(r.lines) && r.lines[i+1] != "" && !adorns(r.lines[i+1]); more++ {
			i++
			line = r.src[at : r.starts[i]+len(r.lines[i])]
		}
		r.lines[n], r.starts[n] = line, at
		n++
	}
	r.lines, r.starts = r.lines[:n], r.starts[:n]
}

// mostJoined is how many lines are joined to one at most.
const mostJoined = 4

// contentIndent returns the indent of a line, or of its text behind the mark of an item where what follows is further
// in than that.
func (r *lightReader) contentIndent(i int) int {
	line := r.lines[i]
	indent := doc.IndentOf(line)
	next := i + 1
	for next < len(r.lines) && r.lines[next] == "" {
		next++
	}
	mark := itemMark.FindString(line[len(line)-len(strings.TrimLeft(line, " ")):])
	if next < len(r.lines) && doc.IndentOf(r.lines[next]) > indent+len(mark) {
		indent += len(mark)
	}
	return indent
}

var itemMark = regexp.MustCompile(`^(?:[*+-]|(?:\d{1,4}|[A-Za-z#])[.)])\s+`)

// namesNoText are directives behind which a name or a path stands, not text.
const namesNoText = " container rst-class figure include contents highlight index only role default-role " +
	"tabularcolumns autosummary "

func isOption(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), ":") }

// isFurtherIn reports whether a line has text that is indented by more than another.
func isFurtherIn(line, other string) bool {
	return strings.TrimSpace(line) != "" && doc.IndentOf(line) > doc.IndentOf(other)
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

// rstNote is the label of a footnote or citation, with white space behind it.
var rstNote = regexp.MustCompile(`^\[[^\[\]\s]+\]\s`)

// directive reads a line behind two dots: a note, code, or a directive that contains text; comments, targets and images
// are skipped.
func (s *rst) directive(r *lightReader, i int, body string) int {
	indent := doc.IndentOf(r.lines[i])
	name, rest, is := strings.Cut(body, "::")
	name = strings.TrimSuffix(name, " ")
	switch {
	case rstNote.MatchString(body):
		r.text(body, r.starts[i]+len(r.lines[i])-len(body))
		return 1
	case is && (name == "code-block" || name == "code" || name == "sourcecode" || name == "literalinclude" ||
		name == "parsed-literal" || name == "math"):
		if rest = strings.TrimSpace(rest); name == "math" && rest != "" {
			r.text(rest, r.starts[i]+strings.LastIndex(r.lines[i], rest))
		}
		return 1 + r.indented(i+1, indent)
	case is && name == "list-table":
		n, header := i+1, false
		for ; n < len(r.lines) && isFurtherIn(r.lines[n], r.lines[i]) && isOption(r.lines[n]); n++ {
			header = header || strings.Contains(r.lines[n], ":header-rows: ") && !strings.HasSuffix(r.lines[n], " 0")
		}
		if rest = strings.TrimSpace(rest); rest != "" {
			r.text(rest, r.starts[i]+strings.LastIndex(r.lines[i], rest))
			r.b.EndBlock("\n\n")
		}
		return r.listTable(n, indent, header) - i
	case is && name != "image" && name != "toctree" && name != "raw" && !strings.Contains(name, " "):
		n := i + 1
		for n < len(r.lines) && isFurtherIn(r.lines[n], r.lines[i]) && isOption(r.lines[n]) {
			n++
		}
		if rest = strings.TrimSpace(rest); rest != "" && !doc.OneOf(name, namesNoText) {
			r.text(rest, r.starts[i]+strings.LastIndex(r.lines[i], rest))
			if n+1 < len(r.lines) && r.lines[n] == "" && isFurtherIn(r.lines[n+1], r.lines[i]) &&
				!strings.HasPrefix(strings.TrimSpace(r.lines[n+1]), "..") {
				r.b.Colon(r.starts[i] + len(r.lines[i])) // it describes what it names
				return n + 1 - i
			}
			r.b.EndBlock("\n\n")
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
	r.b.EndBlock("\n\n")
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
	r.b.EndBlock("\n\n")
	return n
}

// drawnTable reads a table of reStructuredText that begins with a line, and returns how many lines it has, 0 for none.
func (r *lightReader) drawnTable(i int) int {
	d := drawn.Drawing{Src: r.src, Indent: doc.IndentOf(r.lines[i])}
	t, ok := d.Grid(r.starts[i])
	if !ok {
		t, ok = d.Simple(r.starts[i])
	}
	if !ok {
		return 0
	}
	r.table(t)
	n := 0
	for i+n < len(r.lines) && r.starts[i+n] < t.End {
		n++
	}
	return n
}

// listTable reads the list of lists that is a table of reStructuredText, below the options of its directive, and
// returns behind which line it ends.
func (r *lightReader) listTable(i, indent int, header bool) (end int) {
	var t drawn.Table
	column := -1 // in which the rows begin
	for end = i; end < len(r.lines) && (r.lines[end] == "" || doc.IndentOf(r.lines[end]) > indent); end++ {
		body := strings.TrimLeft(r.lines[end], " ")
		at := doc.IndentOf(r.lines[end])
		text, isRow := body, false
		if cell, ok := strings.CutPrefix(body, "* "); ok && (column < 0 || at == column) {
			t.Rows = append(t.Rows, nil)
			text, isRow, column = strings.TrimLeft(cell, " "), true, at
		}
		item, isCell := strings.CutPrefix(text, "-")
		isCell = isCell && (isRow || at == column+2) && (item == "" || item[0] == ' ')
		if isCell {
			text = strings.TrimLeft(item, " ")
		}
		if len(t.Rows) == 0 {
			continue
		}
		row := &t.Rows[len(t.Rows)-1]
		if isCell {
			*row = append(*row, nil)
		}
		if n := len(*row); n > 0 && text != "" {
			to := r.starts[end] + len(r.lines[end])
			(*row)[n-1] = append((*row)[n-1], doc.Span{Start: to - len(text), End: to})
		}
	}
	if header && len(t.Rows) > 1 {
		t.Header = 1
	}
	r.table(t)
	return end
}
