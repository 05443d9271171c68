package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/answer"
)

func (a *app) flowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "flow", Short: "list and draw the graphs that a question may go through"}
	list := &cobra.Command{Use: "list", Short: "list the graphs of 'ask --flow'", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.listFlows() }}
	form := "mermaid"
	graph := &cobra.Command{Use: "graph FLOW", Short: "draw a graph: retries are dotted lines",
		Example:   "  sluice flow graph paper\n  sluice flow graph paper --form dot | dot -Tsvg > paper.svg",
		Args:      takes(1, 1),
		ValidArgs: answer.Presets(),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.drawFlow(args[0], form)
		}}
	graph.Flags().StringVar(&form, "form", form, "mermaid, dot (Graphviz) or table")
	cmd.AddCommand(list, graph)
	return cmd
}

// listFlows prints the presets and their descriptions.
func (a *app) listFlows() error {
	type line struct {
		Name  string   `json:"name"`
		Does  string   `json:"does"`
		Nodes []string `json:"nodes"`
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, name := range answer.Presets() {
		g, err := answer.Preset(name)
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(line{name, g.Does(), g.Nodes()}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n\t%s\n", name, g.Does(), strings.Join(g.Nodes(), ", "))
	}
	return w.Flush()
}

// drawFlow prints a preset as a graph or a table of its edges.
func (a *app) drawFlow(name, form string) error {
	g, err := answer.Preset(name)
	if err != nil {
		return err
	}
	switch form {
	case "mermaid":
		fmt.Fprint(a.stdout, g.Mermaid())
	case "dot":
		fmt.Fprint(a.stdout, g.DOT())
	case "table":
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "node\tverdict\tnext\tretry")
		for _, e := range g.Edges() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.From, e.On, e.To, map[bool]string{true: "yes"}[e.Retry])
		}
		return w.Flush()
	default:
		return usagef("--form is mermaid, dot or table, given %q", form)
	}
	return nil
}

// writeSteps writes the nodes that a question passed through.
func writeSteps(line func(name, format string, args ...any), t answer.Trace) {
	outcome := string(t.Outcome)
	if t.Why != "" {
		outcome += " (" + string(t.Why) + ")"
	}
	line("flow", "%s: %s, %d retries", t.Flow, outcome, t.Retries)
	for _, s := range t.Steps {
		said, spent := string(s.Verdict), ""
		if s.Score != nil {
			said += fmt.Sprintf(" (%.4f)", *s.Score)
		}
		if s.Calls > 0 {
			spent = fmt.Sprintf(", %d calls, %d tokens", s.Calls, s.Tokens)
		}
		text := fmt.Sprintf("%s: %s → %s%s, %.1f ms", s.Node, said, s.Next, spent, s.Milliseconds)
		for _, more := range []string{s.Input, s.Detail} {
			if more != "" {
				text += "; " + printable.Line(short(more, 100))
			}
		}
		line("step", "%s", text)
	}
}
