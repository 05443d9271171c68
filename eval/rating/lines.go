package rating

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// LineReader reads what a rater types.
type LineReader struct{ r *bufio.Reader }

// NewLineReader reads from r.
func NewLineReader(r io.Reader) *LineReader { return &LineReader{bufio.NewReader(r)} }

// Line returns the next line without white space around it; io.EOF after the last one.
func (l *LineReader) Line() (string, error) {
	text, err := l.r.ReadString('\n')
	if errors.Is(err, io.EOF) && text != "" {
		err = nil
	}
	return strings.TrimSpace(text), err
}
