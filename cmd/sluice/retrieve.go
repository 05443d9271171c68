package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// retrieveLine is what `retrieve --json` prints.
type retrieveLine struct {
	ID      string            `json:"id,omitempty"`
	Results []retrieve.Result `json:"results"`
}

func (a *app) retrieveCommand() *cobra.Command {
	var q query
	cmd := &cobra.Command{
		Use:   "retrieve QUERY",
		Short: "find the best contexts for a query, without asking the gate",
		Long: "Prints the best contexts of the store, better first. It needs neither a calibration nor a language " +
			"model.\n" + batchHelp,
		Example: "  sluice retrieve --k 10 \"How are slices grown?\"\n" +
			"  sluice retrieve --batch questions.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := q.single(args)
			if err != nil {
				return err
			}
			s, c, err := a.open(cmd)
			if err != nil {
				return err
			}
			o := sluice.RetrieveOptions{K: c.Retrieve.K, Mode: retrieve.Mode(c.Retrieve.Mode)}
			if q.batch != "" {
				return closing(s, a.retrieveBatch(cmd, s, q, o))
			}
			return closing(s, a.retrieveOne(cmd, s, text, o))
		},
	}
	q.flags(cmd)
	a.flag(cmd, "retrieve.k", "k")
	a.flag(cmd, "retrieve.mode", "mode")
	return cmd
}

func (a *app) retrieveOne(cmd *cobra.Command, s *sluice.Sluice, text string, o sluice.RetrieveOptions) error {
	if a.json {
		lists, err := s.Retrieve(cmd.Context(), []string{text}, o)
		if err != nil {
			return err
		}
		return a.printJSON(retrieveLine{Results: lists[0]})
	}
	lists, err := s.Passages(cmd.Context(), []string{text}, o)
	if err != nil {
		return err
	}
	for i, p := range lists[0] {
		if _, err := fmt.Fprintf(a.stdout, "%2d  %.4f  %s  %s\n%s\n", i+1, p.Score, p.Chunk.ID,
			place(p.Chunk.Source, p.Chunk.Heading), indent(short(p.Chunk.Text, 200))); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) retrieveBatch(cmd *cobra.Command, s *sluice.Sluice, q query, o sluice.RetrieveOptions) error {
	out := newPrinter(a.stdout)
	return q.run(cmd.Context(), a, false, func(items []jsonl.Item) error {
		lists, err := s.Retrieve(cmd.Context(), texts(items), o)
		if err != nil {
			return err
		}
		for i, results := range lists {
			if err := out.print(retrieveLine{ID: items[i].ID, Results: results}); err != nil {
				return err
			}
		}
		return out.flush()
	})
}
