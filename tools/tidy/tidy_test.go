// Package tidy checks what a reviewer should not have to: which package may import which, how long files, functions and
// lines are, that nothing unfinished or machine-specific is committed, and that links in the documentation lead
// somewhere.
package tidy

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/sluice-rag/sluice"

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// skippedDir reports whether a folder has none of this project's files, but those that set-up assembles, builds and
// stores.
func skippedDir(p, name string) bool {
	if name == ".git" || name == "bin" || name == ".sluice" || name == "testdata" && strings.Contains(p, "fuzz") {
		return true
	}
	assembled := name == "lib" || name == "include" || name == "python"
	return strings.HasPrefix(p, "third_party/") && assembled || p == "build/out" || p == "dist"
}

// walk visits every file of the repository by its path with slashes.
func walk(t *testing.T, visit func(file string)) {
	t.Helper()
	base := root(t)
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && skippedDir(rel, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			visit(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// isGo and isC recognise source files by their names. Go code in testdata is input of tests.
func isGo(file string) bool { return path.Ext(file) == ".go" && !strings.Contains(file, "testdata/") }

func isC(file string) bool {
	switch path.Ext(file) {
	case ".c", ".h", ".cpp", ".hpp", ".cu":
		return true
	}
	return false
}
