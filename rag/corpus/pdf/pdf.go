// Package pdf reads PDF files, and pictures as their pages.
package pdf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

const (
	pdfMemory   = 512 << 20       // bytes that PDFium may take
	pdfPages    = 100_000         // a file that claims more has its first ones read
	pdfTime     = 24 * time.Hour  // FileOptions.MaxSeconds is less
	pdfTimeMiB  = 5 * time.Second // more for each MiB of a file
	pdfHeadings = 6               // levels of headings, by their sizes
)

// Reader is PDFium, compiled to WebAssembly: it has no access to anything but its own memory, which is bounded, and
// ends when its context does, whatever a file makes of it.
type Reader struct {
	ctx    context.Context
	cache  wazero.CompilationCache
	engine pdfium.Pool
	time   time.Duration // for a file
}

// Open makes the reader. Compiling takes seconds; a folder keeps what comes of it. What is kept there and damaged is
// removed and made anew.
func Open(ctx context.Context, folder string) (*Reader, error) {
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

func startPDF(ctx context.Context, folder string) (*Reader, error) {
	r := &Reader{ctx: ctx, time: pdfTime}
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
		return nil, errors.Join(fmt.Errorf("PDFium does not start: %w", err), r.Close())
	}
	return r, nil
}

// Close frees the memory of the reader.
func (r *Reader) Close() (err error) {
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

// Parse reads a PDF file: paragraphs by the lines' places, headings by their size, a section for each page with the
// anchor "page=N". Running titles, page numbers, tables of contents and indexes are left out. It notes the
// pages that have no text, once x has read their pictures.
func (r *Reader) Parse(d *doc.Document, raw string, x *Pictures) error {
	p := x.Pulse
	ctx, cancel := context.WithTimeout(p.Ctx, r.time+time.Duration(len(raw)>>20)*pdfTimeMiB)
	defer cancel()
	in, err := r.engine.GetInstanceWithContext(ctx)
	if err != nil {
		return pdfError(ctx, err)
	}
	defer in.Close() //nolint:errcheck // its memory goes with it
	content := []byte(raw)
	file, err := in.OpenDocument(&requests.OpenDocument{File: &content})
	if err != nil {
		return pdfError(ctx, err)
	}
	n, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: file.Document})
	if err != nil {
		return pdfError(ctx, err)
	}
	form, end := openForm(in, file.Document)
	defer end()
	pages := make([][]pdfLine, 0, min(n.PageCount, pdfPages))
	for i := range min(n.PageCount, pdfPages) {
		p.Check()
		page := requests.Page{ByIndex: &requests.PageByIndex{Document: file.Document, Index: i}}
		lines, err := pdfPage(in, page)
		if ctx.Err() != nil {
			return pdfError(ctx, err)
		}
		if err != nil {
			lines = nil // a page without text
		}
		lines.fill(form.values(page))
		if ctx.Err() != nil {
			return pdfError(ctx, ctx.Err())
		}
		lines.end()
		if x.Reader != nil && (len(lines) == 0 || x.All) {
			lines = x.page(in, page, lines)
			if ctx.Err() != nil {
				return pdfError(ctx, ctx.Err())
			}
		}
		if pages = append(pages, lines); len(lines) == 0 {
			d.Empty = append(d.Empty, i+1)
		}
	}
	evenSizes(pages, func(page int) bool { return page < len(x.marks) && x.marks[page] != "" })
	said := func(tag string) string {
		meta, err := in.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: file.Document, Tag: tag})
		if err != nil {
			return ""
		}
		switch strings.Trim(meta.Value, "()") {
		case "untitled", "anonymous", "unspecified": // what ReportLab writes where nobody says anything
			return ""
		}
		return meta.Value
	}
	d.Title = strings.Join(strings.Fields(doc.Clean(said("Title"))), " ")
	d.Property(doc.AuthorKey, said("Author"))
	d.Property(doc.CreatedKey, dateOfPDF(said("CreationDate")))
	d.Property(doc.ModifiedKey, dateOfPDF(said("ModDate")))
	d.Property(doc.PagesKey, strconv.Itoa(len(pages)))
	writePDF(d, pages, x, p)
	d.Missing = x.failed
	x.say(d)
	return nil
}

// pdfError is why a file cannot be read.
func pdfError(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("%w: reading it takes too long", doc.ErrFormat)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		return doc.ErrEncrypted
	}
	return fmt.Errorf("%w: no readable PDF: %w", doc.ErrFormat, err)
}

// dateOfPDF converts a date of PDF, "D:20240331120000+02'00'", to a form that dateSaid reads.
func dateOfPDF(text string) string {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "D:"), "'", "")
	for _, layout := range []string{"20060102150405Z0700", "20060102150405-0700", "20060102150405", "200601021504",
		"20060102", "200601", "2006"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC().Format(time.RFC3339)
		}
	}
	return ""
}
