package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// retrieveLine is what `retrieve --json` prints.
type retrieveLine struct {
	ID      string           `json:"id,omitempty"`
	Results []retrieveResult `json:"results"`
}

type retrieveResult struct {
	retrieve.Result
	Sentence *excerpt.Sentence `json:"sentence,omitempty"`
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
			s, c, err := a.openFor(cmd, q.batch == "")
			if err != nil {
				return err
			}
			o := sluice.RetrieveOptions{K: c.Retrieve.K, Mode: retrieve.Mode(c.Retrieve.Mode),
				Sentences: c.Retrieve.Sentences}
			if q.batch != "" {
				return closing(s, a.retrieveBatch(cmd, s, q, o))
			}
			return closing(s, a.retrieveOne(cmd, s, text, o))
		},
	}
	q.flags(cmd)
	a.flag(cmd, "retrieve.k", "k")
	a.flag(cmd, "retrieve.mode", "mode")
	a.flag(cmd, "retrieve.sentences", "sentences")
	return cmd
}

func (a *app) retrieveOne(cmd *cobra.Command, s *sluice.Sluice, text string, o sluice.RetrieveOptions) error {
	if a.json {
		lists, err := retrieved(cmd.Context(), s, []string{text}, o)
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
		if _, err := fmt.Fprintf(a.stdout, "%2d  %.4f  %s  %s\n%s\n%s", i+1, p.Score, p.Chunk.ID,
			place(p.Chunk.Source, p.Chunk.Heading), indent(short(p.Chunk.Text, 200)),
			nearest(p.Sentence)); err != nil {
			return err
		}
	}
	return nil
}

// nearest is the line of a source's sentence, "" where there is none.
func nearest(s *excerpt.Sentence) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("      nearest (%.4f): %s\n", s.Score, short(s.Text, 300))
}

// retrieved searches for what is printed as JSON; texts are read only where their sentences are wanted.
func retrieved(
	ctx context.Context, s *sluice.Sluice, texts []string, o sluice.RetrieveOptions,
) (all [][]retrieveResult, err error) {
	if !o.Sentences {
		lists, err := s.Retrieve(ctx, texts, o)
		for _, list := range lists {
			results := make([]retrieveResult, len(list))
			for i, r := range list {
				results[i] = retrieveResult{Result: r}
			}
			all = append(all, results)
		}
		return all, err
	}
	lists, err := s.Passages(ctx, texts, o)
	for _, list := range lists {
		results := make([]retrieveResult, len(list))
		for i, p := range list {
			results[i] = retrieveResult{retrieve.Result{ID: p.Chunk.ID, Score: p.Score}, p.Sentence}
		}
		all = append(all, results)
	}
	return all, err
}

func (a *app) retrieveBatch(cmd *cobra.Command, s *sluice.Sluice, q query, o sluice.RetrieveOptions) error {
	out := newPrinter(a.stdout)
	return q.run(cmd.Context(), a, false, func(items []jsonl.Item) error {
		lists, err := retrieved(cmd.Context(), s, texts(items), o)
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
