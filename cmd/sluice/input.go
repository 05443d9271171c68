package main

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// input opens a file for reading once from beginning to end, "-" for standard input. Reads of pipes and terminals,
// which may block for long, end with ctx.
func (a *app) input(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == "-" {
		return &patient{ctx: ctx, open: func() (io.Reader, error) { return a.stdin, nil }}, nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() || st.IsDir() { // reading a folder returns a clear error
		return os.Open(path)
	}
	p := &patient{ctx: ctx}
	p.open = func() (io.Reader, error) { // opening a named pipe blocks until there is a writer
		f, err := os.Open(path)
		if err == nil {
			p.file <- f
		}
		return f, err
	}
	p.file = make(chan *os.File, 1)
	return p, nil
}

// patient opens and reads in goroutines, and waits for them until ctx ends. A blocked goroutine cannot be interrupted:
// it ends with the process or with the pipe.
type patient struct {
	ctx  context.Context
	open func() (io.Reader, error)
	file chan *os.File // to be closed
	r    io.Reader
	buf  []byte // of the read under way
	rest []byte // read, but not yet returned
}

type readOutcome struct {
	r   io.Reader
	n   int
	err error
}

func (p *patient) Read(to []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(to, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	if err := p.ctx.Err(); err != nil { // a read may still be under way
		return 0, err
	}
	if p.buf == nil {
		p.buf = make([]byte, 64<<10)
	}
	done := make(chan readOutcome, 1)
	go func(r io.Reader, buf []byte) {
		var o readOutcome
		if o.r = r; r == nil {
			o.r, o.err = p.open()
		}
		if o.err == nil {
			o.n, o.err = o.r.Read(buf)
		}
		done <- o
	}(p.r, p.buf)
	select {
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	case o := <-done:
		p.r, p.rest = o.r, p.buf[:o.n]
		n := copy(to, p.rest)
		p.rest = p.rest[n:]
		if len(p.rest) > 0 { // the error is returned by the next read
			return n, nil
		}
		return n, o.err
	}
}

// Close closes an open file, unless a read of it is blocked.
func (p *patient) Close() error {
	select {
	case f := <-p.file:
		if p.ctx.Err() == nil {
			return f.Close()
		}
	default:
	}
	return nil
}

// longestQuestion bounds a question on standard input, bytes.
const longestQuestion = 1 << 20

// text returns the text of a command line: its arguments joined by spaces, or standard input for "-" and if there are
// no arguments and input is piped in; "" for a batch.
func (q *query) text(ctx context.Context, a *app, args []string) (string, error) {
	if q.batch == "" && (len(args) == 1 && args[0] == "-" || len(args) == 0 && a.piped()) {
		text, err := a.readQuestion(ctx)
		if err != nil || text != "" || len(args) > 0 {
			args = []string{text}
		}
		if err != nil {
			return "", err
		}
	}
	if q.batch == "" && len(args) > 1 {
		args = []string{strings.Join(args, " ")}
	}
	return q.single(args)
}

// piped reports whether standard input is not a terminal.
func (a *app) piped() bool {
	f, ok := a.stdin.(*os.File)
	return !ok || !term.IsTerminal(int(f.Fd()))
}

// readQuestion reads standard input to its end, or until ctx ends.
func (a *app) readQuestion(ctx context.Context) (string, error) {
	in, err := a.input(ctx, "-")
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(in, longestQuestion+1))
	if len(text) > longestQuestion {
		return "", usagef("standard input holds more than %d bytes, which is no question; documents go in with "+
			"'sluice ingest'", longestQuestion)
	}
	return strings.TrimSpace(string(text)), err
}
