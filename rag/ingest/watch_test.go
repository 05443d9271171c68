package ingest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// isAfter waits for a value of a channel.
func isAfter(t *testing.T, rounds <-chan int, what string) int {
	t.Helper()
	select {
	case n := <-rounds:
		return n
	case <-time.After(20 * time.Second):
		t.Fatalf("no sync after: %s", what)
		return 0
	}
}

// TestWatchSyncsAfterChanges: files, folders and the contents of new folders are watched, a burst of events causes one
// sync, and an event that changes no document causes none.
func TestWatchSyncsAfterChanges(t *testing.T) {
	dir := t.TempDir()
	rounds := make(chan int, 100)
	n := 0
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Watch(ctx, []string{dir}, corpus.FileOptions{}, WatchOptions{Settle: 50 * time.Millisecond,
			Every: time.Hour}, func(context.Context) error {
			n++
			rounds <- n
			return nil
		})
	}()
	isAfter(t, rounds, "the beginning")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		write(string('a'+rune(i)) + ".md")
	}
	if got := isAfter(t, rounds, "twenty files"); got != 2 {
		t.Errorf("sync %d", got)
	}
	for _, change := range []struct {
		what string
		make func() error
	}{
		{"a new folder", func() error { return os.MkdirAll(filepath.Join(dir, "sub", "deep"), 0o755) }},
		{"a file in it", func() error { write("sub/deep/a.md"); return nil }},
		{"a file renamed", func() error {
			return os.Rename(filepath.Join(dir, "a.md"), filepath.Join(dir, "sub", "b.md"))
		}},
		{"a file removed", func() error { return os.Remove(filepath.Join(dir, "b.md")) }},
		{"an ignore file", func() error { write(".sluiceignore"); return nil }},
	} {
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		isAfter(t, rounds, change.what)
	}
	time.Sleep(300 * time.Millisecond)
	for len(rounds) > 0 { // a change may have been seen in two pieces
		<-rounds
	}
	write(".hidden")
	write("a.md~")
	if err := os.Chmod(filepath.Join(dir, "c.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case <-rounds:
		t.Error("a sync after nothing that is of a document")
	case <-time.After(300 * time.Millisecond):
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Where changes cannot be told, folders are looked through at intervals, and that is said once.
func TestWatchWithoutEvents(t *testing.T) {
	said := 0
	w := &watch{paths: []string{t.TempDir()}, o: WatchOptions{Every: 10 * time.Millisecond,
		OnBlind: func(error) { said++ }}.withDefaults()}
	w.isBlind(fsnotify.ErrClosed)
	w.isBlind(fsnotify.ErrClosed)
	enough := errors.New("enough")
	n := 0
	err := w.run(t.Context(), func(context.Context) error {
		if n++; n == 4 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || said != 1 {
		t.Errorf("%v, said %d times", err, said)
	}
	w = &watch{o: WatchOptions{}.withDefaults()}
	if w.isBlind(fsnotify.ErrClosed); w.o.Every != DefaultBlind {
		t.Errorf("every %v", w.o.Every)
	}
}
