package main

import (
	"cmp"
	"errors"
	"io"
)

// benchmark is what every verb of 'bench' does with its rows and its report.
type benchmark struct {
	a      *app
	out    string // folder of the report, "" for none
	failed error  // to print: the benchmark goes on, because its report may be written
}

func (b *benchmark) say(text string) { b.a.note("%s", text) }

// row prints a row, with --json.
func (b *benchmark) row(r any) {
	if b.a.json {
		b.failed = cmp.Or(b.failed, b.a.printJSON(r))
	}
}

// end prints and writes the report of a run that ended with err; an error that is option is one of usage.
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
