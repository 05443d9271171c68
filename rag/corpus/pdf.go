package corpus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

const (
	pdfMemory   = 512 << 20       // bytes that PDFium may take
	pdfPages    = 100_000         // a file that claims more has its first ones read
	pdfTime     = time.Hour       // FileOptions.MaxSeconds is less
	pdfTimeMiB  = 5 * time.Second // more for each MiB of a file
	pdfHeadings = 6               // levels of headings, by their sizes
)

// pdfReader is PDFium, compiled to WebAssembly: it has no access to anything but its own memory, which is bounded, and
// ends when its context does, whatever a file makes of it.
type pdfReader struct {
	ctx    context.Context
	cache  wazero.CompilationCache
	engine pdfium.Pool
	time   time.Duration // for a file
}

// openPDF makes the reader. Compiling takes seconds; a folder keeps what comes of it. What is kept there and damaged is
// removed and made anew.
func openPDF(ctx context.Context, folder string) (*pdfReader, error) {
	r, err := startPDF(ctx, folder)
	if err == nil || folder == "" || ctx.Err() != nil {
		return r, err
	}
	kept, _ := filepath.Glob(filepath.Join(folder, "wazero-*"))
	for _, dir := range kept {
		if os.RemoveAll(dir) != nil {
			return startPDF(ctx, "")
		}
	}
	return startPDF(ctx, folder)
}

func startPDF(ctx context.Context, folder string) (*pdfReader, error) {
	r := &pdfReader{ctx: ctx, time: pdfTime}
	c := wazero.NewRuntimeConfig().WithMemoryLimitPages(pdfMemory >> 16).WithCloseOnContextDone(true).
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling)
	if folder != "" {
		cache, err := wazero.NewCompilationCacheWithDir(folder)
		if err == nil { // else it is compiled each time
			r.cache = cache
			c = c.WithCompilationCache(cache)
		}
	}
	var err error
	r.engine, err = webassembly.Init(webassembly.Config{Context: ctx, MaxIdle: 1, MaxTotal: 1, RuntimeConfig: c,
		FSConfig: wazero.NewFSConfig(), Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("PDFium does not start: %w", err), r.close())
	}
	return r, nil
}

func (r *pdfReader) close() (err error) {
	if r == nil {
		return nil
	}
	if r.engine != nil {
		err = r.engine.Close()
	}
	if r.cache != nil {
		err = errors.Join(err, r.cache.Close(context.WithoutCancel(r.ctx)))
	}
	return err
}

// pdfLine is a line of a page.
type pdfLine struct {
	text                     string
	size                     float64 // of most of its letters, in points
	top, bottom, left, right float64 // top above bottom

	whole   []byte // text with what has been added to it; nil: nothing
	letters int    // of whole
}

// parse reads a PDF file: paragraphs by the lines' places, headings by their size, a section for each page with the
// anchor "page=N". Lines that most pages begin or end with, such as running titles and page numbers, are left out. It
// returns the numbers of the pages that have no text.
func (r *pdfReader) parse(d *Document, raw string, p *pulse) (empty []int, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, r.time+time.Duration(len(raw)>>20)*pdfTimeMiB)
	defer cancel()
	in, err := r.engine.GetInstanceWithContext(ctx)
	if err != nil {
		return nil, pdfError(ctx, err)
	}
	defer in.Close() //nolint:errcheck // its memory goes with it
	content := []byte(raw)
	doc, err := in.OpenDocument(&requests.OpenDocument{File: &content})
	if err != nil {
		return nil, pdfError(ctx, err)
	}
	n, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return nil, pdfError(ctx, err)
	}
	pages := make([][]pdfLine, 0, min(n.PageCount, pdfPages))
	for i := range min(n.PageCount, pdfPages) {
		p.check()
		lines, err := pdfPage(in, requests.Page{ByIndex: &requests.PageByIndex{Document: doc.Document, Index: i}})
		if ctx.Err() != nil {
			return nil, pdfError(ctx, err)
		}
		if err != nil {
			lines = nil // a page without text
		}
		lines.join()
		if pages = append(pages, lines); len(lines) == 0 {
			empty = append(empty, i+1)
		}
	}
	said := func(tag string) string {
		meta, err := in.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: doc.Document, Tag: tag})
		if err != nil {
			return ""
		}
		return meta.Value
	}
	d.Title = strings.Join(strings.Fields(clean(said("Title"))), " ")
	d.property(authorKey, said("Author"))
	d.property(createdKey, dateOfPDF(said("CreationDate")))
	d.property(modifiedKey, dateOfPDF(said("ModDate")))
	d.property(pagesKey, strconv.Itoa(len(pages)))
	writePDF(d, pages, p)
	return empty, nil
}

// pdfRects are the rectangles of text that a line may have to be read by them.
const pdfRects = 200

// pdfPage reads the lines of a page. A call into the sandbox takes microseconds, so the text comes in one piece, and
// the place of each of its rectangles in another; GetPageTextStructured, which makes three calls for each character, is
// left to pages whose characters cannot be counted off in their text, and to lines of very many rectangles.
func pdfPage(in pdfium.Pdfium, page requests.Page) (lines pdfLines, err error) {
	loaded, err := in.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return nil, err
	}
	p := pdfText{Pdfium: in, page: loaded.TextPage}
	defer in.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: p.page}) //nolint:errcheck // memory
	n, err := in.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: p.page})
	if err != nil || n.Count <= 0 {
		return nil, err
	}
	text, err := in.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: p.page, Count: n.Count})
	if err != nil {
		return nil, err
	}
	chars := []rune(strings.TrimSuffix(text.Text, "\x00"))
	if len(chars) != n.Count {
		return pdfCrowdedPage(in, page)
	}
	for from := 0; from < len(chars); {
		to := from + 1
		for to < len(chars) && chars[to-1] != '\n' {
			to++
		}
		rects, err := p.rects(from, to)
		if err != nil {
			return nil, err
		}
		if len(rects) > pdfRects {
			return pdfCrowdedPage(in, page)
		}
		begin := from
		for i, r := range rects {
			end := to
			if i+1 < len(rects) {
				if end, err = p.begin(from, to, i+1); err != nil {
					return nil, err
				}
			}
			if r.size, err = p.size(chars, begin, end); err != nil {
				return nil, err
			}
			r.text = clean(strings.TrimRight(string(chars[begin:end]), "\r\n"))
			lines.add(r)
			begin = end
		}
		from = to
	}
	return lines, nil
}

// pdfText is the text of a page.
type pdfText struct {
	pdfium.Pdfium
	page references.FPDF_TEXTPAGE
}

// count counts the rectangles of the characters from … to−1.
func (p pdfText) count(from, to int) (int, error) {
	n, err := p.FPDFText_CountRects(&requests.FPDFText_CountRects{TextPage: p.page, StartIndex: from, Count: to - from})
	if err != nil {
		return 0, err
	}
	return n.Count, nil
}

// rects are the rectangles of the characters from … to−1 without their texts, but not more than pdfRects and one.
func (p pdfText) rects(from, to int) ([]pdfLine, error) {
	n, err := p.count(from, to)
	if err != nil || n <= 0 {
		return nil, err
	}
	rects := make([]pdfLine, min(n, pdfRects+1))
	for i := range rects {
		at, err := p.FPDFText_GetRect(&requests.FPDFText_GetRect{TextPage: p.page, Index: i})
		if err != nil {
			return nil, err
		}
		rects[i] = pdfLine{top: at.Top, bottom: at.Bottom, left: at.Left, right: at.Right}
	}
	return rects, nil
}

// begin is the first character of a rectangle: the one that makes them one more.
func (p pdfText) begin(from, to, rect int) (at int, err error) {
	at = from + sort.Search(to-from-1, func(i int) bool {
		n, failed := p.count(from, from+i+1)
		err = cmp.Or(err, failed)
		return n > rect
	})
	return at, err
}

// size is that of the first letter.
func (p pdfText) size(chars []rune, from, to int) (float64, error) {
	for from+1 < to && unicode.IsSpace(chars[from]) {
		from++
	}
	size, err := p.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: p.page, Index: from})
	if err != nil {
		return 0, err
	}
	return size.FontSize, nil
}

// pdfCrowdedPage is pdfPage of a page with many rectangles of text.
func pdfCrowdedPage(in pdfium.Pdfium, page requests.Page) (lines pdfLines, err error) {
	text, err := in.GetPageTextStructured(&requests.GetPageTextStructured{Page: page,
		Mode: requests.GetPageTextStructuredModeRects, CollectFontInformation: true})
	if err != nil {
		return nil, err
	}
	for _, x := range text.Rects {
		size := 0.0
		if x.FontInformation != nil {
			size = x.FontInformation.Size
		}
		at := x.PointPosition
		lines.add(pdfLine{text: clean(x.Text), size: size, top: at.Top, bottom: at.Bottom, left: at.Left,
			right: at.Right})
	}
	return lines, nil
}

// pdfError is why a file cannot be read.
func pdfError(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("%w: reading it takes too long", ErrFormat)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		return fmt.Errorf("%w: encrypted; save it without a password", ErrFormat)
	}
	return fmt.Errorf("%w: no readable PDF: %w", ErrFormat, err)
}

// pdfLines puts together what stands on one line.
type pdfLines []pdfLine

func (l *pdfLines) add(x pdfLine) {
	if strings.TrimSpace(x.text) == "" {
		return
	}
	if n := len(*l); n > 0 {
		last := &(*l)[n-1]
		overlap := min(last.top, x.top) - max(last.bottom, x.bottom)
		if height := min(last.top-last.bottom, x.top-x.bottom); overlap > height/2 && x.left >= last.left {
			if last.whole == nil {
				last.whole, last.letters = []byte(last.text), utf8.RuneCountInString(last.text)
			}
			if gap := x.left - last.right; gap > .1*max(x.size, 1) && !bytes.HasSuffix(last.whole, []byte(" ")) {
				last.whole = append(last.whole, ' ')
				last.letters++
			}
			letters := utf8.RuneCountInString(x.text)
			if letters > last.letters {
				last.size = x.size
			}
			last.whole = append(last.whole, x.text...)
			last.letters += letters
			last.top, last.bottom = max(last.top, x.top), min(last.bottom, x.bottom)
			last.right = max(last.right, x.right)
			return
		}
	}
	*l = append(*l, x)
}

// join ends the lines: a page may have a hundred thousand rectangles on one.
func (l pdfLines) join() {
	for i := range l {
		if x := &l[i]; x.whole != nil {
			x.text, x.whole = string(x.whole), nil
		}
	}
}

// writePDF makes the document of its lines.
func writePDF(d *Document, pages [][]pdfLine, p *pulse) {
	b := &builder{pulse: p, w: textWriter{isSource: true}}
	running, levels := runningLines(pages), headingSizes(pages)
	for i, lines := range pages {
		lines = withoutRunning(lines, running)
		if len(lines) == 0 {
			continue
		}
		b.page(fmt.Sprintf("page=%d", i+1))
		for j := 0; j < len(lines); {
			level := levels[rounded(lines[j].size)]
			k := j + 1
			if level > 0 { // a heading of several lines
				for k < len(lines) && rounded(lines[k].size) == rounded(lines[j].size) &&
					follows(lines[k-1], lines[k], 2) {
					k++
				}
				if text := joined(lines[j:k]); utf8.RuneCountInString(text) <= maxHeading {
					b.heading(level, text, fmt.Sprintf("page=%d", i+1), 0, 0)
					j = k
					continue
				}
			}
			for k < len(lines) && levels[rounded(lines[k].size)] == level && follows(lines[k-1], lines[k], 1.5) {
				k++
			}
			b.collapsed(joined(lines[j:k]), 0)
			b.endBlock("\n\n")
			j = k
		}
		b.endBlock("\n\n")
	}
	b.finish(d, nil)
}

// page begins a section below the headings that are open.
func (b *builder) page(anchor string) {
	b.endBlock("\n\n")
	if len(b.sections) > 0 || b.w.text.Len() > 0 {
		b.endSection(math.MaxInt)
	}
	b.beginSection(anchor, 0)
	b.headed = false
}

// follows tells whether a line continues the one before: close below it, in letters of about the same size.
func follows(last, next pdfLine, spacing float64) bool {
	height := max(last.size, last.top-last.bottom, 1)
	drop := last.bottom - next.bottom
	return drop > 0 && drop < spacing*height*1.2 && math.Abs(last.size-next.size) < .1*max(last.size, next.size)+.01 &&
		next.left < last.right && next.right > last.left
}

// joined are lines as one text; a word that was parted at the end of a line is put together.
func joined(lines []pdfLine) string {
	var b strings.Builder
	for i, l := range lines {
		text := strings.TrimSpace(l.text)
		whole := strings.TrimRight(text, "\u0002\u00ad\ufffe")
		b.WriteString(whole)
		if i+1 < len(lines) && len(whole) == len(text) {
			b.WriteByte(' ')
		}
	}
	return strings.Map(func(r rune) rune {
		if r == '\u0002' || r == '\ufffe' || r == '\u00ad' {
			return -1
		}
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, b.String())
}

func rounded(size float64) int { return int(math.Round(2 * size)) }

// headingSizes are the levels of headings by the sizes of their letters: the largest ones, which are above that of most
// letters.
func headingSizes(pages [][]pdfLine) map[int]int {
	letters := map[int]int{}
	for _, lines := range pages {
		for _, l := range lines {
			letters[rounded(l.size)] += utf8.RuneCountInString(l.text)
		}
	}
	body, total := 0, 0
	for size, n := range letters {
		if total += n; n > letters[body] || n == letters[body] && size < body {
			body = size
		}
	}
	var sizes []int
	for size, n := range letters {
		if float64(size) > 1.12*float64(body) && 4*n < total {
			sizes = append(sizes, size)
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	levels := map[int]int{}
	for i, size := range sizes {
		levels[size] = min(i+1, pdfHeadings)
	}
	return levels
}

var digits = regexp.MustCompile(`\d+`)

// running is what is the same in lines of several pages, whatever their numbers.
func runningText(l pdfLine) string {
	return digits.ReplaceAllString(strings.Join(strings.Fields(l.text), " "), "0")
}

// runningLines are those that at least half of the pages, and three, begin or end with.
func runningLines(pages [][]pdfLine) map[string]bool {
	counts := map[string]int{}
	for _, lines := range pages {
		seen := map[string]bool{}
		for _, l := range edges(lines) {
			if text := runningText(l); !seen[text] {
				seen[text] = true
				counts[text]++
			}
		}
	}
	running := map[string]bool{}
	for text, n := range counts {
		if n >= 3 && 2*n >= len(pages) {
			running[text] = true
		}
	}
	return running
}

// edges are the first and the last two lines of a page.
func edges(lines []pdfLine) []pdfLine {
	if len(lines) <= 4 {
		return lines
	}
	return append(slices.Clone(lines[:2]), lines[len(lines)-2:]...)
}

func withoutRunning(lines []pdfLine, running map[string]bool) (kept []pdfLine) {
	for i, l := range lines {
		if (i < 2 || i >= len(lines)-2) && running[runningText(l)] {
			continue
		}
		kept = append(kept, l)
	}
	return kept
}
