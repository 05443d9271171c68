package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPreviewShowsWhatIngestStores checks that `ingest --preview` creates no store and shows the chunks that ingest
// then stores.
func TestPreviewShowsWhatIngestStores(t *testing.T) {
	b := newBench(t)
	text := "# Harbour\n\n" + strings.Repeat("Ships wait outside of the harbour for the boat of the pilot. ", 20) +
		"\n\n| Berth | Fee |\n|---|---|\n| A | 3 |\n| B | 4 |\n"
	file := b.file("harbour.md", text)
	var want []string
	for _, o := range objects(t, b.ok("ingest", "--preview", "--json", "--chunk", "64/2", file)) {
		sameKeys(t, "preview", o, "number", "id", "document", "source", "heading", "anchor", "start", "end", "text",
			"tokens",
			"place")
		want = append(want, o["text"].(string))
	}
	if len(want) < 3 {
		t.Fatalf("%d chunks", len(want))
	}
	if _, err := os.Stat(b.store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store after the preview: %v", err)
	}
	shown := b.run("ingest", "--preview", "--chunk", "64/2", file, filepath.Join(b.dir, "missing.md"))
	if shown.code != exitFailure || !strings.Contains(shown.stdout, "── Harbour\nShips wait") ||
		!strings.Contains(shown.stderr, "nothing was stored") || !strings.Contains(shown.stderr, "missing.md") {
		t.Errorf("%d\n%s\n%s", shown.code, shown.stdout, shown.stderr)
	}
	b.ok("ingest", "--chunk", "64/2", file)
	var got []string
	for _, o := range objects(t, b.ok("docs", "list", "--chunks", "--json")) {
		got = append(got, o["text"].(string))
	}
	if strings.Join(got, "\n--\n") != strings.Join(want, "\n--\n") {
		t.Errorf("stored:\n%s\nshown:\n%s", strings.Join(got, "\n--\n"), strings.Join(want, "\n--\n"))
	}
}
