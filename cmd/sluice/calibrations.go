package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/terminal"
)

// calibrationVerbs returns the commands over existing calibrations.
func (a *app) calibrationVerbs() []*cobra.Command {
	names := a.completing(calibrationNames, false)
	verbs := []*cobra.Command{
		{Use: "list", Short: "list the calibrations; * marks the one in force", Args: cobra.NoArgs,
			RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
				return a.listCalibrations(cmd, s)
			})},
		{Use: "show [NAME]", ValidArgsFunction: names,
			Short: "print a calibration, or the one in force", Args: takes(0, 1),
			RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
				r, err := s.Calibrations().Get(cmd.Context(), append(args, "")[0])
				if err != nil {
					return err
				}
				return a.printCalibration(r)
			})},
		{Use: "use NAME", ValidArgsFunction: names,
			Short: "put a calibration in force", Args: takes(1, 1),
			RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
				r, err := s.Calibrations().Use(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.result(r, "%s is in force: %s = %.4f, cut-off %.4f\n", r.Name, r.Policy,
					r.PolicyValue, r.Cutoff)
			})},
		{Use: "rm NAME", ValidArgsFunction: names,
			Short: "remove a calibration that is not in force", Args: takes(1, 1),
			RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
				if err := s.Calibrations().Remove(cmd.Context(), args[0]); err != nil {
					return err
				}
				return a.result(map[string]any{"removed": args[0]}, "removed %s\n", args[0])
			})},
	}
	for _, verb := range verbs {
		a.flags(verb, "groups")
	}
	return verbs
}

func (a *app) listCalibrations(cmd *cobra.Command, s *sluice.Sluice) error {
	list, err := s.Calibrations().List(cmd.Context())
	if err != nil {
		return err
	}
	if a.json {
		return newPrinter(a.stdout).lines(len(list), func(i int) any { return list[i] })
	}
	table := terminal.Table{Columns: []terminal.Column{{Title: "  NAME", Keep: true}, {Title: "POLICY"},
		{Title: "CUT-OFF", Right: true}, {Title: "QUESTIONS", Right: true},
		{Title: "CONTEXTS", Right: true, Spare: true},
		{Title: "VERDICT", Keep: true}, {Title: "MADE", Keep: true, Spare: true}}}
	for _, r := range list {
		mark := " "
		if r.Name == r.InForce {
			mark = "*"
		}
		table.Add(mark+" "+r.Name, r.Policy, fmt.Sprintf("%.4f", r.Cutoff), fmt.Sprint(r.Queries.Queries),
			fmt.Sprint(r.Queries.Sampled), string(r.Evidence.Grade), r.Created.Local().Format(time.DateTime))
	}
	return a.print(table.Text(a.screen()))
}

// checkCalibrateFlags refuses flags that have no effect beside --show or --reuse.
func checkCalibrateFlags(cmd *cobra.Command, show, reuse, fromLog bool) (err error) {
	mode, used := "--show", map[string]bool{"show": true, "name": true}
	switch {
	case show && reuse:
		return usagef("--show and --reuse exclude each other")
	case fromLog && (show || reuse):
		return usagef("--from-log goes with neither --show nor --reuse")
	case fromLog:
		mode, used = "--from-log", map[string]bool{"from-log": true, "name": true, "use": true, "holdout": true,
			"seed": true}
	case reuse:
		mode, used = "--reuse",
			map[string]bool{"reuse": true, "name": true, "use": true, "policy": true, "score": true, "second": true,
				"threshold": true, "plot": true}
	case !show:
		return nil
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !used[f.Name] && cmd.InheritedFlags().Lookup(f.Name) == nil && err == nil {
			err = usagef("--%s has no effect with %s", f.Name, mode)
		}
	})
	return err
}
