// Package jsonl reads JSON lines: one object a line, in order and in flat memory. A bad line comes with
// its number and does not end the sequence; the caller decides whether it goes on. Input: a reader. Output:
// Lines, or Items with an id and a text.
package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
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
}

// Items reads {"id","text"} lines; further fields are ignored, blank lines are skipped. A bad line (not an object, id
// or text missing or of another type, not UTF-8, too long) yields a *LineError and the sequence goes on; a read error
// of r ends it. The text of a line may be empty only with emptyText.
func Items(r io.Reader, source string, emptyText bool) iter.Seq2[Item, error] {
	return records(r, source, func(line []byte) (Item, error) { return decode(line, emptyText) })
}

// decode checks one line. Pointers tell a missing field from an empty one.
func decode(line []byte, emptyText bool) (Item, error) {
	var v struct {
		ID   *string `json:"id"`
		Text *string `json:"text"`
	}
	if err := object(line, &v, `{"id","text"}`); err != nil {
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

// Line is an unparsed line of a file.
type Line struct {
	Number int    // from 1
	Offset int64  // of its first byte
	Length int64  // in bytes, with its end
	Raw    []byte // without its end, valid until the next line; nil of a line that is too long
	Own    bool   // Raw is the caller's for good: the line is a long one, and its memory is not used again
	Cut    int64  // bytes that Shortened left out of its strings
}

// Text returns the line without a byte order mark and without white space around it.
func (l Line) Text() []byte { return bytes.TrimSpace(bytes.TrimPrefix(l.Raw, []byte("\ufeff"))) }

// ErrLong is the error of a line that is longer than the limit.
var ErrLong = errors.New("line too long")

// Lines yields the lines of r, blank ones as well. One of more than limit bytes without its end comes with
// ErrLong and without its bytes, which are not held in memory either; a read error of r ends the sequence.
func Lines(r io.Reader, limit int64) iter.Seq2[Line, error] { return Shortened(r, limit, 0) }

// Shortened returns Lines with each JSON string of a line cut to most bytes (a character that begins within them is
// kept whole) before it is held in memory: valid JSON stays valid. 0 means no limit.
func Shortened(r io.Reader, limit int64, most int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		var room []byte // of lines that are not long
		for line := (Line{Number: 1}); ; line.Number++ {
			short := shortener{most: most}
			buf, length, err := readLine(br, room[:0], limit, &short)
			if err != nil && err != io.EOF {
				yield(Line{Number: line.Number, Offset: line.Offset}, err)
				return
			}
			if length == 0 { // nothing after the last line's end
				return
			}
			if line.Own = len(buf) > longLine; !line.Own {
				room = buf
			}
			line.Length, line.Raw, line.Cut = length, bytes.TrimRight(buf, "\r\n"), short.cut
			var long error
			if int64(len(line.Raw)) > limit || int64(len(buf))+short.cut < length {
				line.Raw, long = nil, fmt.Errorf("%w: more than %d bytes", ErrLong, limit)
			}
			if !yield(line, long) || err == io.EOF {
				return
			}
			line.Offset += length
		}
	}
}

// longLine is the size from which on a line is collected in blocks of that size and joined at its end: a buffer that
// grows by copying would leave garbage of several times the line's size.
const longLine = 1 << 20

// readLine reads a line, into buf if it is not a long one, and returns its length. Of a line that is much longer than
// limit, only a beginning is held.
func readLine(br *bufio.Reader, buf []byte, limit int64, short *shortener) (line []byte, length int64, err error) {
	var blocks [][]byte
	held := int64(0) // in blocks
	for {
		part, err := br.ReadSlice('\n')
		length += int64(len(part))
		if held+int64(len(buf)) <= limit+2 { // with a line's end
			if len(buf)+len(part) > longLine {
				blocks, held = append(blocks, buf), held+int64(len(buf))
				buf = make([]byte, 0, longLine)
			}
			buf = short.append(buf, part)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if blocks == nil {
			return buf, length, err
		}
		line = make([]byte, 0, held+int64(len(buf)))
		for _, block := range append(blocks, buf) {
			line = append(line, block...)
		}
		return line, length, err
	}
}
