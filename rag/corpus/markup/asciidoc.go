package markup

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/drawn"
)

// asciidocMark finds inline markup of AsciiDoc.
var asciidocMark = regexp.MustCompile("``([^`]+)``|`([^`]+)`|(?:linkgit|man):([\\w.{}-]+)\\[\\d\\]|" +
	`(?:https?://|link:|xref:)\S*?\[([^\]]*)\]|<<[^<>,]*,([^<>]*)>>|<<([^<>,]*)>>|\[\[[^\]]*\]\]|` +
	`\*([^*\s][^*]*)\*|\{(caret|plus|tilde|asterisk|lt|gt|amp|litdd|nbsp|startsb|endsb|vbar|backtick|apostrophe|empty)\}`)

// asciidocText returns the visible text of a match of asciidocMark.
func asciidocText(match string) string {
	if strings.HasPrefix(match, "{") {
		return asciidocNames.Replace(match)
	}
	return asciidocNames.Replace(groupOf(asciidocMark, match))
}

// asciidocNames puts characters in place of the names that AsciiDoc has for them.
var asciidocNames = strings.NewReplacer("{caret}", "^", "{plus}", "+", "{tilde}", "~", "{asterisk}", "*", "{lt}", "<",
	"{gt}", ">", "{amp}", "&", "{litdd}", "--", "{nbsp}", " ", "{startsb}", "[", "{endsb}", "]", "{vbar}", "|",
	"{backtick}", "`", "{apostrophe}", "'", "{empty}", "")

// underlined returns the level of a heading that the next line underlines, 0 if it does not.
func (r *lightReader) underlined(i int) int {
	if i+1 == len(r.lines) || i > 0 && strings.TrimSpace(r.lines[i-1]) != "" && !strings.HasPrefix(r.lines[i-1], "[") {
		return 0
	}
	title, under := strings.TrimRight(r.lines[i], " "), strings.TrimRight(r.lines[i+1], " ")
	if len(under) < 2 || strings.Trim(under, under[:1]) != "" || !strings.ContainsFunc(title, unicode.IsLetter) {
		return 0
	}
	if n := len(under) - utf8.RuneCountInString(title); n < -1 || n > 1 {
		return 0
	}
	return 1 + strings.IndexByte("=-~^+", under[0])
}

func asciidoc(r *lightReader, i int) int {
	line := r.lines[i]
	if r.inCode(i, func(line string) bool { return strings.TrimSpace(line) == r.code }) {
		return 1
	}
	marks := len(line) - len(strings.TrimLeft(line, "="))
	switch body := strings.TrimSpace(line); {
	case r.underlined(i) > 0:
		r.heading(r.underlined(i), body, i)
		return 2
	case marks > 0 && marks < 7 && len(line) > marks && line[marks] == ' ':
		r.heading(marks, line[marks:], i)
	case len(body) >= 4 && (strings.Trim(body, "-") == "" || strings.Trim(body, ".") == ""):
		r.b.EndBlock("\n\n")
		r.code = body
	case strings.HasPrefix(body, "[") && strings.HasSuffix(body, "]"), strings.HasPrefix(body, "//"), body == "+",
		strings.HasPrefix(body, ":") && strings.Contains(body[1:], ":"), strings.HasPrefix(body, "include::"),
		len(body) >= 4 && strings.Trim(body, body[:1]) == "" && strings.Contains("=*_", body[:1]):
		r.b.EndBlock("\n\n")
	case body == "|===" || body == "!===":
		return 1 + r.barTable(i+1, body)
	case definesTerm.MatchString(body):
		m := definesTerm.FindStringSubmatchIndex(body)
		r.b.EndBlock("\n")
		at := r.starts[i] + strings.Index(line, body)
		r.text(body[:m[3]], at)
		r.b.Colon(at + m[3])
		if m[4] < m[5] {
			r.text(body[m[4]:m[5]], at+m[4])
		} else if i+1 < len(r.lines) && r.lines[i+1] == "" {
			return 2
		}
	case len(body) > 1 && body[0] == '.' && body[1] != '.' && body[1] != ' ':
		r.b.EndBlock("\n\n")
		r.text(body[1:], r.starts[i]+strings.Index(line, body)+1)
		r.b.EndBlock("\n\n")
	default:
		r.line(i, "*-.")
	}
	return 1
}

// definesTerm finds a term of AsciiDoc, and what defines it in the same line.
var definesTerm = regexp.MustCompile(`^([^:\s][^\n]{0,200}?)(?:::|;;)(?:\s+(\S.*)|())$`)

// cellSpec finds what stands directly before the bar of a cell and says how many columns it has and how it is aligned.
var cellSpec = regexp.MustCompile(`(?:^|\s)(?:(?:\d+(?:\.\d+)?|\.\d+)[+*][<^>]?(?:\.[<^>])?[a-z]?|[<^>](?:\.[<^>])?[a-z]?|` +
	`\.[<^>][a-z]?|[adehlmsv])$`)

// barTable reads a table of AsciiDoc, whose cells begin with "|", up to the line that ends it: as many columns as the
// first line has cells. Below an empty line behind the first one, it is the header.
func (r *lightReader) barTable(i int, end string) (n int) {
	var t drawn.Table
	var cells drawn.Row
	columns := 0
	for ; i+n < len(r.lines) && strings.TrimSpace(r.lines[i+n]) != end; n++ {
		line, at := r.lines[i+n], r.starts[i+n]
		if len(line) > drawn.LongestLine {
			continue
		}
		for from := 0; from < len(line); {
			to := len(line)
			if bar := strings.IndexByte(line[from:], '|'); bar >= 0 {
				to = from + bar
			}
			s := doc.Span{Start: from, End: to}
			spec := cellSpec.FindStringIndex(line[from:to])
			if to < len(line) && spec != nil && (from == 0 || spec[0] > 0) {
				s.End = from + spec[0]
			}
			s = s.Trim(line)
			if k := len(cells); k > 0 && s.Start < s.End {
				cells[k-1] = append(cells[k-1], doc.Span{Start: at + s.Start, End: at + s.End})
			}
			if to < len(line) {
				cells = append(cells, nil)
			}
			from = to + 1
		}
		if columns == 0 && len(cells) > 0 {
			columns = len(cells)
			if i+n+1 < len(r.lines) && r.lines[i+n+1] == "" {
				t.Header = 1
			}
		}
	}
	for columns > 0 && len(cells) > 0 {
		k := min(columns, len(cells))
		t.Rows, cells = append(t.Rows, cells[:k]), cells[k:]
	}
	if t.Header = min(t.Header, len(t.Rows)-1); len(t.Rows) > 0 {
		r.table(t)
	}
	return min(n+1, len(r.lines)-i)
}
