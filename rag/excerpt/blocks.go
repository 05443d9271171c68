package excerpt

import (
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/rag/corpus/build"
)

// block is a table or a block of code in a passage.
type block struct {
	start, end int // bytes
	code       bool
	lines      []line
	cells      func(string) []string // of a table
}

// line is a line of a passage, with its end of line.
type line struct {
	start int
	text  string
}

// blocks finds the tables and the code of a passage; what lies between them is prose.
func blocks(passage string) (list []block) {
	var paragraph []line
	flush := func() {
		list = append(list, inParagraph(paragraph)...)
		paragraph = nil
	}
	fence := "" // that the block of code ends with
	at := 0
	for text := range strings.Lines(passage) {
		l := line{at, text}
		at += len(text)
		mark := fenceOf(text)
		switch {
		case fence != "":
			b := &list[len(list)-1]
			b.end = at
			if strings.HasPrefix(mark, fence) && strings.TrimSpace(text) == mark {
				fence = ""
			} else {
				b.lines = append(b.lines, l)
			}
		case mark != "":
			flush()
			fence = mark
			list = append(list, block{start: l.start, end: at, code: true})
		case strings.TrimSpace(text) == "":
			flush()
		default:
			paragraph = append(paragraph, l)
		}
	}
	flush()
	return list
}

// fenceOf returns the run of back-quotes or tildes that a line begins or ends a block of code with, as in Markdown.
func fenceOf(text string) string {
	text = strings.TrimSpace(text)
	for _, c := range []string{"`", "~"} {
		if n := len(text) - len(strings.TrimLeft(text, c)); n >= 3 && !strings.Contains(text[n:], c) {
			return text[:n]
		}
	}
	return ""
}

// inParagraph finds the tables among lines without a blank one between them, or takes all of them for code.
func inParagraph(lines []line) (list []block) {
	if sameName(lines) {
		return []block{newBlock(lines, false, func(text string) []string { return []string{text} })}
	}
	if len(lines) > 0 && isCode(lines) && !isTable(lines) {
		return []block{newBlock(lines, true, nil)}
	}
	for _, way := range []struct {
		cells func(string) []string
		least int // lines of a table
		same  bool
	}{{piped, 2, false}, {tabbed, 2, true}, {spaced, 3, true}} {
		for from := 0; from < len(lines); {
			n := len(way.cells(lines[from].text))
			to := from + 1
			for to < len(lines) && n > 1 {
				m := len(way.cells(lines[to].text))
				if m < 2 || way.same && m != n {
					break
				}
				to++
			}
			if n > 1 && to-from >= way.least {
				list = append(list, newBlock(lines[from:to], false, way.cells))
			}
			from = to
		}
		if len(list) > 0 {
			break
		}
	}
	return list
}

// sameName reports whether each line is "name: value" of one name, as our own chunks have tables of one column.
func sameName(lines []line) bool {
	if len(lines) < 2 {
		return false
	}
	name, _, ok := strings.Cut(lines[0].text, ": ")
	if !ok || strings.HasPrefix(name, "- ") || strings.ContainsAny(name, ".!?") {
		return false
	}
	return !slices.ContainsFunc(lines, func(l line) bool { return !strings.HasPrefix(l.text, name+": ") })
}

// isTable reports whether each line names its cells, as rows of our own chunks do: what looks like code in them is
// data.
func isTable(lines []line) bool {
	return !slices.ContainsFunc(lines, func(l line) bool {
		cells := piped(l.text)
		return len(cells) < 2 || !strings.Contains(cells[0]+cells[1], ": ")
	})
}

func newBlock(lines []line, code bool, cells func(string) []string) block {
	last := lines[len(lines)-1]
	return block{lines[0].start, last.start + len(last.text), code, lines, cells}
}

// piped returns the cells of a row with borders of "|" between them, as Markdown and our own chunks have them; one line
// of "|---|---|" has cells, too.
func piped(text string) []string {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "||") && !strings.HasPrefix(text, "|") {
		return nil
	}
	if !strings.HasPrefix(text, "|") && !strings.Contains(text, " | ") && !isRule(text) {
		return nil
	}
	if isRule(text) {
		return strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '+' })
	}
	return cut(strings.Split(strings.Trim(text, "|"), "|"))
}

// tabbed returns the cells of a row with tabs between them.
func tabbed(text string) []string {
	if strings.HasPrefix(text, "\t") {
		return nil
	}
	return cut(strings.FieldsFunc(text, func(r rune) bool { return r == '\t' }))
}

// spaced returns the cells of a row with two spaces or more between them, unless one ends like a sentence.
func spaced(text string) []string {
	cells := cut(strings.Split(strings.TrimSpace(text), "  "))
	cells = slices.DeleteFunc(cells, func(cell string) bool { return cell == "" })
	for _, cell := range cells[:max(len(cells)-1, 0)] {
		if strings.ContainsAny(cell[len(cell)-1:], ".!?,;") {
			return nil
		}
	}
	return cells
}

// cut takes white space off cells.
func cut(cells []string) []string {
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(cell)
	}
	return cells
}

// isRule reports whether a line is made of what tables draw their lines with.
func isRule(text string) bool {
	return strings.Trim(text, "-=+:| \t\r\n") == "" && strings.ContainsAny(text, "-=+")
}

// table adds a unit for each row, with the rows that name the columns; these say nothing alone.
func (s *splitter) table(b block) {
	rows := slices.DeleteFunc(slices.Clone(b.lines), func(l line) bool { return isRule(l.text) })
	if len(rows) == 0 {
		return
	}
	head := Span{}
	n := headerOf(b, rows)
	if n > 0 {
		last := rows[n-1]
		head = Span{rows[0].start, last.start + len(last.text)}
		if rule, ok := ruleBelow(b, last); ok { // which makes it a table in Markdown
			head.End = rule.start + len(rule.text)
		}
		head.End = head.Start + len(strings.TrimRightFunc(s.passage[head.Start:head.End], unicode.IsSpace))
		if len(starts(s.passage[head.Start:head.End])) > mostWords {
			head, n = Span{}, 0
		}
	}
	for _, l := range rows[n:] {
		s.add(Sentence{Start: l.start, End: l.start + len(l.text), Columns: head})
	}
}

// headerOf returns how many of the first rows of a table name its columns.
func headerOf(b block, rows []line) int {
	var first [][]string
	for _, l := range rows[:min(len(rows), 3)] {
		first = append(first, b.cells(l.text))
	}
	if len(rows) < 2 || named(first[0]) {
		return 0
	}
	n := build.HeaderRows(first)
	if _, ok := ruleBelow(b, rows[0]); ok {
		return max(n, 1)
	}
	return n
}

// ruleBelow returns the line of dashes that follows a row, if one does.
func ruleBelow(b block, row line) (rule line, ok bool) {
	i := slices.IndexFunc(b.lines, func(l line) bool { return l.start > row.start })
	if i < 0 || !isRule(b.lines[i].text) {
		return line{}, false
	}
	return b.lines[i], true
}

// named reports whether the cells of a row say what they are, as in "port: Narvik".
func named(cells []string) bool {
	return !slices.ContainsFunc(cells, func(c string) bool { return c != "" && !strings.Contains(c, ": ") })
}
