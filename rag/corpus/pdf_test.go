package corpus

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klippa-app/go-pdfium/requests"
	"golang.org/x/sys/unix"
)

// TestPDFFigures prints what reading a PDF file takes of the processor, with and without the reader's compilation: the
// figures of docs/adr/0013-files.md. SLUICE_PDF names the file; testdata/pages.py makes one of 500 pages.
func TestPDFFigures(t *testing.T) {
	file := os.Getenv("SLUICE_PDF")
	if file == "" {
		t.Skip("SKIP: SLUICE_PDF names no file")
	}
	cache := filepath.Join(t.TempDir(), "pdf")
	for _, what := range []string{"compiled and read", "read", "read again"} {
		began, before := time.Now(), processor(t)
		bytes := 0
		for d, err := range Load(t.Context(), []string{file}, LoadOptions{CacheDir: cache}) {
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(d.Text)
		}
		t.Logf("%s: %d bytes of text, %v, %v of the processor", what, bytes, time.Since(began), processor(t)-before)
	}
}

// TestPDFPages: both ways to read a page have the same lines; sizes are those of first letters, which
// GetPageTextStructured looks for at a corner and may miss.
func TestPDFPages(t *testing.T) {
	files := must(filepath.Glob("testdata/*.pdf"))
	files = append(files, must(filepath.Glob("testdata/odd/*.pdf"))...)
	if file := os.Getenv("SLUICE_PDF"); file != "" {
		files = append(files, file)
	}
	r := must(openPDF(t.Context(), compiled))
	defer r.close() //nolint:errcheck // only memory
	in := must(r.engine.GetInstanceWithContext(t.Context()))
	defer in.Close() //nolint:errcheck // only memory
	pages := 0
	for _, file := range files {
		content := must(os.ReadFile(file))
		doc, err := in.OpenDocument(&requests.OpenDocument{File: &content})
		if err != nil {
			continue // encrypted
		}
		n := must(in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})).PageCount
		for i := range min(n, 40) {
			page := requests.Page{ByIndex: &requests.PageByIndex{Document: doc.Document, Index: i}}
			one, err := pdfPage(in, page)
			other, errOther := pdfCrowdedPage(in, page)
			same := func(a, b pdfLine) bool {
				plain := func(x pdfLine) string { return strings.Join(strings.Fields(joined([]pdfLine{x})), " ") }
				return plain(a) == plain(b) && (a.size == b.size || b.size == 0) && a.top == b.top &&
					a.bottom == b.bottom && a.left == b.left && a.right == b.right
			}
			if (err == nil) != (errOther == nil) || len(one) != len(other) {
				t.Fatalf("%s, page %d: %v, %v; %d and %d lines", file, i+1, err, errOther, len(one), len(other))
			}
			for k := range one {
				if !same(one[k], other[k]) {
					t.Errorf("%s, page %d: %+v, not %+v", file, i+1, one[k], other[k])
				}
			}
			pages++
		}
	}
	if pages < 10 {
		t.Errorf("only %d pages were compared", pages)
	}
}

// TestDamagedPDFCache: a compiled reader that is cut off or flipped is compiled anew.
func TestDamagedPDFCache(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: compiling the reader takes seconds")
	}
	folder := t.TempDir()
	must(0, os.CopyFS(folder, os.DirFS(compiled)))
	var files []string
	_ = filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if len(files) == 0 {
		t.Skip("SKIP: nothing was compiled yet")
	}
	whole := must(os.ReadFile(files[0]))
	for _, x := range []struct {
		what   string
		damage func([]byte) []byte
	}{
		{"cut off", func(b []byte) []byte { return b[:len(b)/2] }},
		{"code flipped", func(b []byte) []byte { b[len(b)/2] ^= 0x55; return b }},
	} {
		must(0, os.WriteFile(files[0], x.damage(slices.Clone(whole)), 0o600))
		docs, skipped := load(t, LoadOptions{CacheDir: folder}, "testdata/tides.pdf")
		if len(docs) != 1 || len(skipped) != 0 || !strings.Contains(docs[0].Text, "four times a day") {
			t.Errorf("%s: %d documents, %v", x.what, len(docs), skipped)
		}
	}
}

// processor is the time that this process has had of the processors.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
