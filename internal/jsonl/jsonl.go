// Package jsonl reads JSON lines: one object a line, in order and in flat memory. A bad line comes with
// its number and does not end the sequence; the caller decides whether it goes on.
package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// MaxLineBytes is the longest line that is read; a longer one is a bad line (it is skipped without
// being held in memory).
const MaxLineBytes = 16 << 20

// ErrLine is wrapped by every *LineError.
var ErrLine = errors.New("bad line")

// LineError is a bad line: its number (from 1) and what is wrong with it.
type LineError struct {
	Source string // file name, "-" for standard input
	Line   int
	Err    error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s:%d: bad line: %v", e.Source, e.Line, e.Err)
}

// Unwrap lets errors.Is find ErrLine and the cause.
func (e *LineError) Unwrap() []error { return []error{ErrLine, e.Err} }

// Item is a line of a batch: a text and the id under which its result is printed.
type Item struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Line int    `json:"-"`
}

// Items reads {"id","text"} lines; further fields are ignored, blank lines are skipped. A bad line
// (not an object, id or text missing or of another type, not UTF-8, too long) yields a *LineError and
// the sequence goes on; a read error of r ends it. The text of a line may be empty only with emptyText.
func Items(r io.Reader, source string, emptyText bool) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for raw, err := range lines(r, MaxLineBytes) {
			if err != nil && !errors.Is(err, errLong) {
				yield(Item{}, fmt.Errorf("%s: reading line %d: %w", source, raw.number, err))
				return
			}
			it := Item{}
			if err == nil {
				it, err = decode(raw.text, emptyText)
			}
			it.Line = raw.number
			if err != nil {
				err = &LineError{Source: source, Line: raw.number, Err: err}
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// decode checks one line. Pointers tell a missing field from an empty one.
func decode(line []byte, emptyText bool) (Item, error) {
	if !utf8.Valid(line) {
		return Item{}, errors.New("not valid UTF-8")
	}
	var v struct {
		ID   *string `json:"id"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) {
			if typed.Field == "" {
				return Item{}, fmt.Errorf("a JSON %s where an object {\"id\",\"text\"} is wanted", typed.Value)
			}
			return Item{}, fmt.Errorf("%q is a JSON %s where a string is wanted", typed.Field, typed.Value)
		}
		return Item{}, err
	}
	switch {
	case v.ID == nil || *v.ID == "":
		return Item{}, errors.New(`"id" is missing`)
	case v.Text == nil:
		return Item{}, fmt.Errorf(`"text" is missing (id %q)`, *v.ID)
	case !emptyText && strings.TrimSpace(*v.Text) == "":
		return Item{}, fmt.Errorf(`"text" is empty (id %q)`, *v.ID)
	}
	return Item{ID: *v.ID, Text: *v.Text}, nil
}

type numbered struct {
	text   []byte // valid until the next line
	number int
}

var errLong = errors.New("line too long")

// lines yields the non-blank lines of r. A line above limit comes with errLong and without its text.
func lines(r io.Reader, limit int) iter.Seq2[numbered, error] {
	return func(yield func(numbered, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		if bom, _ := br.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
			_, _ = br.Discard(3)
		}
		var buf []byte
		for n := 1; ; n++ {
			line, long, err := readLine(br, buf[:0], limit)
			buf = line
			if err != nil && err != io.EOF {
				yield(numbered{number: n}, err)
				return
			}
			switch {
			case long:
				if !yield(numbered{number: n}, fmt.Errorf("%w: more than %d bytes", errLong, limit)) {
					return
				}
			case len(bytes.TrimSpace(line)) > 0:
				if !yield(numbered{text: line, number: n}, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// readLine appends a line without its end to buf. Of a line longer than limit it keeps nothing more.
func readLine(br *bufio.Reader, buf []byte, limit int) (line []byte, long bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if !long {
			buf = append(buf, part...)
			long = len(bytes.TrimRight(buf, "\r\n")) > limit
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimRight(buf, "\r\n"), long, err
		}
	}
}
