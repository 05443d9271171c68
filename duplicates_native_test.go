//go:build native

package sluice_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// TestDuplicatesFigures measures the search for duplicates among 100,000 chunks of 40 words: one in a hundred repeats
// another one, and one in a hundred does with one word changed. The encoder is a double of 256 dimensions.
func TestDuplicatesFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: minutes; go test . -run DuplicatesFigures -figures -v prints the figures")
	}
	const chunks, words, vocabulary = 100_000, 40, 20_000
	dir := t.TempDir()
	path := filepath.Join(dir, "texts.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(35, 1))
	letters := func(n int) string { // a word of letters, because the double reads only these
		b := []byte("aaaa")
		for i := range b {
			b[i] += byte(n % 26)
			n /= 26
		}
		return string(b)
	}
	lines, copies := json.NewEncoder(f), 0
	var text []string
	for i := range chunks {
		switch {
		case i > 0 && i%100 == 0: // a copy of the chunk before
			copies++
		case i > 0 && i%100 == 50: // a copy with one word changed
			text[words/2] = letters(r.IntN(vocabulary))
			copies++
		default:
			text = text[:0]
			for range words {
				text = append(text, letters(int(float64(vocabulary)*r.Float64()*r.Float64()*r.Float64())))
			}
		}
		if err := lines.Encode(map[string]string{"id": fmt.Sprint(i), "text": strings.Join(text, " ")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"), Embedder: doubles.NewEncoder(),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wall, processor := spent(t, func() error {
		_, err := s.Ingest(t.Context(), []string{path}, ingest.Options{NoChunk: true})
		return err
	})
	t.Logf("ingest: %v, %v of processor time, peak %s", wall, processor, peakMemory(t))
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // reset the peak, if the system can
	var groups []knowledge.DuplicateGroup
	wall, processor = spent(t, func() error {
		groups, err = s.Documents().Duplicates(t.Context(), knowledge.DuplicateOptions{})
		return err
	})
	more := 0
	for _, g := range groups {
		more += len(g.Chunks) - 1
	}
	t.Logf("duplicates: %d of %d found: %v, %v of processor time, peak %s", more, copies, wall.Round(time.Millisecond),
		processor.Round(time.Millisecond), peakMemory(t))
	if more < copies*99/100 || more > copies*101/100 {
		t.Errorf("%d chunks repeat others, %d were made", more, copies)
	}
}

// peakMemory returns the process's largest resident set.
func peakMemory(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "VmHWM" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
