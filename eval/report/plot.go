package report

import (
	"bytes"
	"fmt"
	"image/color"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluice-rag/sluice/eval/experiment"
)

// palette are colours of Okabe and Ito.
func palette() []color.Color {
	return []color.Color{color.NRGBA{0x00, 0x72, 0xb2, 0xff}, color.NRGBA{0xe6, 0x9f, 0x00, 0xff},
		color.NRGBA{0x00, 0x9e, 0x73, 0xff}, color.NRGBA{0xcc, 0x79, 0xa7, 0xff}, color.NRGBA{0x56, 0xb4, 0xe9, 0xff},
		color.NRGBA{0xd5, 0x5e, 0x00, 0xff}}
}

// svg draws the first measure of a table as horizontal bars with their intervals, a colour for each column; nil if
// there is nothing to draw.
func svg(g grid) ([]byte, error) {
	p := plot.New()
	measure := ""
	if len(g.Measures) > 0 {
		measure = g.Measures[0]
	}
	var columns []int
	for c := range g.values() {
		if slices.ContainsFunc(g.rows, func(l []*experiment.Row) bool {
			return l[c] != nil && l[c].N > 0 && (measure == "" || l[c].Measure == measure)
		}) {
			columns = append(columns, c)
		}
	}
	if len(columns) == 0 {
		return nil, nil
	}
	columns = columns[:min(len(columns), len(palette()))]
	const bar, gap = 11.0, 8.0
	group := bar*float64(len(columns)) + gap
	var names []string
	for l := range slices.Backward(g.rows) {
		names = append(names, strings.Join(nonEmpty(g.names[l]), " · "))
	}
	for i, c := range columns {
		if err := bars(p, g, i, c, len(columns), bar); err != nil {
			return nil, err
		}
	}
	p.NominalY(names...)
	p.BackgroundColor, p.X.Label.Text = color.White, measure
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	for _, f := range []*font.Font{&p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
		&p.Legend.TextStyle.Font} {
		f.Variant = "Sans" // narrower than what most browsers show, but less so than the default
	}
	p.X.Min = min(p.X.Min, 0)
	if len(columns) > 1 { // room for the legend above the bars
		p.Y.Max = float64(len(names)) - .5 + 14*float64(len(columns))/group
	}
	height := vg.Points(group*float64(len(names)) + 70 + 18*float64(len(columns)))
	canvas := vgsvg.New(8*vg.Inch, height)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(6), vg.Points(-12), vg.Points(6), vg.Points(-6)))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("report: plot of %s: %w", g.Title, err)
	}
	drawn := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:Liberation Sans,Arial,sans-serif"))
	return fontSize.ReplaceAllFunc(drawn, smaller), nil
}

// values is the number of columns with values.
func (g grid) values() int {
	if len(g.rows) == 0 {
		return 0
	}
	return len(g.rows[0])
}

// fontSize is a size in a drawing. Whoever shows it need not have the font that the drawing was laid out for, and most
// others are wider: texts become smaller, so that they keep within their places.
var fontSize = regexp.MustCompile(`font-size:[0-9.]+px`)

func smaller(size []byte) []byte {
	px, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(string(size), "font-size:"), "px"), 64)
	if err != nil {
		return size
	}
	return fmt.Appendf(nil, "font-size:%.3gpx", .88*px)
}

// bars adds column c, the i-th of n, and its intervals.
func bars(p *plot.Plot, g grid, i, c, n int, width float64) error {
	var values plotter.Values
	var points plotter.XYs
	var errs plotter.XErrors
	offset := vg.Points(width * (float64(n-1)/2 - float64(i)))
	for l := range slices.Backward(g.rows) {
		r := g.rows[l][c]
		if r == nil || r.N == 0 {
			values = append(values, 0)
			continue
		}
		points = append(points, plotter.XY{X: r.Mean, Y: float64(len(values))})
		errs = append(errs, struct{ Low, High float64 }{r.Low - r.Mean, r.High - r.Mean})
		values = append(values, r.Mean)
	}
	b, err := plotter.NewBarChart(values, vg.Points(width))
	if err != nil {
		return fmt.Errorf("report: plot of %s: %w", g.Title, err)
	}
	b.Horizontal, b.Color, b.LineStyle.Width, b.Offset = true, palette()[i], 0, offset
	p.Add(b)
	if n > 1 {
		p.Legend.Add(g.Head[len(g.Table.Rows)+c], b)
	}
	if n == 1 { // bars have offsets in points, which intervals cannot share
		e, err := plotter.NewXErrorBars(struct {
			plotter.XYer
			plotter.XErrorer
		}{points, errs})
		if err != nil {
			return fmt.Errorf("report: plot of %s: %w", g.Title, err)
		}
		p.Add(e)
	}
	return nil
}
