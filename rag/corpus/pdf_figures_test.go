package corpus

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPDFFigures prints what reading a PDF file takes of the processor, with and without the reader's compilation: the
// figures of ADR 45. SLUICE_PDF names the file; testdata/pages.py makes one of 500 pages.
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

// processor is the time that this process has had of the processors.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
