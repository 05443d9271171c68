package dist

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCollectTakesAllLicenceFiles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"LICENSE", "LICENCE.txt", "LICENSE-MIT", "UNLICENSE", "COPYING.LESSER", "NOTICE",
		"ThirdPartyNotices.txt", "licenses/ofl.txt", "sub/LICENSE", "license.go", "notices_of_mine.c", "licensed/x"} {
		write(t, filepath.Join(from, name), name, 0o644)
	}
	if err := collect(to, from, from); err != nil {
		t.Fatal(err)
	}
	have, err := files(to)
	want := []string{"COPYING.LESSER", "LICENCE.txt", "LICENSE", "LICENSE-MIT", "NOTICE", "ThirdPartyNotices.txt",
		"UNLICENSE", "licenses/ofl.txt"}
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("%v %v", have, err)
	}
	if err := collect(t.TempDir(), from, filepath.Join(from, "licensed")); !errors.Is(err, ErrNoLicence) {
		t.Errorf("a folder without one: %v", err)
	}
}

func TestCrateWithoutALicenceIsAnError(t *testing.T) {
	from := t.TempDir()
	c := crate{Name: "x", Version: "1.0.0", License: "MIT", Authors: []string{"A. Uthor"},
		Manifest: filepath.Join(from, "Cargo.toml")}
	write(t, c.Manifest, "", 0o644)
	if err := crateLicence(c, t.TempDir()); !errors.Is(err, ErrNoLicence) ||
		!strings.Contains(err.Error(), "A. Uthor") {
		t.Errorf("no file: %v", err)
	}
	write(t, filepath.Join(from, "c", "COPYING"), "of the C sources", 0o644)
	to := t.TempDir()
	if err := crateLicence(c, to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "c", "COPYING")); err != nil {
		t.Error(err)
	}
}

func TestLlamaArchiveWithoutALicenceIsAnError(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "a.tar.gz")
	pack := func(names ...string) {
		t.Helper()
		f, err := os.Create(archive)
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(f)
		w := tar.NewWriter(z)
		for _, name := range names {
			text := "// Copyright A. Uthor\n//\n// Free.\n\nint x;\n"
			err = errors.Join(err,
				w.WriteHeader(&tar.Header{Name: "tree/" + name, Size: int64(len(text)), Mode: 0o644}))
			_, e := w.Write([]byte(text))
			err = errors.Join(err, e)
		}
		if err = errors.Join(err, w.Close(), z.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"AUTHORS", "LICENSE", "ggml/src/ggml-cpu/llamafile/sgemm.cpp", "licenses/LICENSE-jsonhpp"}
	pack(all...)
	to := t.TempDir()
	if err := llamaLicences(archive, "tree", to); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(to, "NOTICE-llamafile"))
	if err != nil || string(text) != "Copyright A. Uthor\n\nFree.\n" {
		t.Errorf("%q %v", text, err)
	}
	pack(all[:3]...)
	err = llamaLicences(archive, "tree", t.TempDir())
	if !errors.Is(err, ErrNoLicence) || !strings.Contains(err.Error(), "LICENSE-jsonhpp") {
		t.Errorf("one is missing: %v", err)
	}
}

// The program's modules have their licences where Go downloaded them.
func TestGoLicences(t *testing.T) {
	to := t.TempDir()
	if err := goLicences(t.Context(), "../..", to); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"go/LICENSE", "modernc.org/sqlite@*/LICENSE*", "github.com/spf13/cobra@*/LICENSE*",
		"github.com/golang/freetype@*/licenses/ftl.txt"} {
		if found, err := filepath.Glob(filepath.Join(to, pattern)); err != nil || len(found) == 0 {
			t.Errorf("%s: nothing, %v", pattern, err)
		}
	}
}
