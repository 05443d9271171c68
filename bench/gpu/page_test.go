package gpu_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/bench/gpu"
)

// TestImport: a page has each stage's end and the reports of those that measured; a stand-in's says that it is one.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	var page strings.Builder
	if err := gpu.Import(&page, dir); !errors.Is(err, gpu.ErrOption) || page.Len() > 0 {
		t.Errorf("an empty folder: %v, %q", err, page.String())
	}
	for name, text := range map[string]string{
		"summary.txt": "machine: exit 0\npairs-exact: exit 0, 12 s\nbench-search: exit 124, 40 s\n" +
			"encoder: not run: a|b\n",
		"exact/report.md":    "# GPU and CPU\n\nof pairs\n\n## Notes\n\n- one\n",
		"bench-search/x.txt": "",
		"other/report.md":    "# of no stage\n",
	} {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := gpu.Import(&page, dir); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, says := range []string{"Results of one run.", "| bench-search | exit 124, 40 s |",
		`| encoder | not run: a\|b |`, "## pairs-exact\n\nof pairs\n\n### Notes\n"} {
		if !strings.Contains(text, says) {
			t.Errorf("%q is not in:\n%s", says, text)
		}
	}
	if strings.Contains(text, "of no stage") || strings.Contains(text, "Stand-in") {
		t.Error(text)
	}
	if err := os.WriteFile(filepath.Join(dir, "STAND-IN"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	page.Reset()
	if err := gpu.Import(&page, dir); err != nil || !strings.Contains(page.String(), "not a GPU, no figure counts") {
		t.Errorf("%v, %s", err, page.String())
	}
}
