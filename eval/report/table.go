package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/eval/experiment"
)

// grid is a table as shown, and the rows of its values, for plots.
type grid struct {
	experiment.Table
	Head      []string
	Body      [][]string
	published int        // number of the last columns that hold published values
	names     [][]string // of the values: the cells of the dimensions
	rows      [][]*experiment.Row
}

// layout puts the rows of a result into a table: a line for each combination of Table.Rows, a column for each of
// Table.Columns and each measure, unless that is among the rows. Dimensions keep the order in which they come up. Then
// come the columns of Table.Change, and the published values if Table.Align says which line is whose.
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
	if n := len(columns); n > 0 && columns[n-1] == "measure" {
		across.sort(t.Measures)
	}
	lines.sortBy(slices.Index(t.Rows, "measure"), t.Measures)
	g.Head = slices.Clone(t.Rows)
	for _, c := range across.order {
		g.Head = append(g.Head, strings.Join(nonEmpty(g.shown(columns, across.names[c])), ", "))
	}
	for _, l := range lines.order {
		name := lines.names[l]
		rows := []*experiment.Row{}
		body := g.shown(t.Rows, name)
		for _, c := range across.order {
			r := values[place{l, c}]
			body, rows = append(body, show(r)), append(rows, r)
		}
		g.Body, g.names, g.rows = append(g.Body, body), append(g.names, g.shown(t.Rows, name)), append(g.rows, rows)
	}
	g.change()
	g.align()
	return g
}

// shown returns what the table shows for the values of dimensions.
func (g *grid) shown(dimensions, values []string) []string {
	out := slices.Clone(values)
	for i, v := range out {
		if name, ok := g.Names[dimensions[i]][v]; ok {
			out[i] = name
		}
	}
	return out
}

// change adds the columns of Table.Change.
func (g *grid) change() {
	for _, m := range g.Change {
		g.Head = append(g.Head, "change of "+g.shown([]string{"measure"}, []string{m})[0]+", %")
		for l, rows := range g.rows {
			var of []*experiment.Row
			for _, r := range rows {
				if r != nil && r.Measure == m && r.N > 0 {
					of = append(of, r)
				}
			}
			text := "–"
			if len(of) > 1 && of[0].Mean != 0 {
				text = fmt.Sprintf("%+.2f", 100*(of[len(of)-1].Mean-of[0].Mean)/of[0].Mean)
			}
			g.Body[l] = append(g.Body[l], text)
		}
	}
}

// published begins the heads of columns with published values.
const published = "published: "

// align adds the published values: to the lines whose cell of the dimension Table.Align is the first cell of a
// published row, ignoring case and punctuation, and as further lines if no row of ours matches.
func (g *grid) align() {
	if g.Align == "" {
		return
	}
	at, width := slices.Index(g.Table.Rows, g.Align), len(g.Head)
	for _, name := range g.Published[0][1:] {
		g.Head = append(g.Head, published+name)
	}
	g.published = len(g.Published[0]) - 1
	for _, p := range g.Published[1:] {
		found := false
		for l, line := range g.Body {
			if len(line) == width && plain(line[at]) == plain(p[0]) {
				g.Body[l], found = append(line, p[1:]...), true
			}
		}
		if !found {
			line := slices.Repeat([]string{"–"}, width)
			line[at] = p[0]
			g.Body = append(g.Body, append(line, p[1:]...))
		}
	}
	for l, line := range g.Body {
		if missing := len(g.Head) - len(line); missing > 0 {
			g.Body[l] = append(line, slices.Repeat([]string{"–"}, missing)...)
		}
	}
}

// plain returns the letters and digits of a name, in lower case.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
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

// sortBy puts lines in the order that a table gives its measures, which are the values at an index of their names; −1:
// they are not among these.
func (x *index) sortBy(at int, measures []string) {
	if at < 0 || len(measures) == 0 {
		return
	}
	slices.SortStableFunc(x.order, func(a, b int) int {
		return slices.Index(measures, x.names[a][at]) - slices.Index(measures, x.names[b][at])
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
