package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
)

// gateLine is the output of `gate --json`.
type gateLine struct {
	ID        string         `json:"id,omitempty"`
	Retrieve  bool           `json:"retrieve"`
	Reason    string         `json:"reason,omitempty"` // why it is closed regardless of the score
	Score     float64        `json:"score"`
	Cutoff    float64        `json:"cutoff"`
	ContextID string         `json:"context_id"`
	Warning   string         `json:"warning,omitempty"`
	LogID     string         `json:"log_id,omitempty"`
	Explain   *gate.Decision `json:"explain,omitempty"`
}

func (a *app) gateCommand() *cobra.Command {
	var q query
	var explain, noScore bool
	cmd := &cobra.Command{
		Use:   "gate QUERY",
		Short: "decide whether the store can help with a query",
		Long: `Prints whether the gate is open for a query: whether its best score over all contexts is strictly better than the
calibrated cut-off. With one query the exit code is 0 for open and 3 for closed, so that scripts can branch on it.
It needs a calibration ('sluice calibrate') but no language model.
` + questionHelp + batchHelp,
		Example: "  sluice gate \"How are slices grown?\" --explain\n" +
			"  sluice gate --batch questions.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := q.text(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			return a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
				switch {
				case noScore:
					return a.gateOpens(cmd, s, q, text)
				case q.batch == "":
					return a.gateOne(cmd, s, text, explain)
				}
				return q.print(cmd.Context(), a, false, func(texts []string) (func(int, string) any, error) {
					ds, err := s.Gate(cmd.Context(), texts)
					return func(i int, id string) any { return lineOf(id, ds[i], explain) }, err
				})
			})
		},
	}
	q.flags(cmd)
	cmd.Flags().BoolVar(&explain, "explain", false, "say how the decision came about")
	cmd.Flags().BoolVar(&noScore, "no-score", false,
		"only decide: a query is searched until one context opens the gate, which need not be the best")
	cmd.MarkFlagsMutuallyExclusive("explain", "no-score")
	a.flags(cmd, "gate.stale_tolerance", "groups")
	a.flags(cmd, "device")
	return cmd
}

func lineOf(id string, d gate.Decision, explain bool) gateLine {
	l := gateLine{ID: id, Retrieve: d.Retrieve, Reason: d.Reason, Score: d.Score, Cutoff: d.Cutoff,
		ContextID: d.ContextID, Warning: d.Warning, LogID: d.LogID}
	if explain {
		l.Explain = &d
	}
	return l
}

func (a *app) gateOne(cmd *cobra.Command, s *sluice.Sluice, text string, explain bool) error {
	spinner := a.spin("asking the gate")
	ds, err := s.Gate(cmd.Context(), []string{text})
	spinner.Stop()
	if err != nil {
		return err
	}
	d := ds[0]
	if a.json {
		err = a.printJSON(lineOf("", d, explain))
	} else {
		err = a.printHanging(14, decisionText(d, explain))
	}
	if err != nil {
		return err
	}
	if explain && !a.json && d.Reason == "" {
		if err := a.printContext(cmd, s, d.ContextID); err != nil {
			return err
		}
	}
	if !d.Retrieve {
		return errGateClosed
	}
	return nil
}

// verdictLine is the output of `gate --no-score --json`.
type verdictLine struct {
	ID string `json:"id,omitempty"`
	gate.Verdict
}

// gateOpens decides without scores.
func (a *app) gateOpens(cmd *cobra.Command, s *sluice.Sluice, q query, text string) error {
	if q.batch == "" {
		vs, err := s.Opens(cmd.Context(), []string{text})
		switch {
		case err != nil:
			return err
		case a.json:
			err = a.printJSON(verdictLine{Verdict: vs[0]})
		case vs[0].Retrieve:
			_, err = fmt.Fprintf(a.stdout, "open  context %s is better than the cut-off %.4f\n",
				printable.Line(vs[0].ContextID), vs[0].Cutoff)
		case vs[0].Reason != "":
			_, err = fmt.Fprintf(a.stdout, "closed  %s\n", vs[0].Reason)
		default:
			_, err = fmt.Fprintf(a.stdout, "closed  no context is better than the cut-off %.4f\n", vs[0].Cutoff)
		}
		if err == nil && !vs[0].Retrieve {
			err = errGateClosed
		}
		return err
	}
	return q.print(cmd.Context(), a, false, func(texts []string) (func(int, string) any, error) {
		vs, err := s.Opens(cmd.Context(), texts)
		return func(i int, id string) any { return verdictLine{ID: id, Verdict: vs[i]} }, err
	})
}

func decisionText(d gate.Decision, explain bool) string {
	word, relation := "closed", "not better than"
	if d.Retrieve {
		word, relation = "open", "better than"
	}
	if d.Reason != "" {
		return fmt.Sprintf("closed  %s\n", d.Reason)
	}
	text := fmt.Sprintf("%s  score %.4f is %s the cut-off %.4f (best context %s)\n", word, d.Score, relation, d.Cutoff,
		printable.Line(d.ContextID))
	if !explain {
		return text
	}
	direction, sign := "above", "-"
	if d.Metric == kernels.L2 {
		direction, sign = "below", "+"
	}
	parts := ""
	if d.Similarity != nil {
		parts = fmt.Sprintf("              %.4f similarity + %g × %.4f, the share of the query's words that the "+
			"context has\n", *d.Similarity, d.CoverWeight, *d.Cover)
	}
	text += fmt.Sprintf("  rule        retrieve if the best %s is strictly %s P %s T\n"+
		"  P           %.4f (policy %s)\n  T           %.4f\n  cut-off     %.4f\n  score       %.4f, as good as or "+
		"better than %.1f %% of the questions that belong to a context\n%s  stale       %.3g %% of the contexts "+
		"came after the calibration, %.3g %% of the calibrated ones have gone\n",
		d.ScoredBy, direction, sign, d.PolicyValue, d.Policy, d.Threshold, d.Cutoff, d.Score, d.Percentile, parts,
		100*d.Stale, 100*d.Gone)
	if x := d.Domain; x != nil {
		text += fmt.Sprintf("  domain      %s, by the router; cut-off of %s",
			printable.Line(cmp.Or(x.Name, "not known")), printable.Line(x.Of))
		if b := x.Closed; b != nil {
			text += fmt.Sprintf(": at most %.3g %% of the %s are kept out (%d contexts)", 100*b.Level, b.Questions,
				b.Of)
		}
		text += "\n"
	}
	if x := d.Shadow; x != nil {
		word := map[bool]string{true: "open", false: "closed"}[x.Retrieve]
		if x.Retrieve == d.Retrieve {
			word += ", too"
		}
		text += fmt.Sprintf("  shadow      policy %s with T = %g would be %s (cut-off %.4f)\n", x.Policy, x.Threshold,
			word, x.Cutoff)
	}
	if d.LogID != "" {
		text += fmt.Sprintf("  logged      as %s ('sluice feedback %s up' or 'down')\n", d.LogID, d.LogID)
	}
	return text
}

func (a *app) printContext(cmd *cobra.Command, s *sluice.Sluice, id string) error {
	chunks, err := s.Documents().Chunks(cmd.Context(), []string{id})
	if err != nil {
		return err
	}
	c := chunks[0]
	_, err = fmt.Fprintf(a.stdout, "  context     %s, %s\n%s\n", printable.Line(c.ID), place(c.Source, c.Heading),
		indent(short(c.Text, 300)))
	return err
}

func place(source, heading string) string {
	if heading == "" {
		return printable.Line(source)
	}
	return printable.Line(source) + " › " + printable.Line(heading)
}
