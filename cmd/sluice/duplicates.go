package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

func (a *app) duplicatesCommand() *cobra.Command {
	var o knowledge.DuplicateOptions
	cmd := &cobra.Command{Use: "duplicates", Short: "list chunks that are in the store more than once, or nearly",
		Long: `Lists groups of chunks that say the same: those of the same text, and those whose vectors and words are both
near enough. Each has the cosine with an earlier chunk of its group, and the share of pairs of neighbouring words that both
have. Nothing is removed: 'docs rm' removes documents. With --json, an object for each group.`,
		Args: cobra.NoArgs,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			groups, err := s.Documents().Duplicates(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.printDuplicates(groups)
		})}
	cmd.Flags().Float64Var(&o.Cosine, "cosine", knowledge.DefaultDuplicateCosine, "of the vectors, at least")
	cmd.Flags().Float64Var(&o.Overlap, "words", knowledge.DefaultDuplicateOverlap,
		"share of pairs of neighbouring words that both texts have, at least")
	return cmd
}

func (a *app) printDuplicates(groups []knowledge.DuplicateGroup) error {
	p := newPrinter(a.stdout)
	var err error
	more := 0
	for _, g := range groups {
		more += len(g.Chunks) - 1
		if a.json {
			err = errors.Join(err, p.print(g))
			continue
		}
		for _, c := range g.Chunks {
			alike := "the first"
			if c.Of != "" {
				alike = fmt.Sprintf("cosine %.3f, words %.2f", c.Cosine, c.Overlap)
			}
			fmt.Fprintf(p.w, "%s  %s  (%s)\n    %s\n", printable.Line(c.ID), printable.Line(c.Source), alike,
				short(c.Text, 100))
		}
		fmt.Fprintln(p.w)
	}
	a.note("%d groups; %d chunks say what another one does", len(groups), more)
	return errors.Join(err, p.flush())
}
