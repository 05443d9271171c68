//go:build native

package sluice_test

import (
	"errors"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/ocr/ocrtest"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// scanned writes a PDF file whose pages are pictures, each of another kind of paper.
func scanned(t *testing.T, path string, seed int, pages ...string) {
	t.Helper()
	kinds := []ocrtest.Kind{ocrtest.Clean, ocrtest.Turned, ocrtest.Noisy, ocrtest.Coarse}
	var pictures []image.Image
	for i, text := range pages {
		p, err := ocrtest.Draw(kinds[(seed+i)%len(kinds)], strings.Split(text, "\n\n"), uint64(seed))
		if err != nil {
			t.Fatal(err)
		}
		pictures = append(pictures, p.Image)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ocrtest.WritePDF(f, pictures...), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// firstPages ingests a folder of scanned files and returns the document and page that each question finds first.
func firstPages(t *testing.T, folder string, questions []string) (places []string) {
	t.Helper()
	if _, err := models.Locate("ocr"); err != nil {
		t.Skipf("SKIP: %v (the set-up's part ocr brings them)", err)
	}
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := ingest.DefaultOptions()
	o.OnSkip = func(k corpus.Skipped) { t.Errorf("skipped %s: %v", k.Source, k.Err) }
	r, err := s.Ingest(t.Context(), []string{folder}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d documents in %.0f s", r.Documents, r.Seconds)
	found, err := s.Retrieve(t.Context(), questions, retrieve.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		c := f.Passages[0].Chunk
		page, sure, ok := strings.Cut(c.Anchor, "&ocr=")
		if n, err := strconv.Atoi(sure); !ok || err != nil || n < 50 || n > 100 {
			t.Errorf("the anchor %q does not say how sure the text is", c.Anchor)
		}
		places = append(places, filepath.Base(c.Document)+"#"+page)
	}
	return places
}

// TestScannedPDF: questions find the pages of scanned files.
func TestScannedPDF(t *testing.T) {
	dir := t.TempDir()
	scanned(t, filepath.Join(dir, "lock.pdf"), 0,
		"The lock of Emden was built in 1888 and rebuilt in 1913. Ships of up to 260 metres pass it at any tide.",
		"Eels are caught with fyke nets from April to October. A licence for them costs 45 euros and is sold at the "+
			"harbour office.")
	places := firstPages(t, dir, []string{"When was the lock built?", "What does a licence for eels cost?"})
	if want := []string{"lock.pdf#page=1", "lock.pdf#page=2"}; fmt.Sprint(places) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", places, want)
	}
}

// TestScannedFigures asks 30 questions about 30 scanned files, a third of which have two pages.
func TestScannedFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: minutes; go test . -run ScannedFigures -figures -v prints the figures")
	}
	texts := map[string]string{}
	var order []string
	for _, c := range datasets.Lines(t, "squad16/contexts.jsonl") {
		if strings.IndexFunc(c.Text, func(r rune) bool { return r > 'ſ' }) < 0 {
			texts[c.ID] = c.Text
			order = append(order, c.ID)
		}
	}
	dir := t.TempDir()
	var questions, want []string
	used := map[string]bool{}
	for i, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		if i%83 != 5 || !q.Answerable || texts[q.ContextID] == "" || used[q.ContextID] || len(questions) == 30 {
			continue
		}
		used[q.ContextID] = true
		n := len(questions)
		pages, page := []string{texts[q.ContextID]}, 1
		if n%3 == 0 {
			pages, page = []string{texts[order[(17*n+3)%len(order)]], texts[q.ContextID]}, 2
		}
		name := fmt.Sprintf("scan-%02d.pdf", n)
		scanned(t, filepath.Join(dir, name), n, pages...)
		questions = append(questions, q.Text)
		want = append(want, fmt.Sprintf("%s#page=%d", name, page))
	}
	right := 0
	for i, place := range firstPages(t, dir, questions) {
		if place == want[i] {
			right++
		} else {
			t.Logf("%q: %s, want %s", questions[i], place, want[i])
		}
	}
	t.Logf("the right page first for %d of %d questions", right, len(questions))
	if right < 27 || len(questions) != 30 {
		t.Errorf("the right page first for %d of %d questions", right, len(questions))
	}
}
