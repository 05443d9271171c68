package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/npy"
)

// embedLine is the output of `embed --json`.
type embedLine struct {
	ID     string    `json:"id,omitempty"`
	Vector []float32 `json:"vector"`
}

func (a *app) embedCommand() *cobra.Command {
	var q query
	var role, npyPath string
	cmd := &cobra.Command{
		Use:   "embed TEXT",
		Short: "turn texts into vectors",
		Long: `Prints the vectors of texts, or writes them to a NumPy file: row i belongs to the i-th good line. It needs no store.
` + batchHelp,
		Example: "  sluice embed \"one text\" --json\n  sluice embed --batch texts.jsonl --npy vectors.npy",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := q.single(args)
			if err != nil {
				return err
			}
			roles := map[string]embed.Role{"document": embed.Document, "query": embed.Query}
			as, ok := roles[role]
			if !ok {
				return usagef("--role must be document or query, given %q", role)
			}
			return a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
				switch {
				case npyPath != "":
					return a.embedNPY(cmd, s, q, text, as, npyPath)
				case q.batch == "":
					return a.embedOne(cmd, s, text, as)
				}
				return q.print(cmd.Context(), a, true, func(texts []string) (func(int, string) any, error) {
					e, err := s.Embed(cmd.Context(), texts, as)
					return func(i int, id string) any { return embedLine{id, e.Row(i)} }, err
				})
			})
		},
	}
	q.flags(cmd)
	cmd.Flags().StringVar(&role, "role", "document",
		"what the texts are, for encoders that tell them apart: document or query")
	cmd.Flags().StringVar(&npyPath, "npy", "",
		"write the vectors to this file (float32, one row a text) instead of printing them")
	return cmd
}

func (a *app) embedOne(cmd *cobra.Command, s *sluice.Sluice, text string, role embed.Role) error {
	e, err := s.Embed(cmd.Context(), []string{text}, role)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(embedLine{Vector: e.Row(0)})
	}
	out := newPrinter(a.stdout)
	for i, x := range e.Row(0) {
		separator := " "
		if i == 0 {
			separator = ""
		}
		fmt.Fprintf(out.w, "%s%g", separator, x)
	}
	fmt.Fprintln(out.w)
	return out.flush()
}

// embedNPY writes the vectors into a temporary file beside the target, and renames it when it is complete.
func (a *app) embedNPY(cmd *cobra.Command, s *sluice.Sluice, q query, text string, role embed.Role, path string) error {
	info, err := s.Models().Encoder(cmd.Context())
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	rows, err := npy.NewRows(f, info.Dim)
	if err != nil {
		return err
	}
	add := func(items []jsonl.Item) error {
		e, err := s.Embed(cmd.Context(), texts(items), role)
		for i := 0; err == nil && i < len(items); i++ {
			err = rows.Append(e.Row(i))
		}
		return err
	}
	if q.batch != "" {
		err = q.run(cmd.Context(), a, true, add)
	} else {
		err = add([]jsonl.Item{{Text: text}})
	}
	if err != nil && !errors.Is(err, errReported) { // bad lines were reported; the good ones make a file
		return err
	}
	if closed := errors.Join(rows.Close(), f.Chmod(0o644), f.Close(), os.Rename(f.Name(), path)); closed != nil {
		return closed
	}
	a.note("wrote %d × %d to %s", rows.N(), info.Dim, path)
	return err
}
