package gate

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluice-rag/sluice/internal/durable"
)

// fontFamilies are fonts of the widths that the drawing was laid out with, and what the reader's machine has.
const fontFamilies = "font-family:Liberation Sans,Arimo,Arial,Helvetica,sans-serif;"

// ErrPlot is an image format that Plot does not write.
var ErrPlot = errors.New("gate: a plot is written as .png or .svg")

const (
	plotWidth, plotHeight = 9.5 * vg.Inch, 7 * vg.Inch
	plotDPI               = 160
)

// Plot draws what the gate goes by, for a reader who knows neither the paper nor its words, to a .png or .svg file
// (another extension is ErrPlot): how close the questions come that this base answers, and those about other
// topics; the cut-off between them with its interval; and how many of both every cut-off would let through. maximum is
// the best score of each question over all contexts; without it positive, the score with its own context, stands in.
func Plot(path string, c *Calibration, positive, maximum []float64) error {
	format := strings.ToLower(filepath.Ext(path))
	if format != ".png" && format != ".svg" {
		return fmt.Errorf("%w, given %s", ErrPlot, path)
	}
	if c.Chosen() != nil {
		positive, maximum = c.lists().positive, c.lists().maximum
	}
	d, err := newDrawing(c, positive, maximum)
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
	d.draw(draw.Crop(canvas, .3*vg.Inch, -.3*vg.Inch, .25*vg.Inch, -.25*vg.Inch))
	var b bytes.Buffer
	if _, err := img.WriteTo(&b); err != nil {
		return fmt.Errorf("gate: plotting %s: %w", path, err)
	}
	text := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte(fontFamilies))
	if err := durable.Replace(path, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
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
