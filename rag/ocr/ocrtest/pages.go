// Package ocrtest draws pages of text, as scanners and cameras give them, together with the text on them.
package ocrtest

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"strings"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"codeberg.org/go-fonts/liberation/liberationserifregular"
	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/f64"
	"golang.org/x/image/math/fixed"
)

// Kind is a kind of page.
type Kind string

// The kinds of pages. All are drawn at 200 dpi, but for Coarse.
const (
	Clean   Kind = "clean"
	Coarse  Kind = "150 dpi"
	Turned  Kind = "turned by 2°"
	Noisy   Kind = "noise"
	Columns Kind = "two columns"
	Table   Kind = "table"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Clean, Coarse, Turned, Noisy, Columns, Table} }

// Page is a picture of a page and its text in the order of reading, a line for each paragraph or row of a table, with
// spaces between the cells of a row.
type Page struct {
	Image *image.Gray
	Text  string
}

const (
	dpi, coarseDPI = 200, 150
	letters        = 11.      // points
	wide, high     = 595, 842 // A4, points
	margin         = 64.
)

// Draw draws paragraphs on a page, as many as there is room for. A page of kind Table has numbers and words of the
// first paragraph instead of all.
func Draw(kind Kind, paragraphs []string, seed uint64) (Page, error) {
	p := pen{dpi: dpi, rng: rand.New(rand.NewPCG(seed, 1))}
	if kind == Coarse {
		p.dpi = coarseDPI
	}
	ttf := liberationserifregular.TTF
	if seed%2 == 1 {
		ttf = liberationsansregular.TTF
	}
	f, err := opentype.Parse(ttf)
	if err != nil {
		return Page{}, err
	}
	if p.face, err = opentype.NewFace(f, &opentype.FaceOptions{Size: letters, DPI: p.dpi}); err != nil {
		return Page{}, err
	}
	defer p.face.Close()
	p.to = image.NewGray(image.Rect(0, 0, p.pixels(wide), p.pixels(high)))
	draw.Draw(p.to, p.to.Bounds(), image.White, image.Point{}, draw.Src)
	switch kind {
	case Columns:
		const gap = 24.
		width := (wide - 2*margin - gap) / 2
		rest := p.column(paragraphs, margin, width)
		p.column(rest, margin+width+gap, width)
	case Table:
		p.table(strings.Fields(strings.Join(paragraphs, " ")))
	default:
		p.column(paragraphs, margin, wide-2*margin)
	}
	page := Page{p.to, strings.Join(p.said, "\n")}
	switch kind {
	case Turned:
		page.Image = Turn(page.Image, 2)
	case Noisy:
		p.noise()
	}
	return page, nil
}

type pen struct {
	to   *image.Gray
	face font.Face
	dpi  float64
	rng  *rand.Rand
	said []string
}

func (p *pen) pixels(points float64) int { return int(math.Round(points * p.dpi / 72)) }

func (p *pen) write(text string, left, base int) {
	d := font.Drawer{Dst: p.to, Src: image.Black, Face: p.face, Dot: fixed.P(left, base)}
	d.DrawString(text)
}

// column writes paragraphs below each other and returns those for which there was no room.
func (p *pen) column(paragraphs []string, left, width float64) (rest []string) {
	y, step := margin+letters, 1.3*letters
	for i, text := range paragraphs {
		var lines []string
		line := ""
		for word := range strings.FieldsSeq(text) {
			longer := strings.TrimSpace(line + " " + word)
			if font.MeasureString(p.face, longer).Round() > p.pixels(width) {
				lines = append(lines, line)
				longer = word
			}
			line = longer
		}
		lines = append(lines, line)
		if y+step*float64(len(lines)) > high-margin {
			return paragraphs[i:]
		}
		for _, line := range lines {
			p.write(line, p.pixels(left), p.pixels(y))
			y += step
		}
		y += step / 2
		p.said = append(p.said, strings.Join(lines, " "))
	}
	return nil
}

// table writes a table of four columns: a word and three numbers.
func (p *pen) table(words []string) {
	at := []float64{margin, 240, 340, 440}
	y := margin + letters
	row := func(cells ...string) {
		for i, c := range cells {
			p.write(c, p.pixels(at[i]), p.pixels(y))
		}
		p.said = append(p.said, strings.Join(cells, " "))
		y += 1.6 * letters
	}
	row("Station", "Depth", "Speed", "Count")
	for i := range 30 {
		name := strings.Trim(words[p.rng.IntN(len(words))], ".,;:()\"'")
		row(fmt.Sprintf("%s %d", name, i+1), fmt.Sprintf("%.2f", 100*p.rng.Float64()),
			fmt.Sprintf("%d", p.rng.IntN(5000)), fmt.Sprintf("%.1f", 1000*p.rng.Float64()))
	}
}

// noise adds what a bad scanner does: a grey shade, grain and specks.
func (p *pen) noise() {
	b := p.to.Bounds()
	for y := range b.Dy() {
		for x := range b.Dx() {
			v := float64(p.to.GrayAt(x, y).Y)*.8 + 25 - 30*float64(x)/float64(b.Dx()) + 18*p.rng.NormFloat64()
			if p.rng.IntN(400) == 0 {
				v = 255 * float64(p.rng.IntN(2))
			}
			p.to.SetGray(x, y, color.Gray{Y: uint8(min(max(v, 0), 255))})
		}
	}
}

// Turn turns a picture about its centre, clockwise; the corners become white.
func Turn(from *image.Gray, degrees float64) *image.Gray {
	to := image.NewGray(from.Bounds())
	draw.Draw(to, to.Bounds(), image.White, image.Point{}, draw.Src)
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	x, y := float64(from.Bounds().Dx())/2, float64(from.Bounds().Dy())/2
	draw.BiLinear.Transform(to, f64.Aff3{cos, -sin, x - cos*x + sin*y, sin, cos, y - sin*x - cos*y}, from,
		from.Bounds(), draw.Src, nil)
	return to
}

// WritePDF writes a PDF file with a page for each picture, and no text, as scanners do.
func WritePDF(w io.Writer, pages ...image.Image) error {
	pdf := fpdf.New("P", "pt", "A4", "")
	for i, page := range pages {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, page, &jpeg.Options{Quality: 85}); err != nil {
			return err
		}
		o := fpdf.ImageOptions{ImageType: "JPG"}
		name := fmt.Sprint(i)
		pdf.RegisterImageOptionsReader(name, o, &b)
		pdf.AddPage()
		pdf.ImageOptions(name, 0, 0, wide, high, false, o, 0, "")
	}
	return pdf.Output(w)
}

// Errors returns the share of characters of want that got has wrong: the edit distance over the length of want. White
// space counts as one space, and borders of table cells ("|") as none.
func Errors(want, got string) float64 {
	a, b := plain(want), plain(got)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		last := row[0]
		row[0] = i + 1
		for j, y := range b {
			change := last
			if x != y {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j]+1, last+1)
		}
	}
	return float64(row[len(b)]) / float64(max(len(a), 1))
}

func plain(text string) []rune {
	return []rune(strings.Join(strings.Fields(strings.ReplaceAll(text, "|", " ")), " "))
}
