package corpus

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSlowFiles: a file that takes too long is skipped with that reason, and the walk goes on.
func TestSlowFiles(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("<p>Words &amp; more words.</p>\n", 30<<10)
	for _, name := range []string{"a.html", "a.md", "a.txt"} {
		text := long
		if name == "a.txt" { // which is read at once unless it is decoded
			text = strings.Repeat("Gr\xfc\xdfe und W\xf6rter. ", 50_000)
		}
		write(t, dir, name, text)
	}
	write(t, dir, "b.jsonl", `{"text":"`+strings.Repeat(`W\u00f6rter `, 70_000)+`"}`)
	write(t, dir, "c.txt", "Words.")
	var skips []Skipped
	read, slow := 0, 0
	for _, err := range Load(t.Context(), []string{dir}, LoadOptions{FileOptions: FileOptions{MaxSeconds: 1e-5},
		OnSkip: func(s Skipped) { skips = append(skips, s) }}) {
		if err == nil {
			read++
		}
	}
	for _, s := range skips {
		if errors.Is(s.Err, ErrTime) {
			slow++
		} else {
			t.Errorf("skipped %v", s)
		}
	}
	if slow < 4 || slow+read != 5 { // the few words may take as long
		t.Errorf("%d files were too slow, %d read", slow, read)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range Load(ctx, []string{dir}, LoadOptions{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

// TestBadFiles: files of 2 GB, empty ones, one line of 10 MB, files that vanish, shrink or become a pipe.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	huge := write(t, dir, "huge.txt", "")
	if err := os.Truncate(huge, 2<<30); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "empty.md", "")
	write(t, dir, "line.txt", strings.Repeat("word and more words ", 10<<20/20))
	write(t, dir, "nuls.txt", strings.Repeat("\x00", 1<<20))
	write(t, dir, "vanishes.txt", "Words.")
	write(t, dir, "shrinks.txt", strings.Repeat("Words. ", 1000))
	write(t, dir, "grows.txt", "Words.")
	files, err := List(t.Context(), []string{dir}, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := os.Remove(filepath.Join(dir, "vanishes.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "shrinks.txt", "Short.")
	write(t, dir, "grows.txt", strings.Repeat("Longer words. ", 1000))
	var skips []Skipped
	read := map[string]int{}
	began := time.Now()
	for d, err := range LoadFiles(t.Context(), values(files),
		LoadOptions{OnSkip: func(s Skipped) { skips = append(skips, s) }}) {
		if err != nil {
			t.Fatal(err)
		}
		read[filepath.Base(d.Path)] = len(d.Text)
	}
	runtime.ReadMemStats(&after)
	if read["line.txt"] < 10<<20-20 || read["shrinks.txt"] != len("Short.") || read["grows.txt"] < 10_000 ||
		len(read) != 3 {
		t.Errorf("read %v", read)
	}
	checkSkips(t, dir, skips, map[string]error{"huge.txt": ErrTooLarge, "empty.md": ErrNoWords, "nuls.txt": ErrFormat,
		"vanishes.txt": fs.ErrNotExist})
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 512<<20 || time.Since(began) > time.Minute {
		t.Errorf("%d MiB in %v", grown>>20, time.Since(began))
	}
}

func values(files []File) iter.Seq[File] {
	return func(yield func(File) bool) {
		for _, f := range files {
			if !yield(f) {
				return
			}
		}
	}
}
