package main

import (
	"cmp"
	"errors"
	"io"
)

// benchmark prints the rows and writes the report of a verb of 'bench'.
type benchmark struct {
	a      *app
	out    string // folder of the report; "": not written
	failed error  // the first error of printing: the benchmark goes on, because its report may still be written
}

func (b *benchmark) say(text string) { b.a.note("%s", text) }

// row prints a row with --json.
func (b *benchmark) row(r any) {
	if b.a.json {
		b.failed = cmp.Or(b.failed, b.a.printJSON(r))
	}
}

// end prints and writes the report of a run that ended with err. If err wraps option, it is a usage error.
func (b *benchmark) end(report interface {
	Markdown(w io.Writer) error
	Write(dir string) error
}, err, option error) error {
	switch {
	case errors.Is(err, option):
		return usageError{err}
	case err != nil:
		return err
	case !b.a.json:
		b.failed = report.Markdown(b.a.stdout)
	}
	if b.out != "" {
		if err := report.Write(b.out); err != nil {
			return err
		}
		b.a.note("wrote %s", b.out)
	}
	return b.failed
}
