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

// previewLine is the output of `ingest --preview --json`: a chunk with its number, and its lines if these are known.
type previewLine struct {
	Number int `json:"number"`
	corpus.Chunk
	Place string `json:"place"` // as printed by retrieve and ask
}

// preview shows the chunks of files, which are not stored, until there are no more or a write fails.
func (a *app) preview(cmd *cobra.Command, s *sluice.Sluice, in *inputs, o ingest.Options) error {
	out := newPrinter(a.stdout)
	skipped := &skips{app: a, in: in}
	o.OnSkip = skipped.add
	taken := map[corpus.Cleaner]int{}
	var written error
	o.OnClean = func(source string, what []corpus.Cleaned) {
		for _, c := range what {
			lines := c.By == corpus.CleanContents || c.By == corpus.CleanIndex || c.By == corpus.CleanBoilerplate
			if taken[c.By]++; lines && !a.json {
				_, err := fmt.Fprintf(out.w, "%s\n%s\n\n", a.boundary(fmt.Sprintf("── taken out (%s) ── %s", c.By,
					printable.Line(source))), printable.Text(c.Text))
				written = cmp.Or(written, err)
			}
		}
	}
	source, sources, tokens := "", 0, []int(nil)
	for c, err := range s.Preview(cmd.Context(), in.paths, o) {
		tokens = append(tokens, c.Tokens)
		if c.Source != source {
			source = c.Source
			sources++
		}
		if err = cmp.Or(err, written); err == nil {
			err = a.showChunk(out, len(tokens), c)
		}
		if err != nil {
			return err
		}
	}
	if err := out.flush(); err != nil {
		return err
	}
	skipped.summary()
	if len(taken) > 0 {
		a.note("taken out: %s", takenOut(taken))
	}
	if n := len(tokens); n > 0 {
		slices.Sort(tokens)
		a.note("%d chunks of %d documents: at least %d, half of them up to %d, at most %d tokens; nothing was stored",
			n, sources, tokens[0], tokens[(n-1)/2], tokens[n-1])
	}
	return skipped.failed()
}

// showChunk prints a chunk below a line that names it.
func (a *app) showChunk(out *printer, number int, c corpus.Chunk) error {
	place := position(c.Source, c.Anchor, c.Start, c.End, c.Text)
	if a.json {
		return out.print(previewLine{number, c, place})
	}
	line := fmt.Sprintf("── %d ── %d tokens ── %s ── bytes %d-%d", number, c.Tokens, place, c.Start, c.End)
	if c.Anchor != "" {
		line += " #" + printable.Line(c.Anchor)
	}
	if c.Heading != "" {
		line += " ── " + printable.Line(c.Heading)
	}
	_, err := fmt.Fprintf(out.w, "%s\n%s\n\n", a.boundary(line), printable.Text(c.Text))
	return err
}

// boundary returns a separator line, in colour on a terminal.
func (a *app) boundary(line string) string {
	if a.screen().Colour {
		return "\x1b[36m" + line + "\x1b[0m"
	}
	return line
}
