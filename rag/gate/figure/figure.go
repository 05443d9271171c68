// Package figure draws a calibration as a .png or .svg file.
package figure

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
	"github.com/sluice-rag/sluice/rag/gate"
)

// fontFamilies are fonts of the widths that the drawing was laid out with, and what the reader's machine has.
const fontFamilies = "font-family:Liberation Sans,Arimo,Arial,Helvetica,sans-serif;"

// ErrFormat is an image format that Write does not write.
var ErrFormat = errors.New("figure: a plot is written as .png or .svg")

const (
	plotWidth, plotHeight = 9.5 * vg.Inch, 7 * vg.Inch
	secondHeight          = 2.6 * vg.Inch // of the panel of the second question
	plotDPI               = 160
)

// Write draws what the gate decides by, for a reader who does not know the paper, to a .png or .svg file (another
// extension is ErrFormat): the scores of the questions that this base answers, and of those about other topics; the
// cut-off between them with its interval; how many of both every cut-off would let through; and the scores of the
// second question. positive holds the scores of the questions with their own contexts, which are drawn if the
// calibration has not kept the best score of each question over all contexts.
func Write(path string, c *gate.Calibration, positive []float64) error {
	format, err := formatOf(path)
	if err != nil {
		return err
	}
	d, err := newDrawing(c, positive)
	if err != nil {
		return fmt.Errorf("figure: plotting %s: %w", path, err)
	}
	var img interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if format == ".png" {
		img = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(plotWidth, d.height()), vgimg.UseDPI(plotDPI))}
	} else {
		img = vgsvg.New(plotWidth, d.height())
	}
	canvas := draw.New(img)
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	d.draw(draw.Crop(canvas, .3*vg.Inch, -.3*vg.Inch, .25*vg.Inch, -.25*vg.Inch))
	var b bytes.Buffer
	if _, err := img.WriteTo(&b); err != nil {
		return fmt.Errorf("figure: plotting %s: %w", path, err)
	}
	text := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte(fontFamilies))
	if err := durable.Replace(path, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return fmt.Errorf("figure: plotting %s: %w", path, err)
	}
	return nil
}

func formatOf(path string) (string, error) {
	format := strings.ToLower(filepath.Ext(path))
	if format != ".png" && format != ".svg" {
		return "", fmt.Errorf("%w, given %s", ErrFormat, path)
	}
	return format, nil
}

// Check reports before the work whether Write can write to path: ErrFormat for another extension, else an error of its
// folder.
func Check(path string) error {
	if _, err := formatOf(path); err != nil {
		return err
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return fmt.Errorf("figure: a plot cannot be written to %s: it is a folder", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".plot*")
	if err != nil {
		return fmt.Errorf("figure: a plot cannot be written to %s: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
