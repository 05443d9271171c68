// Package ocr reads the text in pictures with the models of PP-OCR: one that finds lines of text (DB, differentiable
// binarisation), one that finds which way they run, and one that recognises their characters (CTC). What is computed
// around the models follows RapidOCR's rapidocr 3.10.0, whose thresholds and sizes they were published with.
package ocr

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/image/draw"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// ErrModel is a folder whose files are not the models of this package.
var ErrModel = errors.New("ocr: not usable models")

// Options of Open.
type Options struct {
	Library string        // as embed.Options has it
	Cores   *cores.Budget // the process's CPU budget, one token per run of a model; nil = one of its own
}

// The files of a model's folder.
const (
	detection   = "det.onnx"
	direction   = "cls.onnx"
	recognition = "rec.onnx"
	keysFile    = "keys.txt" // characters of the recognition, a line each, where the file does not have them itself
)

// Reader reads the text in pictures. It is safe for concurrent use.
type Reader struct {
	detect, direct, recognise *embed.Graph
	characters                []string // by class; 0 is CTC's blank
	cores                     *cores.Budget
}

// Open loads the models in a folder: det.onnx, cls.onnx and rec.onnx, and keys.txt where the recognition does not hold
// its characters. The error is ErrModel if the files are not such models, and embed.ErrUnavailable or embed.ErrLibrary
// if ONNX Runtime is not in this build or cannot be loaded. Close frees the models.
func Open(dir string, o Options) (*Reader, error) {
	r := &Reader{cores: o.Cores}
	if r.cores == nil {
		r.cores = cores.New(0)
	}
	for _, m := range []struct {
		file string
		to   **embed.Graph
	}{{detection, &r.detect}, {direction, &r.direct}, {recognition, &r.recognise}} {
		g, err := embed.OpenGraph(filepath.Join(dir, m.file), embed.Options{Library: o.Library})
		if err != nil {
			r.Close()
			if errors.Is(err, embed.ErrModel) {
				err = fmt.Errorf("%w: %w", ErrModel, err)
			}
			return nil, err
		}
		*m.to = g
	}
	if err := r.readCharacters(dir); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// readCharacters reads the characters of the recognition's classes, between those of the blank and of the space.
func (r *Reader) readCharacters(dir string) error {
	text, err := r.recognise.Metadata("character")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	if keys, err := os.ReadFile(filepath.Join(dir, keysFile)); err == nil {
		text = string(keys)
	}
	if text == "" {
		return fmt.Errorf("%w: %s names no characters, and there is no %s", ErrModel, filepath.Join(dir, recognition),
			keysFile)
	}
	r.characters = []string{""}
	for line := range strings.Lines(text) {
		r.characters = append(r.characters, strings.TrimRight(line, "\r\n"))
	}
	r.characters = append(r.characters, " ")
	return nil
}

// Close frees the models. The reader must not be used then.
func (r *Reader) Close() {
	for _, g := range []*embed.Graph{r.detect, r.direct, r.recognise} {
		if g != nil {
			g.Close()
		}
	}
}

// line is a line that was read: its box as it stands in the picture, its first corner the top left one of the text.
type line struct {
	box        quad
	text       string
	confidence float64
}

// ReadPicture returns the lines of a picture, turned upright: a page that lies on its side or stands on its head, and
// one that is turned by some degrees, gives the boxes of a straight one. A picture without text gives none.
func (r *Reader) ReadPicture(ctx context.Context, picture image.Image) ([]corpus.PictureLine, error) {
	lines, err := r.read(ctx, picture)
	if err != nil {
		return nil, err
	}
	return upright(lines), nil
}

// read returns the lines of a picture in the order in which they were found.
func (r *Reader) read(ctx context.Context, picture image.Image) ([]line, error) {
	page := opaque(picture)
	boxes, err := r.find(ctx, page)
	if err != nil || len(boxes) == 0 {
		return nil, err
	}
	for i := range boxes {
		if w, h := boxes[i].size(); h >= tall*w { // it runs upwards
			boxes[i] = boxes[i].turned(1)
		}
	}
	over, err := r.overhead(ctx, page, boxes)
	if err != nil {
		return nil, err
	}
	lines := make([]line, len(boxes))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(r.cores.Size(), 1))
	for i, box := range boxes {
		if over {
			box = box.turned(2)
		}
		g.Go(func() (err error) {
			defer panics.Into(&err)
			lines[i], err = r.recogniseLine(ctx, page, box)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	kept := lines[:0]
	for _, l := range lines {
		if l.confidence >= leastConfidence && strings.TrimSpace(l.text) != "" {
			kept = append(kept, l)
		}
	}
	return kept, nil
}

// What the models were published with.
const (
	shortSide, longSide = 736, 2000 // pixels of a picture in which lines are looked for
	grain               = 32        // its sides are multiples of it
	tall                = 1.5       // a box so many times as high as wide holds a line that runs upwards
	lineHeight          = 48        // pixels of a line that is recognised
	leastWidth          = 320       // of it; narrower ones are filled up
	mostWidth           = 4800      // wider ones are squeezed
	directionWidth      = 192
	leastConfidence     = .5 // of a line that is kept
)

// All lines of a picture run the same way. directionVotes of them are asked for theirs; where one seems to stand on its
// head, directionReads of them are read both ways.
const (
	directionVotes = 12
	directionReads = 3
)

// opaque returns a picture in RGB, on white where it is transparent, from (0, 0).
func opaque(picture image.Image) *image.RGBA {
	if p, ok := picture.(*image.RGBA); ok && p.Rect.Min == (image.Point{}) && p.Opaque() {
		return p
	}
	b := picture.Bounds()
	p := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(p, p.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(p, p.Rect, picture, b.Min, draw.Over)
	return p
}

// isBlank reports whether a picture has one colour, as the empty pages between the chapters of a book do.
func isBlank(p *image.RGBA) bool {
	const same = 8 // of 255
	wide := 4 * p.Rect.Dx()
	for y := range p.Rect.Dy() {
		for i, c := range p.Pix[y*p.Stride : y*p.Stride+wide] {
			if first := p.Pix[i&3]; c > first && c-first > same || first > c && first-c > same {
				return false
			}
		}
	}
	return true
}

// find returns the boxes of lines.
func (r *Reader) find(ctx context.Context, page *image.RGBA) (boxes []quad, err error) {
	wide, high := page.Rect.Dx(), page.Rect.Dy()
	if isBlank(page) {
		return nil, nil
	}
	scale := min(1, longSide/float64(max(wide, high)))
	if short := float64(min(wide, high)) * scale; short < shortSide {
		scale = min(scale*shortSide/short, max(scale, longSide/float64(max(wide, high))))
	}
	side := func(n int) int { return max(int(math.RoundToEven(math.Floor(float64(n)*scale)/grain))*grain, grain) }
	w, h := side(wide), side(high)
	small := page
	if w != wide || h != high {
		small = image.NewRGBA(image.Rect(0, 0, w, h))
		draw.BiLinear.Scale(small, small.Rect, page, page.Rect, draw.Src, nil)
	}
	input := make([]float32, 3*w*h)
	planes(input, small, w)
	_, release, err := r.cores.Acquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer release()
	err = r.detect.Run(ctx, input, []int64{1, 3, int64(h), int64(w)}, func(out []float32, shape []int64) error {
		if len(out) != w*h {
			return fmt.Errorf("%w: %s gives %v for a picture of %d × %d", ErrModel, detection, shape, w, h)
		}
		m := probabilities{out, w, h}
		boxes = m.boxes(float64(wide)/float64(w), float64(high)/float64(h), wide, high)
		return nil
	})
	return boxes, err
}

// planes writes the blue, green and red values of a picture from −1 to 1 into planes whose rows have the given stride.
func planes(to []float32, p *image.RGBA, stride int) {
	w, h := p.Rect.Dx(), p.Rect.Dy()
	plane := len(to) / 3
	for y := range h {
		row := p.Pix[y*p.Stride:]
		for x := range w {
			at := y*stride + x
			to[at] = float32(row[4*x+2])/127.5 - 1
			to[plane+at] = float32(row[4*x+1])/127.5 - 1
			to[2*plane+at] = float32(row[4*x])/127.5 - 1
		}
	}
}

// overhead reports whether the lines stand on their heads. The model of directions is wrong about some lines, so
// what it says of some is compared with how sure the recognition is of them.
func (r *Reader) overhead(ctx context.Context, page *image.RGBA, boxes []quad) (bool, error) {
	over := 0
	for _, box := range largest(boxes, directionVotes) {
		w := box.widthAt(lineHeight, directionWidth)
		input := make([]float32, 3*lineHeight*directionWidth)
		planes(input, crop(page, box, w, lineHeight), directionWidth)
		_, release, err := r.cores.Acquire(ctx, 1)
		if err != nil {
			return false, err
		}
		err = r.direct.Run(ctx, input, []int64{1, 3, lineHeight, directionWidth},
			func(out []float32, shape []int64) error {
				if len(out) != 2 {
					return fmt.Errorf("%w: %s gives %v for a line", ErrModel, direction, shape)
				}
				if out[1] > out[0] {
					over++
				}
				return nil
			})
		release()
		if err != nil {
			return false, err
		}
	}
	if over == 0 {
		return false, nil
	}
	sure := 0.
	for _, box := range largest(boxes, directionReads) {
		upright, err := r.recogniseLine(ctx, page, box)
		if err != nil {
			return false, err
		}
		turned, err := r.recogniseLine(ctx, page, box.turned(2))
		if err != nil {
			return false, err
		}
		sure += upright.confidence - turned.confidence
	}
	return sure < 0, nil
}

// recogniseLine reads a line.
func (r *Reader) recogniseLine(ctx context.Context, page *image.RGBA, box quad) (line, error) {
	w := box.widthAt(lineHeight, mostWidth)
	full := max(w, leastWidth)
	input := make([]float32, 3*lineHeight*full)
	planes(input, crop(page, box, w, lineHeight), full)
	_, release, err := r.cores.Acquire(ctx, 1)
	if err != nil {
		return line{}, err
	}
	defer release()
	read := line{box: box}
	err = r.recognise.Run(ctx, input, []int64{1, 3, lineHeight, int64(full)}, func(out []float32, shape []int64) error {
		if len(shape) != 3 || shape[0] != 1 || shape[2] != int64(len(r.characters)) {
			return fmt.Errorf("%w: %s gives %v for a line, and there are %d characters", ErrModel, recognition,
				shape, len(r.characters))
		}
		read.text, read.confidence = decode(out, r.characters)
		return nil
	})
	return read, err
}

// decode reads the most probable class of each step: equal ones in a row are one character, and class 0 parts them.
func decode(steps []float32, characters []string) (text string, confidence float64) {
	var b strings.Builder
	last, n := 0, 0
	for classes := len(characters); len(steps) >= classes; steps = steps[classes:] {
		best := 0
		for c, p := range steps[:classes] {
			if p > steps[best] {
				best = c
			}
		}
		if best != 0 && best != last {
			b.WriteString(characters[best])
			confidence += float64(steps[best])
			n++
		}
		last = best
	}
	if n == 0 {
		return "", 0
	}
	return b.String(), confidence / float64(n)
}
