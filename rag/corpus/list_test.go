package corpus

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What List finds and LoadFiles reads is what Load reads, in the same order, with the same ids.
func TestListAndLoadFilesAreLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.md": "About herrings.", "sub/b.txt": "About tides.",
		"lines.jsonl": `{"id":"1","text":"A line."}` + "\n" + `{"id":"1","text":"Again."}`, "odd.bin": "x",
		".hidden/c.md": "About nothing.", "empty.md": " "} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600),
			os.MkdirAll(filepath.Join(dir, "unreadable"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub/b.txt", filepath.Join(dir, "z.txt")); err != nil { // the same file by another way
		t.Fatal(err)
	}
	read := func(docs func(func(*Document, error) bool)) (list []string) {
		for d, err := range docs {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, strings.Join([]string{d.ID, d.Source, d.Path, d.Folder, d.Text, d.Digest}, "|"))
		}
		return list
	}
	var skipped, again []string
	paths := []string{filepath.Join(dir, "sub", "b.txt"), dir}
	want := read(Load(t.Context(), paths, LoadOptions{OnSkip: func(s Skipped) { skipped = append(skipped, s.Source) }}))
	o := LoadOptions{OnSkip: func(s Skipped) { again = append(again, s.Source) }}
	files, err := List(t.Context(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	got := read(LoadFiles(t.Context(), slices.Values(files), o))
	slices.Sort(skipped)
	slices.Sort(again)
	if !slices.Equal(want, got) || !slices.Equal(skipped, again) || len(want) != 3 {
		t.Errorf("%q\n%q\nskipped %q\n%q", want, got, skipped, again)
	}
	if !files[0].Given || files[0].Via() != files[0].Real || files[1].Name != "a.md" {
		t.Errorf("%+v", files[:2])
	}
	again = nil
	twice := append(files[2:4:4], files[2:4]...) // a file that is read again has no line that was seen before
	if got := read(LoadFiles(t.Context(), slices.Values(twice), o)); len(got) != 2 {
		t.Errorf("%q, skipped %q", got, again)
	}
}
