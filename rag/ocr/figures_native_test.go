//go:build native

package ocr_test

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ocr"
	"github.com/sluice-rag/sluice/rag/ocr/ocrtest"
)

var figures = flag.Int("figures", 0, "pages of each kind that are drawn and read beside tesseract, for docs/documents.md")

var kinds = flag.String("kinds", "", "regular expression of the kinds of pages for -figures")

// open opens the models of the manifest, or skips the test.
func open(t *testing.T) *ocr.Reader {
	t.Helper()
	dir, err := models.Locate("ocr")
	if err != nil {
		t.Skipf("SKIP: %v (the set-up's part ocr brings them)", err)
	}
	r, err := ocr.Open(dir, ocr.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// reader makes a corpus.PictureReader of a Reader.
type reader struct{ *ocr.Reader }

func (reader) Name() string { return "test" }

// plainTexts returns the texts of a data set that have only characters of Latin alphabets.
func plainTexts(t *testing.T, file string) (texts []string) {
	for _, c := range datasets.Lines(t, file) {
		if strings.IndexFunc(c.Text, func(r rune) bool { return r > 'ſ' && !strings.ContainsRune("–—’“”„€", r) }) < 0 {
			texts = append(texts, c.Text)
		}
	}
	return texts
}

// wholeText returns a document's text with its headings.
func wholeText(d *corpus.Document) string {
	var b strings.Builder
	for _, s := range d.Sections {
		if len(s.Heading) > 0 {
			b.WriteString(s.Heading[len(s.Heading)-1] + "\n")
		}
		b.WriteString(d.Text[s.Start:s.End] + "\n")
	}
	return b.String()
}

// TestBesideTesseract reads pages of all kinds with the models and with tesseract, on one core each, and prints the
// character error rates and the processor's time.
func TestBesideTesseract(t *testing.T) {
	if *figures == 0 {
		t.Skip("SKIP: half an hour; go test ./rag/ocr -run BesideTesseract -figures 9 -v -timeout 2h prints the figures")
	}
	if _, err := exec.LookPath("tesseract"); err != nil {
		t.Skip("SKIP: tesseract is not installed")
	}
	r := reader{open(t)}
	english, german := plainTexts(t, "squad16/contexts.jsonl"), plainTexts(t, "xquad-de/contexts.jsonl")
	dir := t.TempDir()
	only := regexp.MustCompile(*kinds)
	for i, kind := range append(ocrtest.Kinds(), "German") {
		if !only.MatchString(string(kind)) {
			continue
		}
		texts, language, draw := english, "eng", kind
		if kind == "German" {
			texts, language, draw = german, "deu", ocrtest.Clean
		}
		var wrong, seconds [2]float64
		for n := range *figures {
			k := (n*37 + i*53) % (len(texts) - 2)
			page, err := ocrtest.Draw(draw, texts[k:k+2], uint64(n))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := png.Encode(&b, page.Image); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "page.png")
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			began := cpu(t)
			for d, err := range corpus.Load(t.Context(), []string{path}, corpus.LoadOptions{Pictures: r}) {
				if err != nil {
					t.Fatal(err)
				}
				e := ocrtest.Errors(page.Text, wholeText(d))
				if wrong[0] += e; e > .01 {
					t.Logf("%s %d: %.2f %%: %s", kind, n, 100*e, wholeText(d))
				}
			}
			seconds[0] += (cpu(t) - began).Seconds()
			c := exec.CommandContext(t.Context(), "tesseract", path, "-", "-l", language)
			c.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1")
			out, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			wrong[1] += ocrtest.Errors(page.Text, string(out))
			seconds[1] += (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
		}
		row := fmt.Sprintf("| %s |", kind)
		for _, list := range [][2]float64{wrong, seconds} {
			for _, x := range list {
				row += fmt.Sprintf(" %.4f |", x/float64(*figures))
			}
		}
		t.Log(row)
	}
}

func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
