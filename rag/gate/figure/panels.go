package figure

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/gate"
)

// drawing is the content of a plot: sentences at the top, two panels that share one axis of scores, and one of the
// second question where there is one.
type drawing struct {
	title   string
	verdict []string // lines
	key     []keyLine
	groups  []group // the base's own questions first
	c       *gate.Calibration
	titles  [2]string // of the panels
	sided   [2]string // what a score below the cut-off means, and one above it
	low     float64   // of the axis
	high    float64
}

type keyLine struct {
	colour color.NRGBA
	text   string
}

// group holds the best scores of questions of one kind, sorted.
type group struct {
	scores []float64
	colour color.NRGBA
}

// palette holds colours that colour-blind readers can tell apart (Okabe & Ito 2008), also in print.
type palette struct{ own, other, line, grid, band, faint color.NRGBA }

func colours() palette {
	return palette{
		own:   color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
		other: color.NRGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
		line:  color.NRGBA{R: 0x1a, G: 0x1a, B: 0x1a, A: 0xff},
		grid:  color.NRGBA{R: 0xe6, G: 0xe6, B: 0xe6, A: 0xff},
		band:  color.NRGBA{R: 0x1a, G: 0x1a, B: 0x1a, A: 0x1c},
		faint: color.NRGBA{R: 0x55, G: 0x5b, B: 0x61, A: 0xff},
	}
}

func newDrawing(c *gate.Calibration, positive []float64) (*drawing, error) {
	asked := c.Groups(positive)
	if len(asked.Own) == 0 {
		return nil, errors.New("D+ is empty")
	}
	colour := colours()
	d := &drawing{c: c, title: "Which questions may look into the documents?"}
	d.sided = [2]string{"gate closed", "gate open"}
	if c.Metric.Ascending() {
		d.sided = [2]string{"gate open", "gate closed"}
	}
	about := ""
	if asked.Passages > 0 {
		about = fmt.Sprintf(", about %s passages", grouped(int64(asked.Passages)))
	}
	d.groups = append(d.groups, group{slices.Sorted(slices.Values(asked.Own)), colour.own})
	d.key = append(d.key, keyLine{colour.own, "questions this base answers: " + grouped(int64(len(asked.Own))) + about})
	if len(asked.Others) > 0 {
		d.groups = append(d.groups, group{slices.Sorted(slices.Values(asked.Others)), colour.other})
		ones := strings.Replace(c.General.Words(), "general questions", "%s general ones", 1)
		what := "questions about other topics: " + ones + ", which have nothing to do with this base"
		if asked.ByTopic {
			what = "questions about other topics: the same %s, with the passages of their own topic taken away"
		}
		d.key = append(d.key, keyLine{colour.other, fmt.Sprintf(what, grouped(int64(len(asked.Others))))})
	} else {
		d.key = append(d.key, keyLine{colour.faint,
			"no questions about other topics, so nothing says what slips through"})
	}
	d.verdict = d.sentence()
	d.span()
	return d, nil
}

// span computes the range of the score axis.
func (d *drawing) span() {
	d.low, d.high = d.c.Cutoff, d.c.Cutoff
	see := func(x float64) { d.low, d.high = min(d.low, x), max(d.high, x) }
	for _, g := range d.groups {
		see(g.scores[0])
		see(g.scores[len(g.scores)-1])
	}
	if low, high, ok := d.interval(); ok { // open ends lie at the outermost scores
		see(low)
		see(high)
	}
	margin := .03 * (d.high - d.low)
	margin = cmp.Or(margin, .5) // all scores are equal
	d.low, d.high = d.low-margin, d.high+margin
}

// interval returns the interval of the cut-off: the interval of the policy's value, shifted by the threshold. An open
// end extends to the end of the axis.
func (d *drawing) interval() (low, high float64, ok bool) {
	b := d.c.Bootstrap
	shift := d.c.Cutoff - d.c.PolicyValue
	low, high = b.Low+shift, b.High+shift
	if b.LowOpen {
		low = min(d.low, d.c.Cutoff)
	}
	if b.HighOpen {
		high = max(d.high, d.c.Cutoff)
	}
	return low, high, b.Resamples > 0
}

func (d *drawing) intervalText() string {
	low, high, ok := d.interval()
	b := d.c.Bootstrap
	level := fmt.Sprintf("%.0f %%", 100*b.Level)
	switch {
	case !ok:
		return ""
	case b.LowOpen && b.HighOpen:
		return " (no " + level + " interval: too few passages)"
	case b.LowOpen:
		return fmt.Sprintf(" (in grey its %s interval: up to %.3f, too few passages for a lower end)", level, high)
	case b.HighOpen:
		return fmt.Sprintf(" (in grey its %s interval: from %.3f, too few passages for an upper end)", level, low)
	}
	return fmt.Sprintf(" (in grey its %s interval: %.3f to %.3f)", level, low, high)
}

// through returns the share of a group for which a cut-off opens the gate.
func (d *drawing) through(g group, cutoff float64) float64 {
	if d.c.Metric.Ascending() { // a distance
		n, _ := slices.BinarySearch(g.scores, cutoff)
		return float64(n) / float64(len(g.scores))
	}
	n, _ := slices.BinarySearchFunc(g.scores, cutoff, func(x, c float64) int { // the first above it
		if x > c {
			return 1
		}
		return -1
	})
	return float64(len(g.scores)-n) / float64(len(g.scores))
}

// passed returns for how many questions of group i the gate opens, and the size of the group.
func (d *drawing) passed(i int) (n, of int) {
	g := d.groups[i]
	return int(math.Round(d.through(g, d.c.Cutoff) * float64(len(g.scores)))), len(g.scores)
}

// sentence returns the verdict, broken into lines.
func (d *drawing) sentence() []string {
	n, of := d.passed(0)
	s := fmt.Sprintf("%s of %s questions get through that this base answers.", grouped(int64(n)), grouped(int64(of)))
	if v := d.c.Evidence.Verdict; v != "" {
		s = "This gate: " + v + "."
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > longestLine {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// longestLine is the limit of a line in runes. It leaves room for an SVG viewer's font that is a sixth wider than ours.
const longestLine = 88

func (d *drawing) draw(canvas draw.Canvas) {
	y := canvas.Max.Y
	line := func(s string, size float64, bold bool, c color.Color, x vg.Length) {
		style := textStyle(size, c)
		if bold {
			style.Font.Weight = 2
		}
		y -= vg.Points(size * 1.35)
		canvas.FillText(style, vg.Point{X: canvas.Min.X + x, Y: y}, s)
	}
	colour := colours()
	line(d.title, 15, true, colour.line, 0)
	y -= vg.Points(3)
	for _, s := range d.verdict {
		line(s, 12, false, colour.line, 0)
	}
	y -= vg.Points(5)
	for _, k := range d.key {
		line(k.text, 10.5, false, colour.line, vg.Points(18))
		canvas.FillPolygon(k.colour, []vg.Point{{X: canvas.Min.X, Y: y - 1}, {X: canvas.Min.X + 11, Y: y - 1},
			{X: canvas.Min.X + 11, Y: y + 8}, {X: canvas.Min.X, Y: y + 8}})
	}
	y -= vg.Points(10)
	const titleRoom = 22
	panels, titles := [][]*plot.Plot{{d.histograms()}, {d.curves()}}, d.titles[:]
	if s := d.second(); s != nil {
		panels, titles = append(panels, []*plot.Plot{s.histograms()}), append(titles, s.title)
		panels[2][0].X.Label.Text = "log odds that the passages answer"
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadTop: vg.Points(titleRoom), PadY: vg.Points(titleRoom + 10)}
	places := plot.Align(panels, tiles, draw.Crop(canvas, 0, 0, 0, y-canvas.Max.Y))
	for i, p := range panels {
		at := places[i][0]
		p[0].Draw(at)
		above := vg.Point{X: canvas.Min.X, Y: at.Max.Y + vg.Points(7)}
		canvas.FillText(textStyle(11.5, colour.line), above, titles[i])
	}
}

func textStyle(size float64, c color.Color) draw.TextStyle {
	style := text.Style{Color: c, Font: plot.DefaultFont, Handler: plot.DefaultTextHandler}
	style.Font.Variant, style.Font.Size = "Sans", vg.Points(size)
	return style
}

// panel returns a plot with the score axis, the cut-off and its interval.
func (d *drawing) panel(highest float64) *plot.Plot {
	colour := colours()
	p := plot.New()
	p.BackgroundColor = nil // the drawing has a background of its own
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = colour.grid, colour.grid
	p.Add(grid)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = d.low, d.high, 0, highest
	if low, high, ok := d.interval(); ok && !(d.c.Bootstrap.LowOpen && d.c.Bootstrap.HighOpen) {
		band, err := plotter.NewPolygon(plotter.XYs{{X: low}, {X: high}, {X: high, Y: highest}, {X: low, Y: highest}})
		if err == nil { // the polygon is finite
			band.Color, band.LineStyle.Width = colour.band, 0
			p.Add(band)
		}
	}
	p.X.Tick.Marker = plot.TickerFunc(ticks)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label.Font.Variant, a.Tick.Label.Font.Size = "Sans", vg.Points(10)
		a.LineStyle.Color, a.Tick.LineStyle.Color, a.Padding = colour.grid, colour.grid, 0
		a.Label.TextStyle.Font.Variant, a.Label.TextStyle.Font.Size = "Sans", vg.Points(10.5)
		a.Label.TextStyle.Color = colour.faint
	}
	return p
}

// cutoff draws the line, over everything else in a panel.
func (d *drawing) cutoff(p *plot.Plot, top float64) {
	line, err := plotter.NewLine(plotter.XYs{{X: d.c.Cutoff}, {X: d.c.Cutoff, Y: top}})
	if err == nil {
		line.Color, line.Width = colours().line, vg.Points(1.6)
		p.Add(line)
	}
}

// histograms returns the upper panel: the distributions of the best scores.
func (d *drawing) histograms() *plot.Plot {
	said := fmt.Sprintf("cut-off %.3f", d.c.Cutoff) + d.intervalText()
	bins := d.bins()
	highest := 0.
	heights := make([][]float64, len(d.groups))
	for i, g := range d.groups {
		heights[i] = shares(g.scores, d.low, d.high, bins)
		highest = max(highest, slices.Max(heights[i]))
	}
	d.titles[0] = "How close they come: " + said
	p := d.panel(1.18 * highest)
	p.Y.Tick.Marker = plot.TickerFunc(percents)
	p.Y.Label.Text = "of the questions"
	for i, g := range d.groups {
		fill := g.colour
		fill.A = 0x8c
		steps := outline(heights[i], d.low, d.high)
		if area, err := plotter.NewPolygon(steps); err == nil {
			area.Color, area.LineStyle.Width = fill, 0
			p.Add(area)
		}
		if line, err := plotter.NewLine(steps); err == nil {
			line.Color, line.Width = g.colour, vg.Points(1.1)
			p.Add(line)
		}
	}
	d.cutoff(p, 1.18*highest)
	d.sides(p, 1.12*highest)
	d.promise(p, highest)
	return p
}

// second returns a drawing of the second question, for its histograms: the scores with the passages that are found for
// the calibration's questions, and without their own. nil: there is no second question.
func (d *drawing) second() *drawing {
	s := d.c.Second
	if s == nil {
		return nil
	}
	colour := colours()
	x := &drawing{c: &gate.Calibration{Metric: kernels.IP, PolicyValue: s.Cutoff, Cutoff: s.Cutoff, Promise: s.Promise},
		groups: []group{{s.With, colour.own}, {s.Without, colour.other}}, sided: [2]string{"topic only", "answers"}}
	x.title = fmt.Sprintf("Do the passages answer? Orange: without their own. Cut-off %.3f: topic only for %.0f %% "+
		"of these", s.Cutoff, 100*s.Caught)
	x.span()
	return x
}

// height returns how high the drawing is.
func (d *drawing) height() vg.Length {
	if d.c.Second != nil {
		return plotHeight + secondHeight
	}
	return plotHeight
}

// sides writes on which side of the cut-off the gate is open.
func (d *drawing) sides(p *plot.Plot, y float64) {
	style := textStyle(10.5, colours().line)
	room := .16 * (d.high - d.low) // that a text takes
	if d.c.Cutoff-d.low >= room {
		d.beside(p, y, text.XRight, d.sided[0]+" ←", style)
	}
	if d.high-d.c.Cutoff >= room {
		d.beside(p, y, text.XLeft, "→ "+d.sided[1], style)
	}
}

// beside writes a label next to the cut-off: XRight ends there, XLeft begins there.
func (d *drawing) beside(p *plot.Plot, y float64, align text.XAlignment, label string, style draw.TextStyle) {
	gap := .012 * (d.high - d.low)
	if align == text.XRight {
		gap = -gap
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: d.c.Cutoff + gap, Y: y}},
		Labels: []string{label}})
	if err == nil {
		style.XAlign, style.YAlign = align, text.YCenter
		labels.TextStyle[0] = style
		p.Add(labels)
	}
}

// promise writes what is promised of the cut-off beside it, below what sides writes.
func (d *drawing) promise(p *plot.Plot, y float64) {
	label := d.c.PromiseLabel()
	if label == "" {
		return
	}
	align := text.XLeft
	if d.high-d.c.Cutoff < d.c.Cutoff-d.low {
		align = text.XRight
	}
	d.beside(p, y, align, label, textStyle(9.5, colours().faint))
}

// curves returns the lower panel: the share of each group for which each cut-off opens the gate.
func (d *drawing) curves() *plot.Plot {
	var said []string
	for i, what := range []string{"its own", "the others"}[:len(d.groups)] {
		n, of := d.passed(i)
		said = append(said, fmt.Sprintf("%.0f %% of %s", 100*float64(n)/float64(of), what))
	}
	d.titles[1] = "What every cut-off would let through; this one: " + strings.Join(said, ", ")
	p := d.panel(1.05)
	p.Y.Tick.Marker = plot.TickerFunc(percents)
	p.Y.Label.Text = "gets through"
	p.X.Label.Text = axisName(d.c.ScoredBy())
	const steps = 400
	for _, g := range d.groups {
		var curve plotter.XYs
		for i := range steps + 1 {
			x := d.low + (d.high-d.low)*float64(i)/steps
			curve = append(curve, plotter.XY{X: x, Y: d.through(g, x)})
		}
		if line, err := plotter.NewLine(curve); err == nil {
			line.Color, line.Width = g.colour, vg.Points(2)
			p.Add(line)
		}
	}
	d.cutoff(p, 1.05)
	for _, g := range d.groups {
		dot, err := plotter.NewScatter(plotter.XYs{{X: d.c.Cutoff, Y: d.through(g, d.c.Cutoff)}})
		if err == nil {
			dot.GlyphStyle = draw.GlyphStyle{Color: g.colour, Radius: vg.Points(4), Shape: draw.CircleGlyph{}}
			p.Add(dot)
		}
	}
	return p
}

// bins returns the number of bins of both histograms, 16 to 48, by the rule of Freedman & Diaconis (1981) for the
// smaller group.
func (d *drawing) bins() int {
	n := 48.
	for _, g := range d.groups {
		q1, q3 := ref.Quantile7(g.scores, .25), ref.Quantile7(g.scores, .75)
		if q3 > q1 {
			n = min(n, math.Ceil((d.high-d.low)/(2*(q3-q1)/math.Cbrt(float64(len(g.scores))))))
		}
	}
	return int(max(n, 16))
}

// shares computes a histogram with equal bins, as shares of all scores.
func shares(scores []float64, low, high float64, bins int) []float64 {
	h := make([]float64, bins)
	for _, x := range scores {
		i := int((x - low) / (high - low) * float64(bins))
		h[min(max(i, 0), bins-1)] += 1 / float64(len(scores))
	}
	return h
}

func outline(heights []float64, low, high float64) plotter.XYs {
	width := (high - low) / float64(len(heights))
	xy := plotter.XYs{{X: low}}
	for i, h := range heights {
		left := low + width*float64(i)
		xy = append(xy, plotter.XY{X: left, Y: h}, plotter.XY{X: left + width, Y: h})
	}
	return append(xy, plotter.XY{X: high})
}

// percents returns ticks of shares. All labels have the same width, so that stacked panels stay aligned.
func percents(low, high float64) []plot.Tick {
	t := ticks(low, high)
	if len(t) > 6 {
		for i := range t {
			if i%2 == 1 {
				t[i].Label = ""
			}
		}
	}
	for i := range t {
		if t[i].Label != "" {
			t[i].Label = fmt.Sprintf("%4s %%", strconv.FormatFloat(math.Round(1000*t[i].Value)/10, 'g', 3, 64))
		}
	}
	return t
}

// ticks returns at most nine labelled ticks at multiples of 1, 2 or 5 times a power of ten.
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

func axisName(s gate.Score) string {
	switch s.Kind {
	case gate.PseudoQuery:
		return "cosine similarity with the nearest pseudo-query (further right is closer)"
	case gate.Cover:
		return fmt.Sprintf("cosine + %g × share of the question's words, of the best passage (further right is closer)", s.Weight)
	}
	switch s.Metric {
	case kernels.Cosine:
		return "cosine similarity with the nearest passage (further right is closer)"
	case kernels.IP:
		return "inner product with the nearest passage (further right is closer)"
	}
	return "distance to the nearest passage (further left is closer)"
}

// grouped writes 1229370 as 1,229,370.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
