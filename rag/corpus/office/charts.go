package office

import (
	"cmp"
	"encoding/xml"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/office/number"
)

// drawn returns the text of what an element of a drawing shows: of a chart its title and its numbers as a table, of a
// diagram (SmartArt) its texts. parts are the names of the parts that the drawing refers to. A part that cannot be
// read is noted in the document.
func drawn(b *build.Builder, d *doc.Document, a *Archive, e xml.StartElement,
	parts map[string]string) (list []officeLine, err error) {
	switch e.Name.Local {
	case "chart":
		if part := parts[prefixed(e, "r", "id")]; part != "" {
			var r chartReader
			if err = a.list(part, r.token); err == nil {
				list = r.lines(b)
			}
		}
	case "relIds":
		if part := parts[prefixed(e, "r", "dm")]; part != "" {
			var r diagramReader
			err = a.list(part, r.token)
			list = r.list
		}
	}
	if err != nil && !errors.Is(err, doc.ErrTooLarge) {
		d.Lacks(err)
		err = nil
	}
	for _, l := range list {
		b.W.Take(build.BlockBytes + len(l.text))
	}
	return list, err
}

// diagramReader collects the paragraphs of a diagram's data.
type diagramReader struct {
	list   []officeLine
	text   strings.Builder
	inText bool
}

func (r *diagramReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		r.inText = t.Name.Local == "t"
	case xml.CharData:
		if r.inText {
			hold(&r.text, string(t))
		}
	case xml.EndElement:
		if r.inText = false; t.Name.Local != "p" {
			return nil
		}
		if text := strings.Join(strings.Fields(r.text.String()), " "); text != "" {
			r.list = append(r.list, officeLine{text, false})
		}
		r.text.Reset()
	}
	return nil
}

// chartReader reads the part of a chart (ECMA-376, part 1, 21.2), which holds a copy of the numbers that it shows.
type chartReader struct {
	series []chartSeries
	title  []string // pieces
	axes   []chartAxis

	unread   unreadDepth
	inAxis   bool
	inTitle  bool
	into     string // the child of a series in which the element is: "tx", "cat", "val"; "" outside
	level    int    // of categories of several levels, from 1, the innermost; 0: they have one
	index    int    // of the point
	text     strings.Builder
	isNumber bool
	from1904 bool
	format   *number.Format // of the points
	own      *number.Format // of the point
}

type chartAxis struct {
	values bool     // it has numbers, not categories or dates
	title  []string // pieces
}

// chartSeries is a row of numbers with its labels, by their indexes.
type chartSeries struct {
	name           string
	labels, values map[int]string
	outer          map[int]string // labels of outer levels, which hold up to the next
}

func (r *chartReader) token(t xml.Token) error {
	e, ok := t.(xml.StartElement)
	if r.unread.holds(t, ok && slices.Contains([]string{"dLbls", "trendline", "errBars", "extLst"}, e.Name.Local)) {
		return nil
	}
	switch t := t.(type) {
	case xml.StartElement:
		r.start(t)
	case xml.EndElement:
		r.end(t.Name.Local)
	case xml.CharData:
		hold(&r.text, string(t))
	}
	return nil
}

func (r *chartReader) start(e xml.StartElement) {
	r.text.Reset()
	switch name := e.Name.Local; name {
	case "date1904":
		r.from1904 = isOn(attribute(e, "val"))
	case "title":
		r.inTitle = true
	case "catAx", "dateAx", "valAx", "serAx":
		r.inAxis = true
		r.axes = append(r.axes, chartAxis{values: name == "valAx"})
	case "ser":
		r.series = append(r.series, chartSeries{labels: map[int]string{}, values: map[int]string{},
			outer: map[int]string{}})
	case "tx", "cat", "xVal", "val", "yVal":
		if len(r.series) > 0 && !r.inAxis && !r.inTitle {
			r.into, r.level, r.isNumber, r.format = name, 0, false, nil
		}
	case "lvl":
		r.level++
	case "numCache", "numLit":
		r.isNumber = true
	case "pt":
		r.index, _ = strconv.Atoi(attribute(e, "idx"))
		r.own = r.format
		if code := attribute(e, "formatCode"); code != "" {
			r.own = number.New(code)
		}
	}
}

func (r *chartReader) end(name string) {
	switch name {
	case "title":
		r.inTitle = false
	case "catAx", "dateAx", "valAx", "serAx":
		r.inAxis = false
	case "tx", "cat", "xVal", "val", "yVal":
		r.into = ""
	case "formatCode":
		r.format = number.New(r.text.String())
	case "p":
		r.name(" ")
	case "t":
		r.name(r.text.String())
	case "v":
		if r.name(r.text.String()); r.into != "" && !r.inTitle {
			r.point(strings.Join(strings.Fields(r.text.String()), " "))
		}
	}
	r.text.Reset()
}

// name adds to the title of the chart or of the open axis.
func (r *chartReader) name(text string) {
	switch {
	case r.inTitle && r.inAxis:
		a := &r.axes[len(r.axes)-1]
		a.title = append(a.title, text)
	case r.inTitle:
		r.title = append(r.title, text)
	}
}

// titles returns the title of the chart with that of its values, and the title of their labels.
func (r *chartReader) titles() (title, labels string) {
	whole := func(pieces []string) string { return strings.Join(strings.Fields(strings.Join(pieces, "")), " ") }
	values := ""
	for i, a := range r.axes {
		text := whole(a.title)
		if a.values && (i > 0 || len(r.axes) == 1) {
			values = text
		} else if i == 0 {
			labels = text
		}
	}
	if title = whole(r.title); title != "" && values != "" {
		return title + " (" + values + ")", labels
	}
	return title + values, labels
}

// point adds a value of the open series.
func (r *chartReader) point(text string) {
	if x, err := strconv.ParseFloat(text, 64); r.isNumber && err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
		if text = number.General(x); r.own != nil {
			text = r.own.Number(x, r.from1904)
		}
	}
	s := &r.series[len(r.series)-1]
	switch r.into {
	case "tx":
		s.name = text
	case "val", "yVal":
		s.values[r.index] = text
	default:
		if r.level > 1 {
			s.outer[r.index] = cmp.Or(s.outer[r.index], text)
		} else {
			s.labels[r.index] = text
		}
	}
}

// lines returns the title, and a table for each run of series with the same labels.
func (r *chartReader) lines(b *build.Builder) (list []officeLine) {
	title, labels := r.titles()
	if title != "" {
		list = append(list, officeLine{title, false})
	}
	r.series = slices.DeleteFunc(r.series, func(s chartSeries) bool { return len(s.values) == 0 })
	for len(r.series) > 0 {
		first, n := r.series[0], 1
		for n < len(r.series) && (len(r.series[n].labels) == 0 || maps.Equal(r.series[n].labels, first.labels)) {
			n++
		}
		table := r.series[:n]
		r.series = r.series[n:]
		all := maps.Clone(first.labels)
		for _, s := range table {
			maps.Copy(all, s.values)
		}
		b.W.Take(len(all) * (n + 1))      // series may have few labels in common
		list = append(list, officeLine{}) // ends a table before it
		head := []string{labels}
		for _, s := range table {
			head = append(head, s.name)
		}
		if strings.Join(head, "") != "" {
			list = append(list, rowLine(head))
		}
		outer := ""
		for _, i := range slices.Sorted(maps.Keys(all)) {
			b.Pulse.Beat()
			outer = cmp.Or(first.outer[i], outer)
			label := strings.TrimSpace(outer + " " + cmp.Or(first.labels[i], strconv.Itoa(i+1)))
			row := []string{label}
			for _, s := range table {
				row = append(row, s.values[i])
			}
			list = append(list, rowLine(row))
		}
	}
	return list
}
