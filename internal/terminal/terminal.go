// Package terminal determines where a program's results go: to a terminal of some width, with or without colours, or to
// a file or another program, which get plain lines of any length.
package terminal

import (
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/sluice-rag/sluice/internal/printable"
)

// defaultColumns is the width of a terminal that does not tell its own.
const defaultColumns = 80

// least is the narrowest terminal that texts are wrapped for; below it a terminal wraps as it likes.
const least = 20

// Screen is the output for results. The zero value is not a terminal.
type Screen struct {
	Columns int  // width in cells; 0 is not a terminal: lines of any length
	Colour  bool // colours and weights are wanted
}

// Of looks at w. Colours are for terminals, unless NO_COLOR is set to anything or TERM is "dumb" (no-color.org); env is
// a list as os.Environ returns it.
func Of(w io.Writer, env []string) Screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Screen{}
	}
	s := Screen{Columns: defaultColumns, Colour: true}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		s.Columns = columns
	}
	s.Columns = max(s.Columns, least)
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); name == "NO_COLOR" && value != "" || name == "TERM" &&
			value == "dumb" {
			s.Colour = false
		}
	}
	return s
}

// Terminal reports whether it is a terminal.
func (s Screen) Terminal() bool { return s.Columns > 0 }

// The marks keep the terminal's own colours: weights, and two of the sixteen, which every theme shows on its
// background.

// Bold is for what is to be seen first.
func (s Screen) Bold(text string) string { return s.mark("1", text) }

// Faint is for what is there when it is needed.
func (s Screen) Faint(text string) string { return s.mark("2", text) }

// Good is for an open gate, a check that passed.
func (s Screen) Good(text string) string { return s.mark("32", text) }

// Bad is for a closed gate, a check that failed.
func (s Screen) Bad(text string) string { return s.mark("31", text) }

func (s Screen) mark(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Width is how many cells a text without marks takes.
func Width(text string) int { return uniseg.StringWidth(text) }

// Wrap breaks a text between words into lines that fit, each after its indent: first, then rest. Lines of the text stay
// lines; its control characters are written out. Without a terminal nothing is broken. A word that is wider than a line
// stays where it is.
func (s Screen) Wrap(text, first, rest string) string {
	var b strings.Builder
	indent := first
	for line := range strings.SplitSeq(printable.Text(text), "\n") {
		for _, part := range s.lines(line, Width(indent), Width(rest)) {
			b.WriteString(strings.TrimRight(indent+part, " "))
			b.WriteByte('\n')
			indent = rest
		}
	}
	return b.String()
}

// lines breaks one line. Spaces within it stay as they are, but where it is broken.
func (s Screen) lines(line string, first, rest int) (parts []string) {
	if s.Columns == 0 || first+Width(line) <= s.Columns {
		return []string{line}
	}
	var at strings.Builder
	used, begun := first, false
	for line != "" {
		word := strings.TrimLeft(line, " \t")
		space := line[:len(line)-len(word)]
		end := strings.IndexAny(word, " \t")
		if end < 0 {
			end = len(word)
		}
		word, line = word[:end], word[end:]
		if begun && used+Width(space)+Width(word) > s.Columns && rest+Width(word) <= s.Columns {
			parts = append(parts, at.String())
			at.Reset()
			used, space = rest, ""
		}
		at.WriteString(space + word)
		used += Width(space) + Width(word)
		begun = true
	}
	return append(parts, at.String())
}

// Cut shortens a text to a number of cells, with an ellipsis for what is missing; with tail it cuts the beginning, as
// for a path.
func Cut(text string, cells int, tail bool) string {
	if Width(text) <= cells {
		return text
	}
	var clusters []string
	for g := uniseg.NewGraphemes(text); g.Next(); {
		clusters = append(clusters, g.Str())
	}
	room := max(cells-1, 0)
	if tail {
		i := len(clusters)
		for i > 0 && Width(clusters[i-1]) <= room {
			i--
			room -= Width(clusters[i])
		}
		return "…" + strings.Join(clusters[i:], "")
	}
	i := 0
	for i < len(clusters) && Width(clusters[i]) <= room {
		room -= Width(clusters[i])
		i++
	}
	return strings.Join(clusters[:i], "") + "…"
}

// BoldLines is Bold for each line of a text, so that a mark never spans lines.
func (s Screen) BoldLines(text string) string { return s.eachLine(text, s.Bold) }

// FaintLines is Faint for each line.
func (s Screen) FaintLines(text string) string { return s.eachLine(text, s.Faint) }

func (s Screen) eachLine(text string, mark func(string) string) string {
	if !s.Colour {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		indent := body[:len(body)-len(strings.TrimLeft(body, " "))]
		b.WriteString(indent + mark(body[len(indent):]) + line[len(body):])
	}
	return b.String()
}
