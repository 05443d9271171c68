package terminal

import (
	"bytes"
	"io"
	"strings"
)

// Hanging wraps lines that are too long for a screen, with an indent for their continuation, for lists of names with
// descriptions. Text after the last newline waits for Flush.
type Hanging struct {
	w      io.Writer
	s      Screen
	indent string
	rest   []byte
}

// NewHanging returns a writer that indents by a number of cells.
func NewHanging(w io.Writer, s Screen, indent int) *Hanging {
	return &Hanging{w: w, s: s, indent: strings.Repeat(" ", indent)}
}

// Write takes in a text.
func (h *Hanging) Write(p []byte) (int, error) {
	h.rest = append(h.rest, p...)
	end := bytes.LastIndexByte(h.rest, '\n') + 1
	lines := string(h.rest[:end])
	h.rest = h.rest[end:]
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString(h.s.Wrap(strings.TrimSuffix(line, "\n"), "", h.indent))
	}
	_, err := io.WriteString(h.w, b.String())
	return len(p), err
}

// Flush writes what was held back.
func (h *Hanging) Flush() error {
	_, err := h.w.Write(h.rest)
	h.rest = nil
	return err
}
