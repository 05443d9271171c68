package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/models"
)

// completing offers the words that list finds in the store and that begin as the one at hand; files where there are
// none, since a document may be named by its path.
func (a *app) completing(
	list func(ctx context.Context, s *sluice.Sluice) ([]string, error), more bool,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !more {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, _, err := a.open(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		all, err := list(cmd.Context(), s)
		if err = closing(s, err); err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		words := beginning(all, begun)
		if len(words) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning are the words with a beginning.
func beginning(all []string, begun string) (words []string) {
	for _, w := range all {
		if strings.HasPrefix(w, begun) {
			words = append(words, w)
		}
	}
	return words
}

func documentIDs(ctx context.Context, s *sluice.Sluice) (ids []string, err error) {
	docs, err := s.Documents().List(ctx)
	for _, d := range docs {
		ids = append(ids, d.ID)
	}
	return ids, err
}

func calibrationNames(ctx context.Context, s *sluice.Sluice) (names []string, err error) {
	list, err := s.Calibrations().List(ctx)
	for _, r := range list {
		names = append(names, r.Name)
	}
	return names, err
}

// modelNames offers the models of the built-in list that are of one of the kinds, all where there is none; files, too,
// where they may be named.
func modelNames(files bool, kinds ...manifest.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) (words []string, _ cobra.ShellCompDirective) {
		list, err := models.List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		var all []string
		for _, m := range list {
			if len(kinds) == 0 || slices.Contains(kinds, manifest.Kind(m.Kind)) {
				all = append(all, m.Name)
			}
		}
		if words = beginning(all, begun); files {
			return words, cobra.ShellCompDirectiveDefault
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
