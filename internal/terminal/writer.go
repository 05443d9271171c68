package terminal

import (
	"io"
	"strings"

	"github.com/sluice-rag/sluice/internal/printable"
)

// Writer breaks what streams through it between words, for a terminal; without one it passes everything on. A word is
// held back until it ends, so Flush belongs at the end.
type Writer struct {
	w    io.Writer
	s    Screen
	used int    // cells of the line so far
	gap  string // white space before the word
	word string // not written yet
}

// NewWriter returns a writer for a screen.
func NewWriter(w io.Writer, s Screen) *Writer { return &Writer{w: w, s: s} }

// Write takes the next piece of the text; pieces may end within a word.
func (w *Writer) Write(p []byte) (int, error) {
	if w.s.Columns == 0 {
		_, err := io.WriteString(w.w, printable.Text(string(p)))
		return len(p), err
	}
	var out strings.Builder
	for i := 0; i < len(p); {
		j := i
		for j < len(p) && p[j] != ' ' && p[j] != '\n' {
			j++
		}
		w.word += string(p[i:j])
		if j == len(p) {
			break
		}
		w.put(&out)
		if p[j] == '\n' {
			out.WriteByte('\n')
			w.used, w.gap = 0, ""
		} else {
			w.gap += " "
		}
		i = j + 1
	}
	_, err := io.WriteString(w.w, out.String())
	return len(p), err
}

// put writes the word that has ended.
func (w *Writer) put(out *strings.Builder) {
	if w.word == "" {
		return
	}
	w.word = printable.Text(w.word)
	width := Width(w.word)
	if w.used > 0 && w.used+len(w.gap)+width > w.s.Columns {
		out.WriteByte('\n')
		w.used, w.gap = 0, ""
	}
	out.WriteString(w.gap + w.word)
	w.used += len(w.gap) + width
	w.gap, w.word = "", ""
}

// Flush writes what was held back.
func (w *Writer) Flush() error {
	var out strings.Builder
	w.put(&out)
	_, err := io.WriteString(w.w, out.String())
	return err
}
