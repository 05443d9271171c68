package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// Of 1,000 files of which 10 have changed, those are read, and of them the chunks are embedded that are new. (What that
// takes beside a first ingest: TestSyncFigures.)
func TestSyncOfAThousandFiles(t *testing.T) {
	f := newFolder(t, nil)
	name := func(i int) string { return fmt.Sprintf("%d/%03d.md", i%7, i) }
	text := func(i int) string {
		code := strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprintf("%04d", i))
		return fmt.Sprintf("About %s.\n\n# One\n\n%s\n\n# Two\n\n%s", code,
			strings.Repeat(fmt.Sprintf("Ships of %s pass the harbour. ", code), 4),
			strings.Repeat(fmt.Sprintf("Lamps of %s warn the ships. ", code), 4))
	}
	for i := range 1000 {
		f.write(name(i), text(i))
	}
	first := f.sync()
	if first.Sync.New != 1000 || first.Embedded < 2000 {
		t.Fatalf("%+v", first)
	}
	var want []string
	for i := 5; i < 1000; i += 100 {
		changed := strings.Replace(text(i), "warn the ships. ", "warn every ship. ", 1)
		f.write(name(i), changed)
		want = append(want, "changed docs/"+name(i))
	}
	r := f.sync()
	slices.Sort(f.told)
	slices.Sort(want)
	if !slices.Equal(f.told, want) || r.Read != 10 || r.Embedded != 10 || len(f.texts) != 10 ||
		r.Sync.Unchanged != 990 {
		t.Errorf("%+v %+v\n%q\nembedded %q", r, r.Sync, f.told, f.texts)
	}
	for _, text := range f.texts {
		if !strings.Contains(text, "warn every ship") {
			t.Errorf("embedded again: %q", text)
		}
	}
}

// Who follows the store, as a server does, sees what a sync has changed, without being told.
func TestSyncIsFollowed(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings"), "b.md": words("tides")})
	f.sync()
	server := doubles.NewBase(t, func(c *knowledge.Config) {
		c.Dir, c.Logger = filepath.Join(f.Dir, "store"), slog.New(slog.DiscardHandler)
		c.Encoder = func(context.Context) (embed.Embedder, error) { return f.Encoder, nil }
	})
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		server.Follow(ctx, time.Millisecond)
	}()
	defer func() { stop(); <-followed }()
	until := func(chunks int) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			snap, err := server.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n := snap.View.Count()
			snap.Release()
			if n == chunks {
				return
			}
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%d chunks are seen, want %d", n, chunks)
			}
		}
	}
	until(4)
	f.write("c.md", words("lamps"))
	f.sync()
	until(6)
	f.remove("a.md")
	f.sync()
	until(4)
}
