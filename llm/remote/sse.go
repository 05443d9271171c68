package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const maxLine = 1 << 20 // bytes of a line of a stream, and of an event

// event is a server-sent event: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
type event struct {
	name string // "" or what the field "event" says
	data []byte // the lines of data, with newlines between them; valid until the next event
	cut  bool   // the stream ended before the blank line that ends an event
}

// events reads server-sent events. Comments and unknown fields are skipped; lines end with LF, CRLF or CR.
type events struct {
	r     *bufio.Reader
	limit int64
	left  int64
	heard func() // called after every line
	line  []byte
	data  []byte
	after bool // the last line ended with CR, to which a following LF belongs
	begun bool
}

func newEvents(r io.Reader, limit int64, heard func()) *events {
	return &events{r: bufio.NewReader(r), limit: limit, left: limit, heard: heard}
}

// next returns the next event that has data. io.EOF: the stream ended. ErrTooLarge: a line, an event or the stream
// exceeds its limit.
func (e *events) next() (event, error) {
	var ev event
	e.data = e.data[:0]
	has := false
	for {
		line, err := e.readLine()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return event{}, err
		}
		if len(line) > 0 {
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				ev.name = string(value)
			case "error": // older llama-servers name the field like that
				ev.name = "error"
				fallthrough
			case "data":
				if has {
					e.data = append(e.data, '\n')
				}
				if e.data, has = append(e.data, value...), true; len(e.data) > maxLine {
					return event{}, fmt.Errorf("remote: %w: an event has more than %d bytes", ErrTooLarge, maxLine)
				}
			}
		}
		switch {
		case has && (len(line) == 0 || ended):
			ev.data, ev.cut = e.data, ended
			return ev, nil
		case ended:
			return event{}, io.EOF
		case len(line) == 0:
			ev = event{}
		}
	}
}

// readLine returns a line without its end; io.EOF with an unfinished last one.
func (e *events) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return e.firstLine(), err
		}
		if e.left--; e.left < 0 {
			return nil, fmt.Errorf("remote: %w: it has more than %d bytes", ErrTooLarge, e.limit)
		}
		followsCR := e.after
		e.after = c == '\r'
		switch {
		case c == '\n' && followsCR:
			continue
		case c == '\n' || c == '\r':
			e.heard()
			return e.firstLine(), nil
		case len(e.line) == maxLine:
			return nil, fmt.Errorf("remote: %w: a line has more than %d bytes", ErrTooLarge, maxLine)
		}
		e.line = append(e.line, c)
	}
}

// firstLine takes the byte order mark off the first line, where the standard allows one.
func (e *events) firstLine() []byte {
	if e.begun {
		return e.line
	}
	e.begun = true
	return bytes.TrimPrefix(e.line, []byte("\xef\xbb\xbf"))
}
