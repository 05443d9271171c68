package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// preview is the output of `ingest --preview`: the chunks of files, which are not stored.
type preview struct {
	app     *app
	out     *printer
	sources int
	source  string
	tokens  []int
}

// previewLine is the output of `ingest --preview --json`: a chunk with its number, and its lines if these are known.
type previewLine struct {
	Number int `json:"number"`
	corpus.Chunk
	Place string `json:"place"` // as printed by retrieve and ask
}

// preview shows chunks until there are no more or a write fails.
func (a *app) preview(cmd *cobra.Command, s *sluice.Sluice, in *inputs, o ingest.Options) error {
	p := &preview{app: a, out: newPrinter(a.stdout)}
	skipped := &skips{app: a, in: in}
	o.OnSkip = skipped.add
	taken := map[corpus.Cleaner]int{}
	var written error
	o.OnClean = func(source string, what []corpus.Cleaned) {
		for _, c := range what {
			lines := c.By == corpus.CleanContents || c.By == corpus.CleanIndex || c.By == corpus.CleanBoilerplate
			if taken[c.By]++; lines && !a.json {
				_, err := fmt.Fprintf(p.out.w, "%s\n%s\n\n", a.boundary(fmt.Sprintf("── taken out (%s) ── %s", c.By,
					printable.Line(source))), printable.Text(c.Text))
				written = cmp.Or(written, err)
			}
		}
	}
	for c, err := range s.Preview(cmd.Context(), in.paths, o) {
		if err = cmp.Or(err, written); err == nil {
			err = p.show(c)
		}
		if err != nil {
			return err
		}
	}
	if err := p.out.flush(); err != nil {
		return err
	}
	skipped.summary()
	if len(taken) > 0 {
		a.note("taken out: %s", takenOut(taken))
	}
	if n := len(p.tokens); n > 0 {
		slices.Sort(p.tokens)
		a.note("%d chunks of %d documents: at least %d, half of them up to %d, at most %d tokens; nothing was stored",
			n, p.sources, p.tokens[0], p.tokens[(n-1)/2], p.tokens[n-1])
	}
	if skipped.unread > 0 {
		a.say("%d of the %d paths could not be read", skipped.unread, len(in.paths))
		return errReported
	}
	return nil
}

// show prints a chunk below a line that names it.
func (p *preview) show(c corpus.Chunk) error {
	p.tokens = append(p.tokens, c.Tokens)
	if c.Source != p.source {
		p.source = c.Source
		p.sources++
	}
	place := position(c.Source, c.Anchor, c.Start, c.End, c.Text)
	if p.app.json {
		return p.out.print(previewLine{len(p.tokens), c, place})
	}
	line := fmt.Sprintf("── %d ── %d tokens ── %s ── bytes %d-%d", len(p.tokens), c.Tokens, place, c.Start, c.End)
	if c.Anchor != "" {
		line += " #" + printable.Line(c.Anchor)
	}
	if c.Heading != "" {
		line += " ── " + printable.Line(c.Heading)
	}
	_, err := fmt.Fprintf(p.out.w, "%s\n%s\n\n", p.app.boundary(line), printable.Text(c.Text))
	return err
}

// boundary returns a separator line, in colour on a terminal.
func (a *app) boundary(line string) string {
	if a.screen().Colour {
		return "\x1b[36m" + line + "\x1b[0m"
	}
	return line
}
