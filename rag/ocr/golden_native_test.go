//go:build native

package ocr

import (
	"encoding/json"
	"flag"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/image/draw"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/ocr/ocrtest"
)

var drawTo = flag.String("draw", "", "folder to which the pages of TestGolden are written")

// locate opens the models of the manifest, or skips the test.
func locate(t *testing.T) *Reader {
	t.Helper()
	dir, err := models.Locate("ocr")
	if err != nil {
		t.Skipf("SKIP: %v (the set-up's part ocr brings them)", err)
	}
	r, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// paragraphs are what the pages of the tests say.
func paragraphs() []string {
	return []string{
		"The gauge at the north pier is read every ten minutes. Its float stands in a pipe of 30 cm, which keeps the " +
			"waves of passing ships away, and a pen writes the level on a drum that turns once in a day.",
		"Spring tides come two days after the new and the full moon, neap tides two days after the quarters; at the " +
			"north pier they differ by 1.85 m (mean of 1998 to 2017), at the lock by 0.4 m.",
	}
}

// goldenPages returns small pages of three kinds, by the names of their files.
func goldenPages(t *testing.T) map[string]*image.Gray {
	t.Helper()
	pages := map[string]*image.Gray{}
	for name, kind := range map[string]ocrtest.Kind{"coarse.png": ocrtest.Coarse, "turned.png": ocrtest.Turned,
		"noisy.png": ocrtest.Noisy} {
		page, err := ocrtest.Draw(kind, paragraphs(), 2)
		if err != nil {
			t.Fatal(err)
		}
		part := image.NewGray(image.Rect(0, 0, page.Image.Rect.Dx(), 750)) // the reference reduces higher ones
		draw.Draw(part, part.Rect, page.Image, image.Point{Y: 60}, draw.Src)
		pages[name] = part
	}
	return pages
}

// TestGolden compares boxes and texts with those of the Python package that the models come with.
func TestGolden(t *testing.T) {
	pages := goldenPages(t)
	if *drawTo != "" {
		for name, page := range pages {
			f, err := os.Create(filepath.Join(*drawTo, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := png.Encode(f, page); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
		t.Skip("SKIP: pages were drawn for the reference")
	}
	type golden struct {
		Box        [8]float64 `json:"box"`
		Text       string     `json:"text"`
		Confidence float64    `json:"confidence"`
	}
	var want map[string][]golden
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	r := locate(t)
	for name, page := range pages {
		got, err := r.read(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		if len(want[name]) < 4 || len(got) < len(want[name]) {
			t.Errorf("%s: %d lines, want %d", name, len(got), len(want[name]))
		}
		wrong, letters := 0., 0.
		for _, w := range want[name] {
			var box quad
			for i := range box {
				box[i] = point{w.Box[2*i], w.Box[2*i+1]}
			}
			best, shared := line{}, 0.
			for _, l := range got {
				if s := overlap(box, l.box); s > shared {
					best, shared = l, s
				}
			}
			if shared < .85 { // one box of rapidocr 3.10.0 shares .89 with ours, with the same text
				t.Errorf("%s: the box %v of %q overlaps with no box by more than %.2f", name, box, w.Text, shared)
			}
			n := float64(len(w.Text))
			wrong, letters = wrong+n*ocrtest.Errors(w.Text, best.text), letters+n
		}
		t.Logf("%s: %.2f %% of %.0f characters differ", name, 100*wrong/letters, letters)
		if wrong > .01*letters {
			t.Errorf("%s: %.2f %% of the reference's characters differ", name, 100*wrong/letters)
		}
	}
}

// overlap is the intersection over union of the upright rectangles around two boxes.
func overlap(a, b quad) float64 {
	rect := func(q quad) (r [4]float64) {
		r = [4]float64{q[0].x, q[0].y, q[0].x, q[0].y}
		for _, p := range q {
			r = [4]float64{min(r[0], p.x), min(r[1], p.y), max(r[2], p.x), max(r[3], p.y)}
		}
		return r
	}
	area := func(r [4]float64) float64 { return max(r[2]-r[0], 0) * max(r[3]-r[1], 0) }
	x, y := rect(a), rect(b)
	both := area([4]float64{max(x[0], y[0]), max(x[1], y[1]), min(x[2], y[2]), min(x[3], y[3])})
	return both / (area(x) + area(y) - both)
}

// TestTurnedPages: a page is read whichever way it lies, with the boxes of the upright one.
func TestTurnedPages(t *testing.T) {
	r := locate(t)
	page := goldenPages(t)["coarse.png"]
	want, err := r.ReadPicture(t.Context(), page)
	if err != nil || len(want) < 4 {
		t.Fatalf("%d lines, %v", len(want), err)
	}
	for quarters, name := range []string{"", "on its side", "on its head", "on its other side"} {
		if quarters == 0 {
			continue
		}
		got, err := r.ReadPicture(t.Context(), rotated(page, quarters))
		if err != nil {
			t.Fatal(err)
		}
		var a, b strings.Builder
		for _, l := range want {
			a.WriteString(l.Text + " ")
			for _, g := range got {
				if min(l.Bottom, g.Bottom)-max(l.Top, g.Top) > .6*(l.Bottom-l.Top) &&
					min(l.Right, g.Right)-max(l.Left, g.Left) > .9*(l.Right-l.Left) {
					b.WriteString(g.Text + " ")
				}
			}
		}
		if e := ocrtest.Errors(a.String(), b.String()); e > .02 {
			t.Errorf("%s: %.1f %% differ: %q, want %q", name, 100*e, b.String(), a.String())
		}
	}
}

// rotated turns a picture by quarters of a turn, clockwise.
func rotated(p *image.Gray, quarters int) *image.Gray {
	for range quarters {
		w, h := p.Rect.Dx(), p.Rect.Dy()
		to := image.NewGray(image.Rect(0, 0, h, w))
		for y := range h {
			for x := range w {
				to.Pix[x*to.Stride+h-1-y] = p.Pix[y*p.Stride+x]
			}
		}
		p = to
	}
	return p
}

// TestPicturesOfAnySize: pictures without text, tiny ones and strips have no lines and no error.
func TestPicturesOfAnySize(t *testing.T) {
	r := locate(t)
	for _, size := range []image.Point{{X: 1, Y: 1}, {X: 3, Y: 3}, {X: 3000, Y: 2}, {X: 2, Y: 900}, {X: 300, Y: 40}} {
		p := image.NewGray(image.Rectangle{Max: size})
		for i := range p.Pix {
			p.Pix[i] = 200
		}
		if lines, err := r.ReadPicture(t.Context(), p); err != nil || len(lines) != 0 {
			t.Errorf("%v: %v, %v", size, lines, err)
		}
	}
}
