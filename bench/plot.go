package bench

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluice-rag/sluice/bench/harness"
)

// plots draws the medians of each benchmark as horizontal bars on a logarithmic axis, the fastest at the
// top: one SVG for each workload and shape.
func (r *Report) plots(dir string) error {
	title := func(x Row) string { // the shape of Sluice's rows may say more than the benchmark's
		shape, _, _ := strings.Cut(x.Shape, " tau=")
		return x.Workload + " " + strings.TrimSuffix(shape, " maximum")
	}
	byTitle := map[string][]Row{}
	var names []string
	for _, x := range r.Rows {
		if byTitle[title(x)] == nil {
			names = append(names, title(x))
		}
		byTitle[title(x)] = append(byTitle[title(x)], x)
	}
	for _, name := range names {
		file := strings.NewReplacer(" ", "-", "=", "").Replace(name) + ".svg"
		if err := plotRows(filepath.Join(dir, file), name, byTitle[name]); err != nil {
			return fmt.Errorf("bench: plotting %s: %w", file, err)
		}
	}
	return nil
}

// Colours of Okabe and Ito, as in the plots of calibrations.
var (
	ownColour  = color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}
	peerColour = color.NRGBA{R: 0x8c, G: 0x93, B: 0x9c, A: 0xff}
)

func plotRows(path, title string, rows []Row) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return int(math.Copysign(1, b.MedianMS-a.MedianMS)) })
	p := plot.New()
	p.Title.Text = title + ": median ms, logarithmic"
	p.BackgroundColor = color.White
	// Bars of a logarithmic axis start at a power of ten below the fastest.
	floor := math.Floor(math.Log10(max(rows[len(rows)-1].MedianMS, 1e-6)) - 0.05)
	var own, peers plotter.Values
	var names []string
	for _, x := range rows {
		length := math.Log10(max(x.MedianMS, 1e-6)) - floor
		name := fmt.Sprintf("%s  %.4g ms", x.Impl, x.MedianMS)
		if x.Impl == Own {
			own, peers = append(own, length), append(peers, 0)
			name = fmt.Sprintf("%s %s %s %s %s  %.4g ms", x.Impl, x.ISA, x.DType, x.Mode, detail(title, x), x.MedianMS)
		} else {
			own, peers = append(own, 0), append(peers, length)
		}
		names = append(names, name)
	}
	for _, set := range []struct {
		values plotter.Values
		colour color.Color
	}{{peers, peerColour}, {own, ownColour}} {
		bars, err := plotter.NewBarChart(set.values, vg.Points(12))
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, set.colour, 0
		p.Add(bars)
	}
	p.NominalY(names...)
	p.X.Min = 0
	p.X.Tick.Marker = plot.TickerFunc(func(low, high float64) (t []plot.Tick) {
		for at := 0.0; at <= math.Ceil(high); at++ {
			t = append(t, plot.Tick{Value: at, Label: fmt.Sprintf("%.4g", math.Pow(10, at+floor))})
		}
		return t
	})
	width, height := 10*vg.Inch, vg.Length(len(rows)+4)*vg.Points(18)
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(6), vg.Points(-18), vg.Points(6), vg.Points(-6)))
	return harness.Atomically(path, func(f *os.File) error { _, err := canvas.WriteTo(f); return err })
}

// detail returns the part of a row's shape that its benchmark's title does not have.
func detail(title string, x Row) string {
	return strings.TrimSpace(strings.TrimPrefix(x.Workload+" "+x.Shape, title))
}
