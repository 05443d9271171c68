package pdf

import (
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/requests"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
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

// pictureLines puts what was read in a picture into the order of reading, columns one after the other, and makes lines
// of the rows: what stands beside each other in a table are cells of one line. points is the size of a pixel.
func pictureLines(all []PictureLine, points float64) []pdfLine {
	for i := range all {
		l := &all[i]
		l.Left, l.Right, l.Top, l.Bottom = l.Left*points, l.Right*points, l.Top*points, l.Bottom*points
	}
	slices.SortStableFunc(all, func(a, b PictureLine) int { return cmp.Compare(a.Top+a.Bottom, b.Top+b.Bottom) })
	lines := pictureRows(nil, all, 0)
	lines.end()
	return lines
}

// What running text is, as opposed to the cells of a table.
const (
	columnLines   = 3  // of each column at least
	columnLetters = 12 // of its lines, on average
	columnFull    = .6 // of its width, most lines take
	mostSplits    = 8  // of a page into columns within each other
)

// pictureRows appends lines that stand from top to bottom, the left one of two columns first.
func pictureRows(to pdfLines, all []PictureLine, depth int) pdfLines {
	at, ok := gutter(all)
	if !ok || depth == mostSplits {
		return appendRows(to, all)
	}
	var left, right, across []PictureLine
	flush := func() {
		to = appendRows(to, across)
		to = pictureRows(to, left, depth+1)
		to = pictureRows(to, right, depth+1)
		left, right, across = nil, nil, nil
	}
	for _, l := range all {
		switch {
		case l.Right <= at:
			left = append(left, l)
		case l.Left >= at:
			right = append(right, l)
		default:
			if len(left)+len(right) > 0 {
				flush()
			}
			across = append(across, l)
		}
	}
	flush()
	return to
}

// gutter finds the place between two columns of running text, which few lines cross.
func gutter(all []PictureLine) (at float64, ok bool) {
	best, widest := len(all)/3+1, 0.
	for _, candidate := range all {
		x := candidate.Left
		var left, right []PictureLine
		crossing, edge := 0, math.Inf(-1)
		for _, l := range all {
			switch {
			case l.Right <= x:
				left = append(left, l)
				edge = max(edge, l.Right)
			case l.Left >= x:
				right = append(right, l)
			default:
				crossing++
			}
		}
		if crossing > best || crossing == best && x-edge <= widest || !isRunning(left) || !isRunning(right) {
			continue
		}
		best, widest, at, ok = crossing, x-edge, x, true
	}
	return at, ok
}

// isRunning reports whether lines make a column of running text.
func isRunning(lines []PictureLine) bool {
	if len(lines) < columnLines {
		return false
	}
	left, right, letters := math.Inf(1), math.Inf(-1), 0
	for _, l := range lines {
		left, right = min(left, l.Left), max(right, l.Right)
		letters += utf8.RuneCountInString(l.Text)
	}
	full := 0
	for _, l := range lines {
		if l.Right-l.Left >= columnFull*(right-left) {
			full++
		}
	}
	return letters >= columnLetters*len(lines) && 2*full >= len(lines)
}

// appendRows appends a line for each row.
func appendRows(to pdfLines, all []PictureLine) pdfLines {
	for len(all) > 0 {
		row := box{bottom: -all[0].Bottom, top: -all[0].Top}
		n := 1
		for n < len(all) && n < maxPDFCells && row.over(box{bottom: -all[n].Bottom, top: -all[n].Top}) > .5 {
			n++
		}
		cells := slices.Clone(all[:n])
		all = all[n:]
		slices.SortStableFunc(cells, func(a, b PictureLine) int { return cmp.Compare(a.Left, b.Left) })
		var x pdfLine
		for i, c := range cells {
			b := box{c.Left, c.Right, -c.Bottom, -c.Top}
			cell := pdfCell{left: c.Left, right: c.Right, whole: []byte(c.Text)}
			if i == 0 {
				x.box = b
			} else {
				cell.gap = (c.Left - cells[i-1].Right) / max(letterSize*b.height(), 1)
				x.box = x.union(b)
			}
			x.size = max(x.size, letterSize*b.height())
			x.cells = append(x.cells, cell)
		}
		x.main = x.box
		to = append(to, x)
	}
	return to
}

const (
	letterSize = .85 // of the letters of a line, over the height of its box
	sizeStep   = 1.4 // letters count as larger than those of most lines when they are so many times as large
	pictureSet = 11. // points: the size that letters of most lines count as, where the document has no text to say
)

// evenSizes gives the lines of pages that were read in pictures the sizes of letters that the document has elsewhere:
// a line's box is higher by a quarter if it has letters such as "g", so a size is one of few, by its ratio to that of
// most lines. isRead reports whether a page is such a one; nil: all are.
func evenSizes(pages [][]pdfLine, isRead func(page int) bool) {
	var read, others []float64
	for i, lines := range pages {
		for _, l := range lines {
			if isRead == nil || isRead(i) {
				read = append(read, l.size)
			} else {
				others = append(others, l.size)
			}
		}
	}
	if len(read) == 0 {
		return
	}
	slices.Sort(read)
	body, most := pictureSet, read[len(read)/2]
	if len(others) > 0 {
		slices.Sort(others)
		body = others[len(others)/2]
	}
	for i, lines := range pages {
		if isRead != nil && !isRead(i) {
			continue
		}
		for j := range lines {
			steps := math.Trunc(math.Log(lines[j].size/max(most, .01)) / math.Log(sizeStep))
			lines[j].size = body * math.Pow(sizeStep, min(max(steps, -3), 6))
		}
	}
}
