package embed

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindLibrary(t *testing.T) {
	dir := folder(t, map[string]string{"lib.so": "", "other/go.mod": "module example.com/other\n"})
	t.Setenv("SLUICE_ONNXRUNTIME", filepath.Join(dir, "lib.so"))
	if p, err := findLibrary("", ""); err != nil || p != filepath.Join(dir, "lib.so") {
		t.Errorf("%s, %v", p, err)
	}
	if _, err := findLibrary(filepath.Join(dir, "none.so"), ""); !errors.Is(err, ErrLibrary) ||
		!strings.Contains(err.Error(), "none.so") {
		t.Errorf("%v", err)
	}
	if got := buildTree(filepath.Join(dir, "other")); got != nil {
		t.Errorf("a stranger's module is a build tree: %v", got)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got := buildTree(here); len(got) != 1 || !strings.HasSuffix(got[0], filepath.Join("onnxruntime", "lib")) {
		t.Errorf("build tree %v", got)
	}
}

// What a search finds is loaded into this process: so it searches no folder that the user merely works in, and takes
// only the file that the set-up has assembled.
func TestLibraryIsVerified(t *testing.T) {
	const lib = "third_party/onnxruntime/lib/libonnxruntime.so.1"
	dir := folder(t, map[string]string{"go.mod": "module github.com/sluice-rag/sluice\n", lib: "planted",
		"cache/out/onnxruntime-1/lib/libonnxruntime.so.1": "another",
		"cache/out/onnxruntime-2/lib/libonnxruntime.so.1": "ours"})
	t.Setenv("SLUICE_ONNXRUNTIME", "")
	t.Setenv("SLUICE_CACHE", filepath.Join(dir, "cache"))
	t.Chdir(dir)
	digest := func(name string) string {
		sum, err := hashFile(t.Context(), filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	if p, err := findLibrary("", digest(lib)); err == nil || !errors.Is(err, ErrLibrary) {
		t.Errorf("from the working folder's tree: %s", p)
	}
	ours := "cache/out/onnxruntime-2/lib/libonnxruntime.so.1"
	if p, err := findLibrary("", digest(ours)); err != nil || p != filepath.Join(dir, ours) {
		t.Errorf("%s, %v", p, err)
	}
	for _, unknown := range []string{"sha256:00", ""} {
		p, err := findLibrary("", unknown)
		if !errors.Is(err, ErrLibrary) || unknown != "" && !strings.Contains(err.Error(), digest(ours)) {
			t.Errorf("of %q: %s, %v", unknown, p, err)
		}
	}
	if p, err := findLibrary(filepath.Join(dir, lib), digest(ours)); err != nil || p != filepath.Join(dir, lib) {
		t.Errorf("one that was given: %s, %v", p, err)
	}
	if err := os.Remove(filepath.Join(dir, ours)); err != nil {
		t.Fatal(err)
	}
}
