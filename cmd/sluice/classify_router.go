package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/route"
)

// classifyByRouter runs `classify` with a router.
func (a *app) classifyByRouter(cmd *cobra.Command, s *sluice.Sluice, f *classifyFlags, text string) error {
	if f.batch == "" {
		spinner := a.spin("classifying")
		found, err := s.Router().Route(cmd.Context(), nil, []string{text})
		spinner.Stop()
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(f.routed(found[0]))
		}
		return a.showRoute(f, found[0])
	}
	out := newPrinter(a.stdout)
	return f.run(cmd.Context(), a, true, func(items []jsonl.Item) error {
		found, err := s.Router().Route(cmd.Context(), nil, texts(items))
		if err != nil {
			return err
		}
		return out.lines(len(items), func(i int) any {
			line := f.routed(found[i])
			line.ID = items[i].ID
			return line
		})
	})
}

// routed converts a decision to its JSON output, with the labels that --top and --threshold leave.
func (f *classifyFlags) routed(d route.Decision) classifyLine {
	labels := []classifyItem{}
	for _, l := range d.Labels {
		if (f.top == 0 || len(labels) < f.top) && (!f.given || l.Probability >= f.threshold) {
			labels = append(labels, classifyItem{l.Label, float32(l.Probability)})
		}
	}
	return classifyLine{Labels: &labels, Given: &d.Given, Abstained: &d.Abstained, Familiarity: &d.Familiarity}
}

// showRoute prints a decision for a person.
func (a *app) showRoute(f *classifyFlags, d route.Decision) error {
	f.top = cmp.Or(f.top, shownLabels)
	if d.Abstained {
		a.note("no label: the text is unlike those that the router was trained on (familiarity %.3f)", d.Familiarity)
	}
	var b strings.Builder
	for _, l := range *f.routed(d).Labels {
		mark := " "
		if slices.Contains(d.Given, l.Label) {
			mark = ">"
		}
		fmt.Fprintf(&b, "%s %.4f  %s\n", mark, l.Probability, printable.Line(l.Label))
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
