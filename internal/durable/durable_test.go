package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	put := func(text string, err error) error {
		return Replace(name, func(w io.Writer) error {
			_, wErr := io.WriteString(w, text)
			return errors.Join(wErr, err)
		})
	}
	if err := put("first", nil); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("half of it")
	if err := put("second", failed); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if entries, _ := os.ReadDir(dir); err != nil || string(b) != "first" || len(entries) != 1 {
		t.Fatalf("%q, %d files, %v", b, len(entries), err)
	}
	if err := Replace(filepath.Join(dir, "none", "x"), func(io.Writer) error { return nil }); !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func TestMkdirAll(t *testing.T) {
	root := t.TempDir()
	var synced []string
	sync := func(dir string) error { synced = append(synced, dir); return nil }
	dir := filepath.Join(root, "a", "b")
	for range 2 { // the second time there is nothing to do
		if err := MkdirAllWith(dir, sync); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{root, filepath.Join(root, "a")}; !slices.Equal(synced, want) {
		t.Errorf("synced %v, want %v", synced, want)
	}
	file := filepath.Join(root, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), MkdirAll(filepath.Join(root, "c"))); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(filepath.Join(file, "d")); err == nil {
		t.Error("a folder within a file")
	}
}
