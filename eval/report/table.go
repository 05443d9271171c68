package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/eval/experiment"
)

// grid is a table as shown, and the rows of its values, for plots.
type grid struct {
	experiment.Table
	Head  []string
	Body  [][]string
	names [][]string // of the values: the cells of the dimensions
	rows  [][]*experiment.Row
}

// layout puts the rows of a result into a table: a line for each combination of Table.Rows, a column for each of
// Table.Columns and each measure, unless that is among the rows. Dimensions keep the order in which they come up.
func layout(t experiment.Table, all []experiment.Row) grid {
	g := grid{Table: t}
	columns := t.Columns
	if !slices.Contains(t.Rows, "measure") && !slices.Contains(columns, "measure") {
		columns = append(slices.Clone(columns), "measure")
	}
	lines, across := &index{}, &index{}
	type place struct{ line, column int }
	values := map[place]*experiment.Row{}
	for i := range all {
		r := &all[i]
		if r.Part != t.Part || len(t.Measures) > 0 && !slices.Contains(t.Measures, r.Measure) ||
			len(t.Groups) > 0 && !slices.Contains(t.Groups, r.Group) {
			continue
		}
		values[place{lines.of(r, t.Rows), across.of(r, columns)}] = r
	}
	across.sort(t.Measures)
	g.Head = slices.Clone(t.Rows)
	for _, c := range across.order {
		g.Head = append(g.Head, strings.Join(nonEmpty(across.names[c]), ", "))
	}
	for l, name := range lines.names {
		body, rows := slices.Clone(name), []*experiment.Row{}
		for _, c := range across.order {
			r := values[place{l, c}]
			body, rows = append(body, show(r)), append(rows, r)
		}
		g.Body, g.names, g.rows = append(g.Body, body), append(g.names, name), append(g.rows, rows)
	}
	return g
}

// index numbers combinations in the order in which they come up.
type index struct {
	at    map[string]int
	names [][]string
	order []int
}

func (x *index) of(r *experiment.Row, dimensions []string) int {
	name := make([]string, len(dimensions))
	for i, d := range dimensions {
		name[i] = r.Dimension(d)
	}
	key := strings.Join(name, "\x00")
	if x.at == nil {
		x.at = map[string]int{}
	}
	i, ok := x.at[key]
	if !ok {
		i = len(x.names)
		x.at[key], x.names, x.order = i, append(x.names, name), append(x.order, i)
	}
	return i
}

// sort puts the columns of measures, which are the last dimension, in the order that a table gives, within the
// dimensions before.
func (x *index) sort(measures []string) {
	first := map[string]int{}
	for i, n := range x.names {
		key := strings.Join(n[:len(n)-1], "\x00")
		if _, ok := first[key]; !ok {
			first[key] = i
		}
	}
	slices.SortStableFunc(x.order, func(a, b int) int {
		na, nb := x.names[a], x.names[b]
		if d := first[strings.Join(na[:len(na)-1], "\x00")] - first[strings.Join(nb[:len(nb)-1], "\x00")]; d != 0 {
			return d
		}
		return slices.Index(measures, na[len(na)-1]) - slices.Index(measures, nb[len(nb)-1])
	})
}

func nonEmpty(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
}

// show formats a value with its interval, if there is one, and the number of items without a value.
func show(r *experiment.Row) string {
	if r == nil {
		return "–"
	}
	var text string
	switch {
	case r.N == 0:
		text = "no value"
	case r.Low == r.High:
		text = number(r.Mean)
	default:
		text = fmt.Sprintf("%s [%s, %s]", number(r.Mean), number(r.Low), number(r.High))
	}
	if r.Unscored > 0 {
		text += fmt.Sprintf(" (%d of %d unscored)", r.Unscored, r.N+r.Unscored)
	}
	return text
}

func number(v float64) string {
	if v >= 100 || v <= -100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// markdown returns a table in Markdown.
func markdown(head []string, body [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + strings.NewReplacer("|", "\\|", "\n", " ").Replace(c) + " |")
		}
		b.WriteString("\n")
	}
	line(head)
	b.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for _, cells := range body {
		line(cells)
	}
	return b.String()
}
