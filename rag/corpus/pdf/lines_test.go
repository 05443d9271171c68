package pdf

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// TestWordsOfALineAreLinear: words without spaces between them are put together. Steps are bytes allocated.
func TestWordsOfALineAreLinear(t *testing.T) {
	doubling.Linear(t, doubling.Repeat("word"), func(text string) int {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var lines pdfLines
		for i := range len(text) / 4 {
			lines.add(pdfWord{text: text[4*i : 4*i+4], box: box{top: 1}})
		}
		lines.end()
		if len(lines) != 1 || lines[0].text != text {
			t.Errorf("%d lines", len(lines))
		}
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc)
	})
}

// TestPDFLinesAreLinear: words, rows, hyphens and entries of contents in any number. Steps are allocations.
func TestPDFLinesAreLinear(t *testing.T) {
	for what, words := range map[string][]string{
		"cells":    {"1"},
		"rows":     {"1", "2", "\n"},
		"hyphens":  {"well\ufffe", "\n", "known\ufffe", "\n"},
		"contents": {"Contents", "\n", "a", "...", "3", "\n"},
		"entries":  {"b", "4", "\n"},
		"scripts":  {"H", "^2", "O"},
	} {
		t.Log(what)
		doubling.Linear(t, doubling.Repeat("word"), func(text string) int {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var lines pdfLines
			x, y, begins := 0.0, 0.0, true
			for i := range len(text) {
				word := words[i%len(words)]
				if word == "\n" {
					x, y, begins = 0, y-12, true
					continue
				}
				size := 10.0
				if strings.HasPrefix(word, "^") {
					size, begins = 6, true
				}
				lines.add(pdfWord{box: box{x, x + 5, y, y + size}, text: word, size: size, begins: begins})
				x, begins = x+20, false
			}
			lines.fill([]pdfWord{{box: box{1, 2, 0, 10}, text: checked}})
			lines.end()
			writePDF(&doc.Document{}, [][]pdfLine{lines, lines, lines}, nil, nil)
			runtime.ReadMemStats(&after)
			if len(lines) == 0 {
				t.Errorf("%s: no lines", what)
			}
			return int(after.Mallocs - before.Mallocs)
		})
	}
}

// TestSlowPDF: a file that takes too long is given up, a context that ends ends the reading, and other files are read.
func TestSlowPDF(t *testing.T) {
	good, err := os.ReadFile("../testdata/tides.pdf")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	r.time = time.Nanosecond
	none := &Pictures{Pulse: &doc.Pulse{Ctx: t.Context()}}
	if err := r.Parse(&doc.Document{}, string(good), none); !errors.Is(err, doc.ErrFormat) ||
		!strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
	r.time = time.Minute
	var d doc.Document
	err = r.Parse(&d, string(good), none)
	if err != nil || !strings.Contains(d.Text, "harbourmaster") || !slices.Equal(d.Empty, []int{5}) {
		t.Errorf("%v, %v, %q", err, d.Empty, d.Text)
	}
}
