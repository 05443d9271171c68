package generate

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluice-rag/sluice/bench/harness"
)

// plots draws the rate of all requests together over their number, for each workload of many: an SVG each.
func (r *Report) plots(dir string) error {
	for _, workload := range []string{"concurrent", "prefix-cold", "prefix-warm"} {
		lines := map[string]plotter.XYs{}
		for _, x := range r.Rows {
			if x.Workload == workload && x.Metric == Rate {
				lines[x.Impl] = append(lines[x.Impl], plotter.XY{X: math.Log2(float64(x.Concurrency)), Y: x.Median})
			}
		}
		if len(lines) == 0 {
			continue
		}
		if err := plotRates(filepath.Join(dir, workload+".svg"), workload, lines); err != nil {
			return fmt.Errorf("bench: plotting %s: %w", workload, err)
		}
	}
	return nil
}

func plotRates(path, workload string, lines map[string]plotter.XYs) error {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = workload + ": tokens/s of all requests together"
	p.X.Label.Text = "requests at once"
	p.X.Tick.Marker = plot.TickerFunc(func(low, high float64) (ticks []plot.Tick) {
		for at := math.Ceil(low); at <= high; at++ {
			ticks = append(ticks, plot.Tick{Value: at, Label: strconv.Itoa(1 << int(at))})
		}
		return ticks
	})
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	// Colours of Okabe and Ito, as in the other plots.
	for _, l := range []struct {
		impl   string
		colour color.Color
	}{{Own, color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}}, {LlamaServer,
		color.NRGBA{R: 0x8c, G: 0x93, B: 0x9c, A: 0xff}}} {
		if lines[l.impl] == nil {
			continue
		}
		line, points, err := plotter.NewLinePoints(lines[l.impl])
		if err != nil {
			return err
		}
		line.Color, line.Width, points.Color, points.Shape = l.colour, vg.Points(2), l.colour, draw.CircleGlyph{}
		p.Add(line, points)
		p.Legend.Add(l.impl, line, points)
	}
	canvas := vgsvg.New(6*vg.Inch, 4*vg.Inch)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(6), vg.Points(-12), vg.Points(6), vg.Points(-6)))
	return harness.Atomically(path, func(f *os.File) error { _, err := canvas.WriteTo(f); return err })
}
