package pdf

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/requests"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

// PictureLine is a line of text that was read in a picture, or a part of one between wide gaps.
type PictureLine struct {
	// Its box in pixels, from the top left corner of the picture as it is when its text stands upright.
	Left, Top, Right, Bottom float64
	Text                     string
	Confidence               float64 // mean probability of its characters
}

// PictureReader reads the text in pictures (rag/ocr).
type PictureReader interface {
	// ReadPicture returns the lines in any order. The error is ErrPictures where there is nothing to read them with.
	ReadPicture(ctx context.Context, picture image.Image) ([]PictureLine, error)
	// Name says what the pictures are read with, "" where there is nothing.
	Name() string
}

// ErrPictures is text in pictures that is not read.
var ErrPictures = errors.New("corpus: text in pictures is not read")

const (
	maxPixels      = 50_000_000       // of a picture; a page of A3 at 500 dpi has fewer
	picturePages   = 10_000           // of a TIFF file; the others are not read
	pictureTime    = 60 * time.Second // more for each page: FileOptions.MaxSeconds is for the rest
	pictureHigh    = 842.             // points: how high a picture counts as, so that its letters have a size
	renderedSide   = 2400             // pixels of the longer side of a page that is rendered
	PictureEndings = " .png .jpg .jpeg .tif .tiff .webp "
)

// Pictures reads the text in pictures of one document.
type Pictures struct {
	Reader PictureReader       // nil: pages of PDF files are not read as pictures
	All    bool                // pages with text as well
	More   func(time.Duration) // lets the file take longer
	Pulse  *doc.Pulse
	sum    float64 // of the confidences of characters
	count  int
	marks  []string // by page: what an anchor says of how sure its text is
	failed []error
}

// read returns the lines of a picture in the order in which they are read, in points.
func (x *Pictures) read(page int, picture image.Image, points float64) ([]pdfLine, error) {
	x.More(pictureTime)
	lines, err := x.Reader.ReadPicture(x.Pulse.Ctx, picture)
	if err != nil {
		return nil, err
	}
	sum, n := 0., 0
	for i := range lines {
		l := &lines[i]
		l.Text = doc.Clean(l.Text)
		sum += l.Confidence * float64(len(l.Text))
		n += len(l.Text)
	}
	for len(x.marks) < page {
		x.marks = append(x.marks, "")
	}
	if n > 0 {
		x.marks[page-1] = fmt.Sprintf("ocr=%.0f", 100*sum/float64(n))
		x.sum, x.count = x.sum+sum, x.count+n
	}
	return pictureLines(lines, points), nil
}

// reads reports whether a page is to be read as a picture.
func (x *Pictures) reads(hasText bool) bool { return x.Reader != nil && (!hasText || x.All) }

// hasRead reports whether a page, counted from 0, was read as a picture.
func (x *Pictures) hasRead(page int) bool { return page < len(x.marks) && x.marks[page] != "" }

// page reads a page of a PDF file as a picture; what it has as text stays where that fails.
func (x *Pictures) page(in pdfium.Pdfium, page requests.Page, text []pdfLine) []pdfLine {
	number := page.ByIndex.Index + 1
	lines, err := x.rendered(in, page)
	switch {
	case err == nil:
		return lines
	case errors.Is(err, ErrPictures): // of all pages alike
		if len(x.failed) == 0 {
			x.failed = []error{fmt.Errorf("page %d has no text, and %w", number, err)}
		}
	default:
		x.failed = append(x.failed, fmt.Errorf("page %d, as a picture: %w", number, err))
	}
	return text
}

func (x *Pictures) rendered(in pdfium.Pdfium, page requests.Page) ([]pdfLine, error) {
	got, err := in.RenderPageInPixels(&requests.RenderPageInPixels{Page: page, Width: renderedSide,
		Height: renderedSide, ImageFormat: requests.RenderImageFormatGrayscale})
	if err != nil {
		return nil, err
	}
	defer got.Cleanup()
	return x.read(page.ByIndex.Index+1, got.Result.RenderedImage, 1/got.Result.PointToPixelRatio)
}

// anchor returns the place of a page, with how sure its text is if that was read in a picture, in percent.
func (x *Pictures) anchor(page int) string {
	anchor := fmt.Sprintf("page=%d", page)
	if x != nil && page <= len(x.marks) && x.marks[page-1] != "" {
		anchor += "&" + x.marks[page-1]
	}
	return anchor
}

// say keeps the mean confidence in the metadata.
func (x *Pictures) say(d *doc.Document) {
	if x.count > 0 {
		mean := math.Round(1000*x.sum/float64(x.count)) / 1000
		d.SetMeta(doc.OCRKey, json.Number(strconv.FormatFloat(mean, 'f', -1, 64)))
	}
}

// Parse reads the text of a file that is a picture, or several.
func (x *Pictures) Parse(d *doc.Document, raw, ending string) error {
	var pages [][]pdfLine
	err := eachPicture(raw, ending, x.Pulse, func(p image.Image) error {
		high := float64(max(p.Bounds().Dx(), p.Bounds().Dy()))
		lines, err := x.read(len(pages)+1, p, pictureHigh/high)
		pages = append(pages, lines)
		return err
	})
	if err != nil {
		return err
	}
	evenSizes(pages, nil)
	x.say(d)
	d.Property(doc.PagesKey, strconv.Itoa(len(pages)))
	writePDF(d, pages, x, x.Pulse)
	return nil
}

// eachPicture decodes the pictures of a file.
func eachPicture(raw, ending string, p *doc.Pulse, each func(image.Image) error) error {
	if ending == ".tif" || ending == ".tiff" {
		return eachTIFF(raw, p, each)
	}
	config, decode := png.DecodeConfig, png.Decode
	switch ending {
	case ".jpg", ".jpeg":
		config, decode = jpeg.DecodeConfig, jpeg.Decode
	case ".webp":
		config, decode = webp.DecodeConfig, webp.Decode
	}
	in := func() io.Reader { return p.Reader(strings.NewReader(raw)) }
	return onePicture(config, decode, in, each)
}

func onePicture(
	config func(io.Reader) (image.Config, error), decode func(io.Reader) (image.Image, error), in func() io.Reader,
	each func(image.Image) error,
) error {
	c, err := config(in())
	if err != nil {
		return fmt.Errorf("%w: no readable picture: %w", doc.ErrFormat, err)
	}
	if c.Width < 1 || c.Height < 1 {
		return fmt.Errorf("%w: a picture of %d × %d pixels", doc.ErrFormat, c.Width, c.Height)
	}
	if c.Width > maxPixels/c.Height {
		return fmt.Errorf("%w of %d million pixels: a picture of %d × %d", doc.ErrTooLarge, maxPixels/1_000_000,
			c.Width, c.Height)
	}
	picture, err := decode(in())
	if err != nil {
		return fmt.Errorf("%w: no readable picture: %w", doc.ErrFormat, err)
	}
	return each(picture)
}

// eachTIFF decodes the pictures of a TIFF file. The decoder reads the first one: for the others, it is given the file
// with the place of another one in its header.
func eachTIFF(raw string, p *doc.Pulse, each func(image.Image) error) error {
	if len(raw) < 8 {
		return fmt.Errorf("%w: no readable picture: a TIFF file of %d bytes", doc.ErrFormat, len(raw))
	}
	var order binary.ByteOrder = binary.LittleEndian
	if strings.HasPrefix(raw, "MM") {
		order = binary.BigEndian
	}
	at, seen := order.Uint32([]byte(raw[4:8])), map[uint32]bool{}
	for n := 0; n == 0 || at != 0 && !seen[at] && n < picturePages; n++ {
		seen[at] = true
		header := []byte(raw[:8])
		order.PutUint32(header[4:], at)
		in := func() io.Reader { return tiffPage{strings.NewReader(raw), string(header), p} }
		if err := onePicture(tiff.DecodeConfig, tiff.Decode, in, each); err != nil {
			if n > 0 {
				err = fmt.Errorf("page %d: %w", n+1, err)
			}
			return err
		}
		entries := uint64(at) + 2
		if entries > uint64(len(raw)) {
			break
		}
		next := entries + 12*uint64(order.Uint16([]byte(raw[at:entries])))
		if next+4 > uint64(len(raw)) {
			break
		}
		at = order.Uint32([]byte(raw[next : next+4]))
	}
	return nil
}

// tiffPage is a TIFF file with another header.
type tiffPage struct {
	*strings.Reader
	header string
	p      *doc.Pulse
}

// ReadAt reads the file, the header first.
func (t tiffPage) ReadAt(to []byte, at int64) (int, error) {
	t.p.Check()
	n, err := t.Reader.ReadAt(to, at)
	if at < int64(len(t.header)) {
		copy(to[:n], t.header[at:])
	}
	return n, err
}
