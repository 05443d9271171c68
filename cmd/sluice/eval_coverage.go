package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/domains"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

type coverageFlags struct {
	gate.Splits
	data, name string
	byDomain   bool
}

// coverageAnswer is the output of eval coverage --json.
type coverageAnswer struct {
	Of       string          `json:"of"` // the data, or the calibration's name
	Score    string          `json:"score"`
	Contexts int             `json:"contexts"` // with a question
	Splits   int             `json:"splits"`
	Seed     uint64          `json:"seed"`
	Rows     []gate.Coverage `json:"rows"`
}

func (a *app) evalCoverageCommand() *cobra.Command {
	var f coverageFlags
	cmd := &cobra.Command{
		Use:   "coverage",
		Short: "what conformal policies promise, beside what they do over random splits of the contexts",
		Long: `Splits the contexts of a calibration that have a question at random, takes the cut-off of a conformal policy from one
part and counts how many questions about the others it keeps out. Each context counts with one question. Printed are the
mean over the splits with its standard error beside the promise, and the share of the splits that are above the level
beside its exact prediction. Policies that need more contexts are refused, as 'calibrate' would.

Without --data it is the store's calibration, and no model is needed. --data is a folder with contexts.jsonl and
queries.jsonl, whose answerable questions calibrate a store that is removed afterwards.`,
		Example: "  sluice eval coverage\n  sluice eval coverage --data squad16 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.data != "" && f.name != "" {
				return usagef("--name is of a calibration of the store, and goes without --data")
			}
			if f.byDomain && f.data == "" {
				return usagef("--by-domain goes with --data; a store's calibration has domains if the store has a router")
			}
			if cmd.Flags().Changed("levels") && !cmd.Flags().Changed("confident") {
				f.Confident = f.Levels
			}
			c, of, err := a.coverageOf(cmd, f)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("contexts") {
				f.Contexts = splitSizes(c.Evidence.Contexts)
			}
			rows, err := c.Coverage(f.Splits)
			if errors.Is(err, gate.ErrSplits) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			return a.printCoverage(coverageAnswer{Of: of, Score: c.Score, Contexts: c.Evidence.Contexts,
				Splits: f.Times, Seed: f.Seed, Rows: rows})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "folder of a dataset, instead of the store's calibration")
	flags.StringVar(&f.name, "name", "", "calibration of the store (default: the one in force)")
	flags.BoolVar(&f.byDomain, "by-domain", false,
		"with --data: train a router of the topics first, and compare the cut-offs by domain")
	flags.IntSliceVar(&f.Contexts, "contexts", nil,
		"contexts that the cut-off comes from (default: 38, 100 and 300, as far as there are more)")
	flags.Float64SliceVar(&f.Levels, "levels", []float64{.01, .05, .1, .2}, "levels, on average over calibrations")
	flags.Float64SliceVar(&f.Confident, "confident", []float64{.05, .1, .2},
		"levels with confidence (default with --levels: those)")
	flags.Float64Var(&f.Delta, "delta", .05, "1 - delta is that confidence")
	flags.IntVar(&f.Times, "splits", 1000, "random splits")
	flags.Uint64Var(&f.Seed, "seed", 1, "seed of the splits")
	_ = cmd.RegisterFlagCompletionFunc("name", a.completing(calibrationNames, true)) // fails only for unknown flags
	return cmd
}

// splitSizes returns the default sizes for so many contexts.
func splitSizes(contexts int) (sizes []int) {
	for _, n := range []int{38, 100, 300} {
		if n < contexts {
			sizes = append(sizes, n)
		}
	}
	if len(sizes) == 0 {
		sizes = []int{max(1, contexts/2)}
	}
	return sizes
}

// coverageOf returns the store's calibration, or one of a dataset, and what it is of.
func (a *app) coverageOf(cmd *cobra.Command, f coverageFlags) (c *gate.Calibration, of string, err error) {
	if f.data == "" {
		err = a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
			r, err := s.Calibrations().Get(cmd.Context(), f.name)
			if err == nil {
				c, of = r.Calibration, r.Name
			}
			return err
		})
		return c, of, err
	}
	set, err := dataset.Open(f.data)
	if err != nil {
		return nil, "", err
	}
	if text := set.Faults.String(); text != "" {
		a.warn("%s: %s", f.data, text)
	}
	l, err := a.settings(cmd)
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", "sluice-coverage-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := a.evalConfig(l.Config)
	cfg.Store, cfg.Precision, cfg.Metric = filepath.Join(dir, "store"), l.Config.Precision, l.Config.Metric
	s, err := sluice.Open(cmd.Context(), cfg)
	if err != nil {
		return nil, "", err
	}
	spinner := a.spin("calibrating a store of " + f.data)
	c, err = calibratedSet(cmd.Context(), s, set, dir, f)
	spinner.Stop()
	return c, f.data, closing(s, err)
}

// calibratedSet ingests the contexts of a dataset and calibrates the store by its answerable questions. The policy's
// level is of no account: the splits have levels of their own, and it only fixes the score beforehand.
func calibratedSet(
	ctx context.Context, s *sluice.Sluice, set *dataset.Set, dir string, f coverageFlags,
) (*gate.Calibration, error) {
	file := filepath.Join(dir, dataset.ContextsFile)
	if err := dataset.WriteLines(file, set.Contexts); err != nil {
		return nil, err
	}
	if _, err := s.Ingest(ctx, []string{file}, ingest.Options{Strict: true, NoChunk: true}); err != nil {
		return nil, err
	}
	if f.byDomain {
		if _, err := s.Router().Train(ctx, domains.DefaultOptions()); err != nil {
			return nil, err
		}
	}
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, q := range set.Queries {
		if !q.CanAnswer() {
			continue
		}
		if err := e.Encode(map[string]string{"context_id": q.ContextID, "text": q.Text}); err != nil {
			return nil, err
		}
	}
	o := calibrate.DefaultOptions()
	o.Queries, o.Source, o.Policy, o.Second = &lines, f.data, "conformal:0.5", gate.NoSecond
	o.Resamples, o.Holdout, o.PerContext, o.Seed = -1, 0, mostOfContext, f.Seed
	r, err := s.Calibrate(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.Calibration, nil
}

// mostOfContext is how many questions about a context calibrate.
const mostOfContext = 1000

func (a *app) printCoverage(c coverageAnswer) error {
	if a.json {
		return a.printJSON(c)
	}
	table := terminal.Table{Columns: []terminal.Column{{Title: "CONTEXTS", Right: true}, {Title: "POLICY", Keep: true},
		{Title: "RANK", Right: true}, {Title: "KEPT OUT", Keep: true}, {Title: "EXPECTED", Right: true, Keep: true},
		{Title: "ABOVE IN", Right: true, Keep: true}, {Title: "EXPECTED", Right: true}, {Title: "", Keep: true}}}
	by := terminal.Table{Columns: []terminal.Column{{Title: "CONTEXTS", Right: true}, {Title: "POLICY", Keep: true},
		{Title: "DOMAIN", Keep: true}, {Title: "BY ALL", Right: true, Keep: true}, {Title: "BY DOMAIN", Keep: true}}}
	split := false
	for _, r := range c.Rows {
		if r.Refused {
			table.Add(fmt.Sprint(r.Contexts), r.Policy, "", fmt.Sprintf("refused: takes %d", r.Needed), "", "", "", "")
			continue
		}
		table.Add(fmt.Sprint(r.Contexts), r.Policy, fmt.Sprint(r.Rank), fmt.Sprintf("%.4f ± %.4f", r.Closed, r.Error),
			fmt.Sprintf("%.4f", r.Expected), fmt.Sprintf("%.3f", r.Above), fmt.Sprintf("%.3f", r.AboveExpected),
			map[bool]string{true: "holds", false: "broken"}[r.Holds])
		for _, d := range r.Domains {
			split = true
			by.Add(fmt.Sprint(r.Contexts), r.Policy, d.Name, fmt.Sprintf("%.4f", d.ByAll),
				fmt.Sprintf("%.4f ± %.4f", d.ByDomain, d.Error))
		}
	}
	text := fmt.Sprintf("%s: %d contexts with a question, score %s, %d splits\n\n%s", c.Of, c.Contexts, c.Score,
		c.Splits, table.Text(a.screen()))
	if split {
		text += "\n" + by.Text(a.screen())
	}
	return a.print(text)
}
