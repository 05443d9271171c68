package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/jsonl"
)

// query is the source of a verb's texts: one argument, or a batch file.
type query struct {
	batch  string
	strict bool
	group  int
}

const questionHelp = `
Several arguments are one text. "-" reads it from standard input, as does a pipe without an argument.
`

const batchHelp = `
With --batch, each line of FILE.jsonl is {"id","text"} and gives one JSON line, in input order. A bad line is
reported with its number, gives no output line and does not stop the batch (--strict does); bad lines are
counted at the end, and the exit code is then 1.`

func (q *query) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.batch, "batch", "", `texts to take from FILE.jsonl, "-" for standard input`)
	f.BoolVar(&q.strict, "strict", false, "the first bad line ends the batch")
	f.IntVar(&q.group, "group", 256, "lines of a batch that are worked on together; their results come together, too")
}

// single returns the text of the argument, or "" for a batch; anything else is a usage error.
func (q *query) single(args []string) (string, error) {
	switch {
	case q.group < 1:
		return "", usagef("--group must be at least 1, given %d", q.group)
	case q.batch != "" && len(args) > 0:
		return "", usagef("either a text or --batch, not both")
	case q.batch != "":
		return "", nil
	case len(args) != 1:
		return "", usagef("one text in quotes, or --batch FILE.jsonl, is wanted; given %d arguments", len(args))
	case strings.TrimSpace(args[0]) == "":
		return "", usagef("the text is empty")
	}
	return args[0], nil
}

// run is runBatch for texts.
func (q *query) run(ctx context.Context, a *app, emptyText bool, do func([]jsonl.Item) error) error {
	lines := func(r io.Reader) iter.Seq2[jsonl.Item, error] { return jsonl.Items(r, q.batch, emptyText) }
	return runBatch(ctx, a, q, lines, do)
}

// print prints a line for each text of the batch, group by group: do works on a group, and returns what makes a line of
// the i-th one, which has an id.
func (q *query) print(ctx context.Context, a *app, emptyText bool,
	do func(texts []string) (line func(i int, id string) any, err error)) error {
	out := newPrinter(a.stdout)
	return q.run(ctx, a, emptyText, func(items []jsonl.Item) error {
		line, err := do(texts(items))
		if err != nil {
			return err
		}
		return out.lines(len(items), func(i int) any { return line(i, items[i].ID) })
	})
}

// runBatch reads the batch in groups and passes each to do. Its memory does not grow with the batch.
func runBatch[T any](
	ctx context.Context, a *app, q *query, lines func(io.Reader) iter.Seq2[T, error], do func([]T) error,
) error {
	source := q.batch
	r, err := a.input(ctx, source)
	if err != nil {
		return err
	}
	defer r.Close()
	var group []T
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		defer func() { group = group[:0] }()
		return do(group)
	}
	bad := 0
	for item, err := range lines(r) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil && (q.strict || !errors.Is(err, jsonl.ErrLine)):
			if flushed := flush(); flushed != nil {
				return flushed
			}
			return err
		case err != nil:
			bad++
			a.say("%v", err)
			continue
		}
		if group = append(group, item); len(group) >= q.group {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(ctx.Err(), flush()); err != nil {
		return err
	}
	if bad > 0 {
		a.say("%s: %d bad lines", source, bad)
		return errReported
	}
	return nil
}

func texts(items []jsonl.Item) []string {
	t := make([]string, len(items))
	for i, it := range items {
		t[i] = it.Text
	}
	return t
}

// printer writes JSON lines; flush writes out what is buffered.
type printer struct {
	w *bufio.Writer
	e *json.Encoder
}

func newPrinter(w io.Writer) *printer {
	b := bufio.NewWriterSize(w, 64<<10)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return &printer{b, e}
}

func (p *printer) print(v any) error { return p.e.Encode(v) }
func (p *printer) flush() error      { return p.w.Flush() }

// lines prints n values, and writes them out.
func (p *printer) lines(n int, line func(i int) any) error {
	for i := range n {
		if err := p.print(line(i)); err != nil {
			return err
		}
	}
	return p.flush()
}

func (a *app) printJSON(v any) error {
	p := newPrinter(a.stdout)
	return errors.Join(p.print(v), p.flush())
}
