package corpus

import (
	"archive/zip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// peakHeap returns the growth of the heap at its peak while fn runs.
func peakHeap(fn func()) (bytes uint64) {
	runtime.GC()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before, stop := heap(), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			if now := heap(); now > before {
				bytes = max(bytes, now-before)
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	fn()
	close(stop)
	all.Wait()
	return bytes
}

// bomb is an office document of parts that repeat a text, written by one name after the other: of a size, unpacked.
// What is not packed comes beside it, so that a byte of the file stands for so many bytes at most.
func bomb(t *testing.T, path string, size, ratio int, parts ...[4]string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	write := func(name, begin, again, end string, times int) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, begin)
		}
		many := strings.Repeat(again, 1+(1<<20)/(len(again)+1))
		for left := times * len(again); left > 0 && err == nil; left -= len(many) {
			_, err = io.WriteString(w, many[:min(left, len(many))])
		}
		if err == nil {
			_, err = io.WriteString(w, end)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range parts {
		write(p[0], p[1], p[2], p[3], size/(len(p[2])+1))
	}
	if ratio > 0 {
		random := make([]byte, size/ratio)
		r := rand.NewPCG(1, 2)
		for i := range random {
			random[i] = byte(r.Uint64())
		}
		write("media/noise.png", string(random), "", "", 0)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBombs: a small office document that unpacks to much, or repeats a text without end, is refused, and its memory
// stays below a limit. (633 kB of headings can take 3.4 GB.)
func TestBombs(t *testing.T) {
	const begin, end = `<w:document xmlns:w="x"><w:body>`, `</w:body></w:document>`
	word := func(again string) [][4]string { return [][4]string{{"word/document.xml", begin, again, end}} }
	book := func(again string) [][4]string {
		return [][4]string{
			{"xl/workbook.xml", `<workbook xmlns:r="r"><sheets><sheet name="a" r:id="1"/></sheets>`, "", `</workbook>`},
			{"xl/_rels/workbook.xml.rels", `<r><Relationship Id="1" Target="a.xml"/>`, "", `</r>`},
			{"xl/sharedStrings.xml", `<sst><si><t>` + strings.Repeat("word ", 1<<15) + `</t></si>`, "", `</sst>`},
			{"xl/a.xml", `<sheetData>`, again, `</sheetData>`}}
	}
	for name, c := range map[string]struct {
		file        string
		size, ratio int
		parts       [][4]string
	}{
		"packed beyond reason":   {"a.docx", 40 << 20, 0, word(`<w:p><w:t>word and more</w:t></w:p>`)},
		"headings":               {"b.docx", 48 << 20, 50, word(`<w:p><w:pStyle w:val="Heading1"/><w:t>w</w:t></w:p>`)},
		"a long word":            {"d.docx", 24 << 20, 50, word(`w`)},
		"a long paragraph":       {"e.docx", 40 << 20, 50, word(`<w:t>more words</w:t>`)},
		"a text in many cells":   {"f.xlsx", 1 << 20, 0, book(`<row><c t="s"><v>0</v></c></row>`)},
		"cells far to the right": {"g.xlsx", 4 << 20, 0, book(`<row><c r="XFD1"><v>0</v></c></row>`)},
		"slide": {"h.pptx", 48 << 20, 50, [][4]string{
			{"ppt/presentation.xml", `<p xmlns:r="r"><sldId r:id="1"/>`, "", `</p>`},
			{"ppt/_rels/presentation.xml.rels", `<r><Relationship Id="1" Target="s.xml"/>`, "", `</r>`},
			{"ppt/s.xml", `<s>`, `<p><t>w</t></p>`, `</s>`}}},
		"spaces": {"i.odt", 16 << 20, 50, [][4]string{
			{"content.xml", `<text:p>`, `<text:s text:c="100"/>`, `</text:p>`}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			bomb(t, path, c.size, c.ratio, c.parts...)
			var why []error
			documents := 0
			peak := peakHeap(func() {
				o := LoadOptions{OnSkip: func(s Skipped) { why = append(why, s.Err) }}
				for _, err := range Load(t.Context(), []string{path}, o) {
					if err == nil {
						documents++
					}
				}
			})
			if documents != 0 || len(why) != 1 || !errors.Is(why[0], ErrTooLarge) {
				t.Errorf("%d documents, %v", documents, why)
			}
			if peak > 512<<20 {
				t.Errorf("%d MiB", peak>>20)
			}
		})
	}
}
