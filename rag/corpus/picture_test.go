package corpus

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"slices"
	"strings"
	"testing"
)

// reading is a PictureReader that finds the same lines in every picture.
type reading struct {
	lines []PictureLine
	err   error
	sizes []image.Point
}

func (r *reading) ReadPicture(_ context.Context, p image.Image) ([]PictureLine, error) {
	lines := slices.Clone(r.lines)
	for i := range lines { // the same words on each page would be a running title
		lines[i].Text += strings.Repeat(" again", len(r.sizes))
	}
	r.sizes = append(r.sizes, p.Bounds().Size())
	return lines, r.err
}

func (*reading) Name() string { return "double" }

// textLine is a line of text at a place; its letters are 10 pixels wide and 20 high.
func textLine(x, y float64, text string) PictureLine {
	return PictureLine{Left: x, Top: y, Right: x + 10*float64(len(text)), Bottom: y + 20, Text: text, Confidence: .9}
}

func TestPictures(t *testing.T) {
	for name, sizes := range map[string][]image.Point{
		"cmyk.jpg": {{X: 40, Y: 20}}, "two.tif": {{X: 40, Y: 20}, {X: 20, Y: 60}}, "lossless.webp": {{X: 40, Y: 20}},
		"lossy.webp": {{X: 40, Y: 20}}, "deep.png": {{X: 40, Y: 20}}, "alpha.png": {{X: 40, Y: 20}},
	} {
		r := &reading{lines: []PictureLine{textLine(0, 0, "The tide turns at noon.")}}
		docs, skips := load(t, LoadOptions{Pictures: r}, "testdata/pictures/"+name)
		if len(docs) != 1 || len(skips) != 0 || !slices.Equal(r.sizes, sizes) {
			t.Fatalf("%s: %d documents, %v, pictures of %v", name, len(docs), skips, r.sizes)
		}
		d := docs[0]
		if !strings.HasPrefix(d.Text, "The tide turns at noon.") || len(d.Sections) != len(sizes) ||
			d.Sections[len(sizes)-1].Anchor != fmt.Sprintf("page=%d&ocr=90", len(sizes)) ||
			d.Meta[OCRKey] != json.Number("0.9") || strings.Contains(d.Meta.Words(), "0.9") {
			t.Errorf("%s: %q, %+v, %v", name, d.Text, d.Sections, d.Meta)
		}
	}
}

// header is a PNG file that claims a size, and has nothing of it.
func header(w, h uint32) string {
	ihdr := append([]byte("IHDR"), make([]byte, 13)...)
	binary.BigEndian.PutUint32(ihdr[4:], w)
	binary.BigEndian.PutUint32(ihdr[8:], h)
	ihdr[12], ihdr[13] = 8, 2
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), ihdr...)
	return string(binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(ihdr)))
}

func TestHostilePictures(t *testing.T) {
	var small bytes.Buffer
	if err := png.Encode(&small, image.NewGray(image.Rect(0, 0, 64, 64))); err != nil {
		t.Fatal(err)
	}
	tif := string(must(os.ReadFile("testdata/pictures/two.tif")))
	first := binary.LittleEndian.Uint32([]byte(tif[4:]))
	next := first + 2 + 12*uint32(binary.LittleEndian.Uint16([]byte(tif[first:])))
	loop := []byte(tif)
	binary.LittleEndian.PutUint32(loop[next:], first)
	webp := string(must(os.ReadFile("testdata/pictures/lossy.webp")))
	for name, c := range map[string]struct {
		content string
		err     error
		says    string
	}{
		"huge.png":  {header(100_000, 100_000), ErrTooLarge, "50 million pixels: a picture of 100000 × 100000"},
		"wide.png":  {header(1<<31-1, 1), ErrTooLarge, "2147483647 × 1"},
		"zero.png":  {header(0, 7), ErrFormat, ""},
		"cut.png":   {small.String()[:60], ErrFormat, "no readable picture"},
		"empty.jpg": {"", ErrFormat, ""}, "text.jpg": {"no picture", ErrFormat, ""},
		"cut.jpg":  {string(must(os.ReadFile("testdata/pictures/cmyk.jpg")))[:300], ErrFormat, ""},
		"cut.webp": {webp[:len(webp)/2], ErrFormat, ""},
		"cut.tif":  {tif[:20], ErrFormat, ""}, "short.tiff": {"II*", ErrFormat, "3 bytes"},
		"second.tif": {tif[:len(tif)-200], ErrFormat, ""},
	} {
		path := write(t, t.TempDir(), name, c.content)
		var last error
		for _, err := range Load(t.Context(), []string{path}, LoadOptions{Pictures: &reading{}, Strict: true}) {
			last = err
		}
		if !errors.Is(last, c.err) || !strings.Contains(last.Error(), c.says) {
			t.Errorf("%s: %v", name, last)
		}
	}
	r := &reading{lines: []PictureLine{textLine(0, 0, "Words.")}}
	if docs, _ := load(t, LoadOptions{Pictures: r}, write(t, t.TempDir(), "loop.tif", string(loop))); len(docs) != 1 ||
		len(r.sizes) != 1 {
		t.Errorf("a loop: %d documents, %v", len(docs), r.sizes)
	}
}

// TestPicturesOfPDF: pages without text are read as pictures, all of them on request, and what is not read is said.
func TestPicturesOfPDF(t *testing.T) {
	const file, own = "testdata/pictures/scan.pdf", "This page has a text of its own."
	lines := []PictureLine{textLine(50, 50, "Ebb and flood alternate twice a day.")}
	anchors := func(d *Document) (all []string) {
		for _, s := range d.Sections {
			all = append(all, s.Anchor)
		}
		return all
	}
	r := &reading{lines: lines}
	docs, skips := load(t, LoadOptions{Pictures: r}, file)
	if len(docs) != 1 || len(skips) != 0 || len(docs[0].Empty) != 0 || len(r.sizes) != 2 ||
		max(r.sizes[0].X, r.sizes[0].Y) != 2400 || strings.Count(docs[0].Text, "Ebb and flood") != 2 ||
		!strings.Contains(docs[0].Text, own) {
		t.Fatalf("%d documents, skipped %v, pictures of %v: %+v", len(docs), skips, r.sizes, docs)
	}
	if got, want := anchors(docs[0]), []string{"page=1&ocr=90", "page=2", "page=3&ocr=90"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r = &reading{lines: lines}
	docs, _ = load(t, LoadOptions{Pictures: r, AllPages: true}, file)
	if len(docs) != 1 || len(r.sizes) != 3 || strings.Contains(docs[0].Text, own) {
		t.Errorf("all pages: pictures of %v: %+v", r.sizes, docs)
	}
	missing := &reading{err: fmt.Errorf("%w: models are missing", ErrPictures)}
	docs, skips = load(t, LoadOptions{Pictures: missing}, file)
	if len(docs) != 1 || !slices.Equal(docs[0].Empty, []int{1, 3}) || len(skips) != 1 ||
		!errors.Is(skips[0].Err, ErrPictures) || !strings.Contains(skips[0].Err.Error(), "page 1") {
		t.Errorf("without models: %+v, %v", docs, skips)
	}
	if docs, skips = load(t, LoadOptions{}, file); len(docs) != 1 || len(docs[0].Empty) != 2 || len(skips) != 0 {
		t.Errorf("without a reader: %+v, %v", docs, skips)
	}
	failing := errors.New("no memory")
	docs, skips = load(t, LoadOptions{Pictures: &reading{err: failing}}, file)
	if len(docs) != 1 || len(skips) != 2 || !errors.Is(skips[1].Err, failing) {
		t.Errorf("a reader that fails: %+v, %v", docs, skips)
	}
	dir := t.TempDir()
	write(t, dir, "a.txt", "Words.")
	write(t, dir, "b.png", string(must(os.ReadFile("testdata/pictures/deep.png"))))
	for _, r := range []PictureReader{nil, missing} {
		_, skips = load(t, LoadOptions{Pictures: r, Strict: true}, dir) // is no fault of a file in a folder
		if len(skips) != 1 || !errors.Is(skips[0].Err, ErrPictures) || !errors.Is(skips[0].Err, ErrUnknown) {
			t.Errorf("a folder without models: %v", skips)
		}
	}
}
