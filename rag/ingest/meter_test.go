package ingest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus"
)

func TestMeterCountsBytesOfFilesAndLines(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.txt")
	for path, size := range map[string]int{a: 100, b: 50} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := corpus.List(t.Context(), []string{dir, filepath.Join(dir, "gone")}, corpus.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMeter([]reading{{file: files[0]}, {file: files[1]}})
	var got []int64
	for _, c := range []struct {
		source string
		end    int
	}{{a + ":1", 30}, {a + ":2", 100}, {b, 20}, {b, 50}, {b, 1000}} {
		got = append(got, m.position(c.source, c.end))
	}
	if diff := cmp.Diff([]int64{30, 100, 120, 150, 150}, got); diff != "" || m.total != 150 {
		t.Errorf("%s, total %d", diff, m.total)
	}
}
