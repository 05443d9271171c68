package main

import (
	"fmt"

	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
)

// similarity is the quantity of a calibration's distributions: of each question with a passage.
const similarity = "similarity with the"

// statistics returns the table of a calibration's distributions, with a row for each, or on a narrow terminal a column
// for each.
func statistics(r *calibrate.Result, screen terminal.Screen) string {
	type row struct {
		name, brief string
		s           *gate.Stats
	}
	rows := []row{{"own passage", "own", &r.Positive}, {"other passages (" + r.Negatives + ")", "others", &r.Negative},
		{"best passage", "best", &r.Maximum}, {"best of other " + groupsOf(r) + "s", "other " + groupsOf(r) + "s",
			r.MaximumOther}}
	if s := r.Chosen(); s != nil { // the distribution that the gate uses
		with, and := "with words", "words"
		if r.Score == string(gate.PseudoQuery) {
			with, and = "by questions", "questions"
		}
		rows = append(rows, row{"own, " + with, "own + " + and, &s.Positive},
			row{"best, " + with, "best + " + and, &s.Maximum},
			row{"best of others, " + with, "others + " + and, s.MaximumOther})
	}
	titles := []string{"n", "min", "p5", "Q1", "mean", "median", "Q3", "p95", "max"}
	wide := terminal.Table{Columns: []terminal.Column{{Title: similarity, Right: true}}}
	narrow := terminal.Table{Columns: []terminal.Column{{}}} // under a heading line
	for _, title := range titles {
		wide.Columns = append(wide.Columns, terminal.Column{Title: title, Right: true, Keep: true})
	}
	lines := make([][]string, len(titles))
	for i := range lines {
		lines[i] = []string{titles[i]}
	}
	for _, row := range rows {
		s := row.s
		if s == nil || s.N == 0 {
			continue
		}
		narrow.Columns = append(narrow.Columns, terminal.Column{Title: row.brief, Right: true, Keep: true})
		cells := []string{row.name, fmt.Sprint(s.N)}
		for _, x := range []float64{s.Min, s.P5, s.Q1, s.Mean, s.Median, s.Q3, s.P95, s.Max} {
			cells = append(cells, fmt.Sprintf("%.4f", x))
		}
		for i := range lines {
			lines[i] = append(lines[i], cells[i+1])
		}
		wide.Add(cells...)
	}
	for _, line := range lines {
		narrow.Add(line...)
	}
	if wide.Columns[0].Keep = true; screen.Terminal() && wide.Width() > screen.Columns {
		return similarity + " …\n" + narrow.Text(screen)
	}
	return wide.Text(screen)
}
