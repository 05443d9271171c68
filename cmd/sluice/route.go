package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/domains"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

func (a *app) routeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "route",
		Short: "train, show and remove the router of the store: which domains a query is of",
		Long: `A store's router tells which domains a query is of, so that 'retrieve' and 'ask' search only the chunks of these (--route
auto): one domain, several when it is unsure, and all of the store when it is very unsure or the query is unlike all that
it was trained on, which the trace says. Documents without a topic that are ingested later get theirs from it.`}
	cmd.AddCommand(a.routeTrainCommand(), a.routeShowCommand(), a.routeRemoveCommand())
	return group(cmd)
}

type routeFlags struct {
	labels, queries string
}

func (a *app) routeTrainCommand() *cobra.Command {
	var f routeFlags
	cmd := &cobra.Command{Use: "train", Short: "divide the store's chunks into domains and train a router on them",
		Long: `--by says where the domains come from: the documents' topics, their first folder, a field of theirs (meta.KEY), clusters
of the chunks' vectors (as many as have the largest mean silhouette, unless --clusters says how many), or the nearest of
the descriptions in --labels FILE.jsonl, lines of {"label","description"}.

The router is trained on the chunks' texts and on questions about them: those of --queries FILE.jsonl, lines of
{"context_id","text"}; without, a sentence of each chunk, or of 2,000 of them, takes the place of a question. The chunks'
vectors are the store's: only questions are embedded. It is measured by the questions
alone, those about a fifth of the chunks by a router that knows neither them nor these chunks.`,
		Example: "  sluice route train\n  sluice route train --by clusters\n  sluice route train --by " +
			"meta.department --queries questions.jsonl --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.trainStoreRouter(cmd, f) }}
	fl := cmd.Flags()
	fl.StringVar(&f.labels, "labels", "", `domains with their descriptions, for --by labels`)
	fl.StringVar(&f.queries, "queries", "", "questions about chunks")
	a.flags(cmd, "route.")
	return cmd
}

// routerFlags adds the settings that all routers have.
func (a *app) routerFlags(cmd *cobra.Command) {
	a.flags(cmd, "route.kind", "route.features", "route.ngrams", "route.max_terms", "route.c", "route.scale",
		"route.folds", "route.keep", "route.seed")
}

// routerSettings returns the settings of a router in the configuration; keep is the default of that setting.
func routerSettings(l *config.Loaded, keep float64) route.Settings {
	s := l.Config.Route.Settings
	s.Keep = cmp.Or(s.Keep, keep)
	if s.Kind == learn.MultinomialNB && !l.Given("route.features") {
		s.Features = route.TFIDF
	}
	return s
}

func (a *app) trainStoreRouter(cmd *cobra.Command, f routeFlags) error {
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	o := l.Config.Route
	if (o.By == domains.ByLabels) != (f.labels != "") {
		return usagef("--by labels and --labels FILE.jsonl go together")
	}
	o.Settings = routerSettings(l, domains.Defaults().Keep)
	o.Warn = func(text string) { a.warn("%s", text) }
	if err := f.read(&o); err != nil {
		return err
	}
	return a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
		var done func()
		o.Progress, done = a.stages()
		r, err := s.Router().Train(cmd.Context(), o)
		done()
		if err != nil {
			return err
		}
		return a.trainedDomains(r)
	})
}

// read adds the descriptions and questions of the files.
func (f routeFlags) read(o *domains.Options) error {
	err := each(f.labels, func(line []byte) error {
		var v struct{ Label, Description string }
		err := json.Unmarshal(line, &v)
		if err == nil && v.Label == "" {
			err = errors.New(`"label" is missing`)
		}
		o.Labels = append(o.Labels, domains.Description{Label: v.Label, Text: v.Description})
		return err
	})
	if err == nil {
		err = each(f.queries, func(line []byte) error {
			var v struct {
				Chunk string `json:"context_id"`
				Text  string `json:"text"`
			}
			err := json.Unmarshal(line, &v)
			if err == nil && (v.Chunk == "" || v.Text == "") {
				err = errors.New(`"context_id" or "text" is missing`)
			}
			o.Questions = append(o.Questions, domains.Question{Chunk: v.Chunk, Text: v.Text})
			return err
		})
	}
	return err
}

// trainedDomains prints a store's new router.
func (a *app) trainedDomains(r *domains.Result) error {
	if a.json {
		return a.printJSON(struct {
			*domains.Result
			Router route.About `json:"router"`
		}{r, r.Router.About})
	}
	var b strings.Builder
	for _, x := range r.Silhouette {
		fmt.Fprintf(&b, "%d clusters: mean silhouette %.4f\n", x.K, x.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Chunks)) {
		fmt.Fprintf(&b, "%6d chunks  %s\n", r.Chunks[name], printable.Line(name))
	}
	if r.Unassigned > 0 {
		fmt.Fprintf(&b, "%6d chunks of no domain, which every search reads\n", r.Unassigned)
	}
	return errors.Join(a.print(b.String()), a.trainedRouter(r.Dir, r.Router))
}

// each calls fn with the lines of a file that are not blank; path "" is no file.
func each(path string, fn func(line []byte) error) error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for line, err := range jsonl.Lines(file, jsonl.MaxLineBytes) {
		if raw := line.Text(); err == nil && len(raw) > 0 {
			err = fn(raw)
		}
		if err != nil {
			return &jsonl.LineError{Source: path, Line: line.Number, Err: err}
		}
	}
	return nil
}

func (a *app) routeShowCommand() *cobra.Command {
	return &cobra.Command{Use: "show", Short: "show the store's router, how good it is and how stale",
		Args: cobra.NoArgs,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			r, err := s.Router().Get(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintf(a.stdout, "%s over %s, %d domains by %s: %.100q\n", r.Settings.Kind, r.Settings.Features,
				len(r.Labels), r.Data.Domains, r.Labels)
			fmt.Fprintf(a.stdout,
				"accuracy %.4f on %d questions; %.2f domains are searched on average, %.1f %% of the "+
					"questions everywhere\n", r.HeldOut.Accuracy, r.HeldOut.Texts, r.Sets.Size, 100*r.Sets.All)
			if stale := r.Stale.String(); stale != "" {
				fmt.Fprintf(a.stdout, "%s; 'sluice route train' brings it up to date\n", stale)
			}
			return nil
		})}
}

func (a *app) routeRemoveCommand() *cobra.Command {
	return &cobra.Command{Use: "rm", Short: "remove the store's router", Args: cobra.NoArgs,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			return s.Router().Remove(cmd.Context())
		})}
}
