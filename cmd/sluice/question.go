package main

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

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
