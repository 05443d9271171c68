package report

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/eval/rating"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/durable"
)

// Names of the files that Write creates.
const (
	HTML     = "report.html"
	CSV      = "results.csv"
	Parquet  = "results.parquet"
	Markdown = "results.md"
)

// Report is a result with the information that its reader needs.
type Report struct {
	*experiment.Result
	Machine  string
	Settings string // the experiment as YAML
	When     time.Time
	People   map[string]rating.Agreement // of the judge with people's ratings, by measure; may be nil
}

// Write writes all files to a folder, each atomically.
func (r *Report) Write(dir string) error {
	if err := durable.MkdirAll(dir); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var grids []grid
	var plots [][]byte
	for _, t := range r.tables() {
		g := layout(t, r.Rows)
		var drawn []byte
		var err error
		if t.Plot {
			if drawn, err = svg(g); err != nil {
				return err
			}
		}
		grids, plots = append(grids, g), append(plots, drawn)
	}
	put := func(name string, write func(io.Writer) error) error {
		if err := durable.Replace(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("report: %s: %w", name, err)
		}
		return nil
	}
	err := errors.Join(put(CSV, r.csv), put(Parquet, r.parquet),
		put(Markdown, func(w io.Writer) error { return r.markdown(w, grids, plots) }),
		put(HTML, func(w io.Writer) error { return r.html(w, grids, plots) }))
	for i, p := range plots {
		if p != nil {
			err = errors.Join(err, put(plotName(i), func(w io.Writer) error { _, err := w.Write(p); return err }))
		}
	}
	return err
}

func plotName(i int) string { return fmt.Sprintf("plot-%d.svg", i+1) }

// tables returns the tables of the file, or one for each part.
func (r *Report) tables() []experiment.Table {
	if len(r.File.Tables) > 0 {
		return r.File.Tables
	}
	var tables []experiment.Table
	for _, p := range r.File.Parts {
		var rows []string
		for _, d := range experiment.Dimensions() {
			seen := map[string]bool{}
			for _, x := range r.Rows {
				if x.Part == p.Name {
					seen[x.Dimension(d)] = true
				}
			}
			if len(seen) > 1 && d != "measure" {
				rows = append(rows, d)
			}
		}
		if len(rows) == 0 {
			rows = []string{"part"}
		}
		tables = append(tables, experiment.Table{Title: p.Name, Part: p.Name, Rows: rows})
	}
	return tables
}

// columns returns the columns of results.csv and results.parquet.
func columns(rows []experiment.Row) (list []column) {
	text := func(name string, of func(experiment.Row) string) {
		c := column{name: name, texts: []string{}}
		for _, x := range rows {
			c.texts = append(c.texts, of(x))
		}
		list = append(list, c)
	}
	double := func(name string, of func(experiment.Row) float64) {
		c := column{name: name, doubles: []float64{}}
		for _, x := range rows {
			c.doubles = append(c.doubles, of(x))
		}
		list = append(list, c)
	}
	long := func(name string, of func(experiment.Row) int) {
		c := column{name: name, longs: []int64{}}
		for _, x := range rows {
			c.longs = append(c.longs, int64(of(x)))
		}
		list = append(list, c)
	}
	text("experiment", func(x experiment.Row) string { return x.Experiment })
	for _, d := range []string{"part", "encoder", "precision", "chunker", "mode", "metric"} {
		text(d, func(x experiment.Row) string { return x.Dimension(d) })
	}
	double("weight", func(x experiment.Row) float64 { return x.Weight })
	long("k", func(x experiment.Row) int { return x.K })
	text("routed", func(x experiment.Row) string { return strconv.FormatBool(x.Routed) })
	for _, d := range []string{"generator", "system", "group", "measure"} {
		text(d, func(x experiment.Row) string { return x.Dimension(d) })
	}
	long("n", func(x experiment.Row) int { return x.N })
	long("unscored", func(x experiment.Row) int { return x.Unscored })
	double("mean", func(x experiment.Row) float64 { return x.Mean })
	double("low", func(x experiment.Row) float64 { return x.Low })
	double("high", func(x experiment.Row) float64 { return x.High })
	double("p50", func(x experiment.Row) float64 { return x.P50 })
	double("p95", func(x experiment.Row) float64 { return x.P95 })
	return list
}

func (r *Report) csv(w io.Writer) error {
	list := columns(r.Rows)
	line := make([]string, len(list))
	for j, c := range list {
		line[j] = c.name
	}
	out := csv.NewWriter(w)
	if err := out.Write(line); err != nil {
		return err
	}
	for i, x := range r.Rows {
		for j, c := range list {
			line[j] = c.text(i)
		}
		if x.N == 0 { // there are no values
			clear(line[len(line)-5:])
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (r *Report) parquet(w io.Writer) error {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(x experiment.Row) bool { return x.N == 0 && x.Unscored == 0 })
	return writeParquet(w, columns(rows), len(rows), "sluice")
}

// facts returns the settings of the run as name–value pairs.
func (r *Report) facts() [][2]string {
	return [][2]string{
		{"machine", r.Machine}, {"sluice", buildinfo.Version + ", " + runtime.Version()},
		{"when", r.When.UTC().Format(time.RFC3339)}, {"judge", r.Judge},
		{"items", fmt.Sprintf("%d, of which %d were taken from the journal", r.Items, r.Resumed)},
		{"unscored values", strconv.Itoa(r.Unscored)}, {"seconds of this run", fmt.Sprintf("%.1f", r.Seconds)},
		{"intervals", "95 %, bootstrap over questions, 1000 samples"},
	}
}

func (r *Report) markdown(w io.Writer, grids []grid, plots [][]byte) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.title())
	if r.File.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(r.File.Note))
	}
	for i, g := range grids {
		fmt.Fprintf(&b, "## %s\n\n", g.Title)
		if g.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(g.Note))
		}
		for _, w := range r.warnings(g) {
			fmt.Fprintf(&b, "> **Warning.** %s\n\n", w)
		}
		b.WriteString(markdown(g.Head, g.Body) + "\n")
		switch {
		case g.published > 0:
			fmt.Fprintf(&b, "Published: %s\n\n", g.Source)
		case len(g.Published) > 0:
			fmt.Fprintf(&b, "Published: %s\n\n%s\n", g.Source, markdown(g.Published[0], g.Published[1:]))
		}
		if plots[i] != nil {
			fmt.Fprintf(&b, "![%s](%s)\n\n", g.Title, plotName(i))
		}
	}
	b.WriteString("## Run\n\n")
	for _, f := range r.facts() {
		fmt.Fprintf(&b, "- %s: %s\n", f[0], f[1])
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- note: %s\n", n)
	}
	fmt.Fprintf(&b, "\n```yaml\n%s```\n", r.Settings)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) title() string { return cmp.Or(r.File.Title, r.File.Name) }
