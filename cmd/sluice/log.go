package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
)

func (a *app) logCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "what the log of decisions says",
		Long: `The gate's decisions are logged only if log.decisions names a file. 'feedback' adds what people say of the
answers, and 'calibrate --from-log' finds a policy and threshold by that.`}
	report := &cobra.Command{Use: "report [FILE]",
		Short: "count decisions, feedback, and where the shadow policy disagrees", Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.settings(cmd)
			if err != nil {
				return err
			}
			file := l.Config.Decisions.File
			if len(args) == 1 {
				file = args[0]
			}
			if file == "" {
				return decisions.ErrOff
			}
			contents, err := a.decisionsOf(cmd, file)
			if err != nil {
				return err
			}
			r := contents.Report()
			return a.result(r, "%s", reportText(r))
		}}
	cmd.AddCommand(report)
	return group(cmd)
}

// decisionsOf reads a log of decisions: a file, or that in the database of the store.
func (a *app) decisionsOf(cmd *cobra.Command, file string) (c *decisions.Contents, err error) {
	if file != decisions.Database {
		return decisions.Read(file)
	}
	err = a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
		c, err = s.Decisions().Read(cmd.Context())
		return err
	})(cmd, nil)
	return c, err
}

func reportText(r decisions.Report) string {
	var b strings.Builder
	in := "the database"
	if r.Files > 0 {
		in = count(r.Files, "file")
	}
	fmt.Fprintf(&b, "decisions  %d in %s, %d of them open\n", r.Decisions, in, r.Open)
	fmt.Fprintf(&b, "feedback   %d up, %d down: %d questions in scope, %d out of scope\n", r.Up, r.Down, r.InScope,
		r.OutScope)
	for _, s := range r.Shadows {
		fmt.Fprintf(&b, "shadow     %s, T = %g: decides otherwise in %d of %d (would open %d, close %d)", s.Policy,
			s.Threshold, s.Disagrees, s.Decisions, s.Opens, s.Closes)
		if s.Right+s.Wrong > 0 {
			fmt.Fprintf(&b, "; by feedback it is right in %d of these, wrong in %d", s.Right, s.Wrong)
		}
		b.WriteString("\n")
	}
	if r.Bad > 0 {
		fmt.Fprintf(&b, "bad lines  %d\n", r.Bad)
	}
	return b.String()
}

func (a *app) feedbackCommand() *cobra.Command {
	return &cobra.Command{Use: "feedback ID up|down", Short: "say that an answer was right, or wrong",
		Long: `ID is the log_id of a decision, which 'gate --json', 'ask --json' (trace.gate.log_id) and --explain show
where decisions are logged (log.decisions). up says that the answer was good and that using the store, or not, was
right; down that it was wrong.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[1] != decisions.Up && args[1] != decisions.Down {
				return usagef("feedback takes the ID of a decision and up or down")
			}
			return nil
		},
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
			if err := s.Decisions().Feedback(cmd.Context(), args[0], args[1] == decisions.Up); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]string{"id": args[0], "thumb": args[1]})
			}
			return nil
		})}
}

// fromLog makes a calibration from feedback.
func (a *app) fromLog(cmd *cobra.Command, s *sluice.Sluice, file string, c calibrate.Options) error {
	o := sluice.FromLogOptions{File: file, Name: c.Name, Use: c.Use, Seed: c.Seed}
	if cmd.Flags().Changed("holdout") { // the setting's default is for pseudo-queries, which are more numerous
		o.Holdout = c.Holdout
	}
	r, err := s.Calibrations().FromLog(cmd.Context(), o)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "questions  %d with feedback, %d of them scored anew, %d with the score that was logged\n",
		r.Questions, r.Scored, r.Logged)
	if r.Dropped > 0 {
		fmt.Fprintf(&b, "left out   %d, whose score is of another kind\n", r.Dropped)
	}
	line := func(what string, before, after decisions.Effect) {
		fmt.Fprintf(&b, "%-10s before: %d of %d in scope open, %d of %d out of scope kept out (%.3f)\n"+
			"           after:  %d of %d in scope open, %d of %d out of scope kept out (%.3f)\n", what, before.Opens,
			before.InScope, before.KeptOut, before.OutOfScope, before.Balanced, after.Opens, after.InScope,
			after.KeptOut, after.OutOfScope, after.Balanced)
	}
	line("fitted to", r.TrainingBefore, r.TrainingAfter)
	line("held out", r.HoldoutBefore, r.HoldoutAfter)
	fmt.Fprintf(&b, "before     policy %s, T = %.4f, cut-off %.4f\n", r.Before.Policy, r.Before.Threshold,
		r.Before.Cutoff)
	switch {
	case !r.Changed:
		fmt.Fprintf(&b, "kept       %s\n", r.Reason)
	default:
		fmt.Fprintf(&b, "after      policy %s, T = %.4f, cut-off %.4f\n", r.After.Policy, r.After.Threshold,
			r.After.Cutoff)
		in := "in force"
		if r.Calibration.InForce != r.Calibration.Name {
			in = "not in force: 'sluice calibrate use " + r.Calibration.Name + "' changes that"
		}
		fmt.Fprintf(&b, "file       %s, %s\n", printable.Line(r.Calibration.File), in)
	}
	return a.print(b.String())
}
