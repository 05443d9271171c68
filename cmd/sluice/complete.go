package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/models"
)

// completing completes an argument from the words that list finds in the store. If there are none it completes file
// names, because a document may be named by its path.
func (a *app) completing(
	list func(ctx context.Context, s *sluice.Sluice) ([]string, error), more bool,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !more {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []string
		err := a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
			all, err := list(cmd.Context(), s)
			words = beginning(all, begun)
			return err
		})
		if err != nil || len(words) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning returns the words with a prefix.
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

// modelNames completes the names of built-in models, and of those that are here, of the given kinds, or of all kinds if
// none is given, and with files also file names.
func modelNames(files bool, kinds ...manifest.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) (words []string, _ cobra.ShellCompDirective) {
		registry, err := models.Default()
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		list, err := registry.List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		list = append(list, registry.Elsewhere()...)
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
