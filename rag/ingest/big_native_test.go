//go:build native

package ingest_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// TestSplitBigParagraph cuts one line of SLUICE_TEST_BIG_MB megabytes (2 when not given) with the default encoder's
// tokenizer, first a tenth of it and then all: time and memory are linear.
func TestSplitBigParagraph(t *testing.T) {
	dir, err := models.Locate("all-MiniLM-L6-v2")
	if err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	size := 2
	if s := os.Getenv("SLUICE_TEST_BIG_MB"); s != "" {
		if size, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	enc, err := embed.Open(t.Context(), dir, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	const words = "the pump opens its second valve when pressure falls below three bars "
	cut := func(bytes int) (took time.Duration, peak uint64) {
		d := &corpus.Document{ID: "d", Text: strings.Repeat(words, bytes/len(words))}
		o := corpus.ChunkOptions{Size: 256, Overlap: 2, Count: enc.CountTokens}
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		started, n, covered := time.Now(), 0, 0
		for c, err := range corpus.Chunks(t.Context(), d, o) {
			if err != nil {
				t.Fatal(err)
			}
			n, covered = n+1, c.End
			if n%1000 == 0 {
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapInuse-min(before.HeapInuse, now.HeapInuse))
			}
		}
		if covered < len(d.Text)-2 {
			t.Errorf("the last of %d chunks ends at %d of %d bytes", n, covered, len(d.Text))
		}
		took = time.Since(started)
		t.Logf("%d bytes: %d chunks in %v, %d bytes of heap beside the text", len(d.Text), n, took, peak)
		return took, peak
	}
	part, _ := cut(size * 100_000)
	whole, peak := cut(size * 1_000_000)
	if whole > 25*part+2*time.Second || peak > uint64(size)*2_000_000+64<<20 {
		t.Errorf("a tenth in %v, all in %v and %d bytes", part, whole, peak)
	}
}
