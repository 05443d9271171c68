//go:build cgo && (amd64 || arm64)

package cpu_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// family has the fields of go list for a package with C files or headers.
type family struct {
	ImportPath, Dir                                        string
	CFiles, HFiles, IgnoredOtherFiles, EmbedFiles, Imports []string
	CgoCFLAGS                                              []string
}

// TestEveryHeaderIsSeen: go build hashes the C files and headers in a package's own folder, its embedded files and its
// imports. So every C file and header must be among these for all packages that include it.
func TestEveryHeaderIsSeen(t *testing.T) {
	out, err := exec.Command("go", "list", "-json", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	const slc = "github.com/sluice-rag/sluice/kernels/cpu/slc"
	shared := map[string]bool{}
	var families []family
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var f family
		if err := d.Decode(&f); err != nil {
			t.Fatal(err)
		}
		if f.ImportPath == slc {
			for _, name := range f.EmbedFiles {
				shared[name] = true
			}
		} else if len(f.CFiles) > 0 {
			families = append(families, f)
		}
	}
	if len(families) < 8 || len(shared) < 5 {
		t.Fatalf("%d packages in C, %d shared headers", len(families), len(shared))
	}
	include := regexp.MustCompile(`(?m)^\s*#\s*include\s+"([^"]+)"`)
	headers := func(file string) (names []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range include.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		return names
	}
	for name := range shared {
		for _, h := range headers(filepath.Join("slc", name)) {
			if !shared[h] {
				t.Errorf("slc/%s includes %s, which slc does not embed", name, h)
			}
		}
	}
	for _, f := range families {
		own := slices.Concat(f.CFiles, f.HFiles, f.IgnoredOtherFiles)
		files, err := filepath.Glob(filepath.Join(f.Dir, "*.[cgh]*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := filepath.Base(file)
			if filepath.Ext(name) != ".go" && !slices.Contains(own, name) {
				t.Errorf("%s: go does not know %s", f.ImportPath, name)
			}
			for _, h := range headers(file) {
				if !slices.Contains(own, h) && !(shared[h] && slices.Contains(f.Imports, slc)) {
					t.Errorf("%s: %s includes %s, an edit of which would compile nothing", f.ImportPath, name, h)
				}
			}
		}
		if !slices.Contains(f.CgoCFLAGS, "-std=c11") { // slc.go gives the reason
			t.Errorf("%s is compiled with %v", f.ImportPath, f.CgoCFLAGS)
		}
	}
}

// TestEditsRebuild: editing a C file, a header beside it, or a shared header recompiles a family's C; editing another
// family does not.
func TestEditsRebuild(t *testing.T) {
	const built = "transpose" // the smallest package
	build := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("go", slices.Concat([]string{"build", "-x"}, args, []string{"./" + built})...).
			CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	compiles := func(log string) bool { return strings.Contains(log, "transpose_scalar.c") }
	build()
	if compiles(build()) {
		t.Fatal("compiled again without an edit")
	}
	for file, want := range map[string]bool{"transpose/transpose_scalar.c": true, "transpose/transpose.h": true,
		"slc/fail.h": true, "bitsets/bits.h": false} {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir() // a unique path, so that no earlier run has compiled the same
		edited, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
		replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: edited}})
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{edited: append(text, "// "+dir+"\n"...), overlay: replace} {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := compiles(build("-overlay", overlay)); got != want {
			t.Errorf("an edit of %s compiles transpose again: %v", file, got)
		}
	}
}
