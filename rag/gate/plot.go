package gate

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
)

// ErrPlot is an image format that Plot does not write.
var ErrPlot = errors.New("gate: a plot is written as .png or .svg")

const (
	plotWidth, plotHeight = 9.5 * vg.Inch, 5.5 * vg.Inch
	plotDPI               = 160
	headroom              = 1.45 // of the axis over the highest peak: room for the legend and the labels
	legendRows            = 3
	labelStep             = .058 // height of a line of text as a share of the axis
)

// Colours that stay apart for colour-blind readers (Okabe & Ito 2008) and in print.
var (
	negativeColour = color.NRGBA{R: 0x8c, G: 0x93, B: 0x9c, A: 0x90}
	positiveColour = color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0x80}
	maximumColour  = color.NRGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}
	lineColour     = color.NRGBA{R: 0x1a, G: 0x1a, B: 0x1a, A: 0xff}
	gridColour     = color.NRGBA{R: 0xe6, G: 0xe6, B: 0xe6, A: 0xff}
)

// Plot draws D+, D− and the outline of the maximum distribution as densities on one axis, with P and the
// cut-off as vertical lines, to a .png or .svg file; another extension is ErrPlot. maximum may be nil.
func Plot(path string, c *Calibration, positive, maximum []float64) error {
	format := strings.ToLower(filepath.Ext(path))
	if format != ".png" && format != ".svg" {
		return fmt.Errorf("%w, given %s", ErrPlot, path)
	}
	p, err := newPlot(c, positive, maximum)
	if err != nil {
		return fmt.Errorf("gate: plotting %s: %w", path, err)
	}
	var img interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if format == ".png" {
		img = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI))}
	} else {
		img = vgsvg.New(plotWidth, plotHeight)
	}
	canvas := draw.New(img)
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	p.Draw(draw.Crop(canvas, .15*vg.Inch, -.25*vg.Inch, .1*vg.Inch, -.1*vg.Inch))
	if err := durable.Replace(path, func(w io.Writer) error { _, err := img.WriteTo(w); return err }); err != nil {
		return fmt.Errorf("gate: plotting %s: %w", path, err)
	}
	return nil
}

// CheckPlot tells before the work whether Plot can write to path: ErrPlot for an extension that is not drawn, else what
// stands in the way in its folder.
func CheckPlot(path string) error {
	if format := strings.ToLower(filepath.Ext(path)); format != ".png" && format != ".svg" {
		return fmt.Errorf("%w, given %s", ErrPlot, path)
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return fmt.Errorf("gate: a plot cannot be written to %s: it is a folder", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".plot*")
	if err != nil {
		return fmt.Errorf("gate: a plot cannot be written to %s: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func newPlot(c *Calibration, positive, maximum []float64) (*plot.Plot, error) {
	if len(positive) == 0 {
		return nil, errors.New("D+ is empty")
	}
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = fmt.Sprintf("Gate calibration: %s, %s contexts, %s pseudo-queries", c.Encoder.Name,
		grouped(int64(c.Corpus.Contexts)), grouped(c.Positive.N))
	p.X.Label.Text = axisName(c.Metric)
	p.Y.Label.Text = "density"
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColour, gridColour
	p.Add(grid)

	negative := density{width: (c.Negative.Max - c.Negative.Min) / float64(max(len(c.NegativeHistogram), 1)),
		start: c.Negative.Min}
	for _, n := range c.NegativeHistogram {
		negative.height = append(negative.height, float64(n))
	}
	negative = negative.coarser(100).normalised()
	var peak float64
	for _, d := range []struct {
		density
		name          string
		fill, outline color.Color
	}{
		{negative, fmt.Sprintf("D− other contexts (%s, n = %s)", c.Negatives, grouped(c.Negative.N)), negativeColour,
			nil},
		{histogram(positive), fmt.Sprintf("D+ own context (n = %s)", grouped(int64(len(positive)))), positiveColour,
			nil},
		{histogram(maximum), fmt.Sprintf("maximum over all contexts (n = %s)", grouped(int64(len(maximum)))), nil,
			maximumColour},
	} {
		if len(d.height) == 0 {
			continue
		}
		peak = max(peak, slices.Max(d.height))
		if err := d.draw(p, d.name, d.fill, d.outline); err != nil {
			return nil, err
		}
	}
	p.Y.Min, p.Y.Max = 0, headroom*peak
	p.X.Min, p.X.Max = min(p.X.Min, c.Cutoff, c.PolicyValue), max(p.X.Max, c.Cutoff, c.PolicyValue)
	margin := .02 * (p.X.Max - p.X.Min)
	if margin == 0 {
		margin = .5 // a single score
	}
	p.X.Min, p.X.Max = p.X.Min-margin, p.X.Max+margin
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
	if err := markers(p, c); err != nil {
		return nil, err
	}
	style(p)
	return p, nil
}

// marker is a vertical line with a label at its top.
type marker struct {
	at     float64
	label  string
	dashes []vg.Length
}

// markers draws the lines of P and the cut-off like flags: the labels fly to the side that has more room,
// and the line further from that side is the taller one, so that no label crosses a line. The legend takes
// the other side.
func markers(p *plot.Plot, c *Calibration) error {
	right := c.Cutoff < (p.X.Min+p.X.Max)/2
	p.Legend.Top, p.Legend.Left = true, !right
	opens := "above"
	if c.Metric.Ascending() {
		opens = "below"
	}
	lines := []marker{{at: c.Cutoff, label: fmt.Sprintf("cut-off = P = %.4f (%s), open %s", c.Cutoff, c.Policy, opens)}}
	if c.Cutoff != c.PolicyValue {
		lines[0].label = fmt.Sprintf("cut-off %.4f, open %s", c.Cutoff, opens)
		lines = append(lines,
			marker{at: c.PolicyValue, label: fmt.Sprintf("P = %.4f (%s), T = %g", c.PolicyValue, c.Policy, c.Threshold),
				dashes: []vg.Length{vg.Points(4), vg.Points(3)}})
	}
	gap, align := .008*(p.X.Max-p.X.Min), text.XLeft
	if !right {
		gap, align = -gap, text.XRight
	}
	slices.SortFunc(lines, func(a, b marker) int { return cmp.Compare(a.at*gap, b.at*gap) })
	for i, m := range lines {
		top := (.97 - labelStep*float64(legendRows+i)) * p.Y.Max
		line, err := plotter.NewLine(plotter.XYs{{X: m.at, Y: 0}, {X: m.at, Y: top}})
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = lineColour, vg.Points(1.4), m.dashes
		label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.at + gap, Y: top}},
			Labels: []string{m.label}})
		if err != nil {
			return err
		}
		s := &label.TextStyle[0]
		s.Font.Variant, s.Font.Size, s.Color, s.XAlign, s.YAlign = "Sans", vg.Points(11), lineColour, align, text.YTop
		p.Add(line, label)
	}
	return nil
}

// ticks are multiples of 1, 2 or 5 times a power of ten, at most nine of them, all with a label.
func ticks(low, high float64) (t []plot.Tick) {
	decade := math.Pow(10, math.Floor(math.Log10((high-low)/9)))
	step := decade
	for _, k := range []float64{2, 5, 10} {
		if (high-low)/step > 9 {
			step = decade * k
		}
	}
	for i := math.Ceil(low / step); i*step <= high; i++ {
		t = append(t, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step+0, 'g', 4, 64)})
	}
	return t
}

// style sets the fonts of everything that newPlot put on the plot.
func style(p *plot.Plot) {
	for _, s := range []struct {
		style *text.Style
		size  float64
	}{{&p.Title.TextStyle, 13}, {&p.X.Label.TextStyle, 11.5}, {&p.Y.Label.TextStyle, 11.5}, {&p.X.Tick.Label, 10.5},
		{&p.Y.Tick.Label, 10.5}, {&p.Legend.TextStyle, 10.5}} {
		s.style.Font.Variant, s.style.Font.Size = "Sans", vg.Points(s.size)
	}
	p.Title.Padding = vg.Points(8)
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(5), vg.Points(5)
	p.X.LineStyle.Color, p.Y.LineStyle.Color = gridColour, gridColour
	p.X.Padding, p.Y.Padding = 0, 0
	p.Legend.ThumbnailWidth, p.Legend.Padding = vg.Points(22), vg.Points(4)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(-6), vg.Points(-4)
	if p.Legend.Left {
		p.Legend.XOffs = vg.Points(6)
	}
}

// density is a histogram with equal bins from start.
type density struct {
	start, width float64
	height       []float64
}

// histogram counts scores in bins after Freedman & Diaconis (1981), at most 80, and normalises.
func histogram(v []float64) density {
	if len(v) == 0 {
		return density{}
	}
	t := tableOf(v)
	span := t.Max - t.Min
	if span == 0 {
		return density{start: t.Min - .005, width: .01, height: []float64{100}}
	}
	n := 10.
	if t.Q3 > t.Q1 {
		n = min(max(math.Ceil(span/(2*(t.Q3-t.Q1)/math.Cbrt(float64(t.N)))), n), 80)
	}
	d := density{start: t.Min, width: span / n, height: make([]float64, int(n))}
	for _, x := range v {
		d.height[min(int((x-t.Min)/d.width), len(d.height)-1)]++
	}
	return d.normalised()
}

// coarser joins neighbouring bins until there are at most n.
func (d density) coarser(n int) density {
	k := (len(d.height) + n - 1) / n
	if k < 2 {
		return d
	}
	out := density{start: d.start, width: d.width * float64(k)}
	for bins := range slices.Chunk(d.height, k) {
		var sum float64
		for _, h := range bins {
			sum += h
		}
		out.height = append(out.height, sum)
	}
	return out
}

// normalised makes the area 1.
func (d density) normalised() density {
	var sum float64
	for _, h := range d.height {
		sum += h
	}
	if sum == 0 || d.width <= 0 {
		return density{}
	}
	for i := range d.height {
		d.height[i] /= sum * d.width
	}
	return d
}

// draw adds the stepped outline to the plot, filled or as a line, and an entry in the legend.
func (d density) draw(p *plot.Plot, name string, fill, outline color.Color) error {
	xy := plotter.XYs{{X: d.start}}
	for i, h := range d.height {
		left := d.start + d.width*float64(i)
		xy = append(xy, plotter.XY{X: left, Y: h}, plotter.XY{X: left + d.width, Y: h})
	}
	xy = append(xy, plotter.XY{X: d.start + d.width*float64(len(d.height))})
	if fill == nil {
		line, err := plotter.NewLine(xy)
		if err != nil {
			return err
		}
		line.Color, line.Width = outline, vg.Points(1.6)
		p.Add(line)
		p.Legend.Add(name, line)
		return nil
	}
	area, err := plotter.NewPolygon(xy)
	if err != nil {
		return err
	}
	area.Color, area.LineStyle.Width = fill, 0
	p.Add(area)
	p.Legend.Add(name, area)
	return nil
}

func axisName(m kernels.Metric) string {
	switch m {
	case kernels.Cosine:
		return "cosine similarity (right is closer)"
	case kernels.IP:
		return "inner product (right is closer)"
	}
	return "Euclidean distance (left is closer)"
}

// grouped writes 1229370 as 1,229,370.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
