package markup

import (
	"regexp"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/drawn"
)

// latexMark finds inline markup of LaTeX: commands whose argument is not text, code, accents, other commands, dashes,
// quotation marks.
var latexMark = regexp.MustCompile(`\\(?:cite\w*|ref|label|eqref|pageref|index|vspace|hspace|includegraphics|href|` +
	`hyperlink|hypertarget|textcolor|colorbox|color|begin|end)\*?(?:\[[^\]]*\])*\{[^}]*\}|` +
	`\\(?:verb|lstinline)\*?([|+!=/])[^\n]*?[|+!=/]|` + accented + "|" +
	`\\\\\[[^\]]*\]|\\[a-zA-Z]+\*?(?:\[[^\]]*\])?[ {]?|\\.|[{}~]|---?|` + "``|''")

const accented = `\\(?:["'^~=.` + "`" + `]|[cvuHkrd]\b)[ ]*(?:\{\\?[A-Za-z]\}|\\?[A-Za-z])`

// accent finds the command and the letter of an accent, and accentMarks has the marks that Unicode combines with it.
var (
	accent      = regexp.MustCompile(`^` + accented + `$`)
	accentMarks = map[byte]string{'"': "\u0308", '\'': "\u0301", '^': "\u0302", '~': "\u0303", '=': "\u0304",
		'.': "\u0307", '`': "\u0300", 'c': "\u0327", 'v': "\u030c", 'u': "\u0306", 'H': "\u030b", 'k': "\u0328",
		'r': "\u030a", 'd': "\u0323"}
)

// latexText returns the visible text of a match of latexMark.
func latexText(match string) string {
	switch match {
	case "~", `\ `, `\,`:
		return " "
	case "--":
		return "–"
	case "---":
		return "—"
	case "``", "''":
		return `"`
	}
	if strings.HasPrefix(match, `\\`) {
		return " "
	}
	if len(match) == 2 && strings.ContainsAny(match[1:], "%&$#_{}") {
		return match[1:]
	}
	if m := verbatimMark.FindStringSubmatch(match); m != nil {
		return m[1]
	}
	if accent.MatchString(match) {
		letter := strings.TrimRight(match, "}")
		return norm.NFC.String(letter[len(letter)-1:] + accentMarks[match[1]])
	}
	if name := commandName.FindStringSubmatch(match); name != nil {
		return latexWords[name[1]]
	}
	return ""
}

var (
	commandName = regexp.MustCompile(`^\\([a-zA-Z]+)`)
	// latexWords are the commands that print something themselves.
	latexWords = map[string]string{"LaTeX": "LaTeX", "LaTeXe": "LaTeX2e", "TeX": "TeX", "BibTeX": "BibTeX",
		"XeLaTeX": "XeLaTeX", "LuaLaTeX": "LuaLaTeX", "pdfLaTeX": "pdfLaTeX", "ldots": "…", "dots": "…",
		"textbackslash": `\`, "textasciitilde": "~", "textasciicircum": "^", "textless": "<", "textgreater": ">",
		"textbar": "|", "textquotesingle": "'", "textquoteright": "’", "textquoteleft": "‘", "textendash": "–",
		"textemdash": "—", "textunderscore": "_", "textdegree": "°", "textbullet": "•", "ss": "ß", "ae": "æ",
		"AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł", "S": "§",
		"P": "¶", "copyright": "©", "pounds": "£", "euro": "€", "texteuro": "€", "footnote": " ", "times": "×",
		"item": " ", "quad": " ", "qquad": " ", "newline": " ", "linebreak": " "}
)

// verbatimMark is code between two characters in a line of LaTeX.
var verbatimMark = regexp.MustCompile(`^\\(?:verb|lstinline)\*?[|+!=/]([^\n]*)[|+!=/]$`)

// latexCode finds the names of environments that hold code.
var latexCode = regexp.MustCompile(`^(?:[BLV]?[vV]erbatim|Highlighting|lstlisting|minted|alltt)\*?\}`)

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
		title, _ := closedBy('}', rest)
		if plain, ok := strings.CutPrefix(title, `\texorpdfstring{`); ok {
			title, _ = closedBy('}', plain)
		}
		r.heading(level, title, i)
	case name == "title" && strings.Contains(rest, "}"):
		title, _ := closedBy('}', rest)
		r.d.Title = r.shown(title)
	case name == "begin" && (strings.HasPrefix(rest, "tabular") || strings.HasPrefix(rest, "longtable")):
		return r.ampTable(i)
	case name == "begin" && latexCode.MatchString(rest):
		r.b.EndBlock("\n\n")
		environment, _, _ := strings.Cut(rest, "}")
		r.code = `\end{` + environment + "}"
	case name == "begin" && strings.HasPrefix(rest, "document"): // the preamble, before it, is not text
		r.b.Blocks, r.b.Sections, r.b.Open = r.b.Blocks[:0], r.b.Sections[:0], false
		r.b.W, r.b.Path, r.b.Sep, r.b.Headed = doc.Writer{}, nil, "", false
	case name == "begin", name == "end", name == "documentclass", name == "usepackage", name == "newcommand":
		r.b.EndBlock("\n\n")
	case strings.HasPrefix(body, `\item[`):
		r.b.EndBlock("\n")
		at := r.starts[i] + strings.Index(line, body) + len(`\item[`)
		term, definition := closedBy(']', body[len(`\item[`):])
		r.text(term, at)
		if term != "" {
			r.b.Colon(at + len(term))
		}
		r.text(definition, at+len(body)-len(`\item[`)-len(definition))
	case strings.HasPrefix(body, `\item`):
		r.b.EndBlock("\n")
		r.b.Marker = "- "
		r.line(i, "")
	default:
		r.line(i, "")
	}
	return 1
}

// closedBy divides a text at the first closing character that is in no braces. Without one, all of it is behind.
func closedBy(c byte, s string) (inside, behind string) {
	depth := 0
	for i := range len(s) {
		switch {
		case s[i] == c && depth == 0:
			return s[:i], s[i+1:]
		case s[i] == '{':
			depth++
		case s[i] == '}':
			depth--
		}
	}
	return "", s
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

// rowEnd is the end of a row, or of a line, and the space below it.
var rowEnd = regexp.MustCompile(`^\\\\\*?(?:\[[^\]]*\])?`)

// tableRule finds lines between the rows of a table of LaTeX.
var tableRule = regexp.MustCompile(`^\s*(?:\\(?:hline|toprule|midrule|bottomrule|end(?:first)?head|end(?:last)?foot|` +
	`(?:cline|cmidrule|noalign)(?:\([^)]*\))?\{[^}]*\})\s*)+`)

// ampTable reads a table of LaTeX, whose cells are separated by "&" and whose rows end with two backslashes. The rows
// above the first rule behind a row are the header.
func (r *lightReader) ampTable(i int) (n int) {
	var t drawn.Table
	row := drawn.Row{nil}
	flush := func() {
		if !row.IsEmpty() {
			t.Rows = append(t.Rows, row)
		}
		row = drawn.Row{nil}
	}
	environment, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(r.lines[i]), `\begin{`), "}")
	for n = 1; i+n < len(r.lines) && !strings.Contains(r.lines[i+n], `\end{`+environment); n++ {
		line := r.lines[i+n]
		if c := comment(line); c >= 0 {
			line = line[:c]
		}
		if at := tableRule.FindStringIndex(line); at != nil {
			if flush(); t.Header == 0 && len(t.Rows) > 0 {
				t.Header = len(t.Rows)
			}
			line = strings.Repeat(" ", at[1]) + line[at[1]:]
		}
		from := 0
		for at := 0; at <= len(line); at++ {
			isRow := strings.HasPrefix(line[at:], `\\`)
			if at < len(line) && line[at] != '&' && !isRow {
				if line[at] == '\\' {
					at++ // what it escapes
				}
				continue
			}
			if s := (doc.Span{Start: from, End: at}).Trim(line); s.Start < s.End {
				row[len(row)-1] = append(row[len(row)-1], s.Plus(r.starts[i+n]))
			}
			switch {
			case isRow:
				flush()
				at += len(rowEnd.FindString(line[at:])) - 1
			case at < len(line):
				row = append(row, nil)
			}
			from = min(at+1, len(line))
		}
	}
	flush()
	if t.Header = min(t.Header, len(t.Rows)-1); len(t.Rows) > 0 {
		r.table(t)
	}
	return n + 1
}
