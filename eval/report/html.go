package report

import (
	_ "embed"
	"html/template"
	"io"
	"regexp"
	"strings"
)

//go:embed report.html.tmpl
var page string

// beforeSVG matches what precedes the drawing in a separate SVG file.
var beforeSVG = regexp.MustCompile(`(?s)^.*?<svg `)

// value matches a value with its interval and the number of items without one.
var value = regexp.MustCompile(`^(.+?)(?: (\[[^\]]*\]))?(?: (\(\d+ of \d+ unscored\)))?$`)

// parts returns what stands on lines of its own in a cell: a value, its interval, the items without a value.
func parts(cell string) []string {
	m := value.FindStringSubmatch(cell)
	if m == nil {
		return []string{cell}
	}
	return nonEmpty(m[1:])
}

// html writes the report as one page without any other resource.
func (r *Report) html(w io.Writer, grids []grid, plots [][]byte) error {
	type section struct {
		grid
		SVG           template.HTML
		Theirs        int  // first column of published values
		Aligned       bool // there are such columns
		Warnings      []string
		PublishedHead []string
		PublishedBody [][]string
	}
	t, err := template.New("report").Funcs(template.FuncMap{"parts": parts, "published": func(head string) string {
		return strings.TrimPrefix(head, published)
	}}).Parse(page)
	if err != nil {
		return err
	}
	var sections []section
	for i, g := range grids {
		s := section{grid: g, Theirs: len(g.Head) - g.published, Aligned: g.published > 0, Warnings: r.warnings(g)}
		if plots[i] != nil { // drawn by our own code: its texts are escaped there
			s.SVG = template.HTML(beforeSVG.ReplaceAllString(string(plots[i]), "<svg "))
		}
		if len(g.Published) > 0 && g.published == 0 {
			s.PublishedHead, s.PublishedBody = g.Published[0], g.Published[1:]
		}
		sections = append(sections, s)
	}
	return t.Execute(w, map[string]any{"Title": r.title(), "Note": strings.TrimSpace(r.File.Note), "Sections": sections,
		"Facts": r.facts(), "Notes": r.Notes, "Settings": r.Settings})
}
