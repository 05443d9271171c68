package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// documents reads the list of a store.
func documents(t *testing.T, b *doubles.Base) []store.DocumentInfo {
	t.Helper()
	st, err := b.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	docs, err := st.Documents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// A document whose ingest was interrupted between two commits is known to be incomplete until it has been ingested to
// its end.
func TestInterruptedDocumentsAreIncomplete(t *testing.T) {
	b := doubles.NewBase(t, nil)
	var text strings.Builder
	for i := range 9 {
		fmt.Fprintf(&text, "# Part %c\n\n%s\n\n", 'a'+i, strings.Repeat("It tells of ships and of harbours. ", 7))
	}
	tree(t, b, map[string]string{"docs/long.md": text.String(), "docs/short.md": "About tides."})
	ctx, cancel := context.WithCancel(t.Context())
	o := ingest.Options{Chunk: "60/0", CommitEvery: 3, OnCommit: func([]string) { cancel() }}
	_, err := ingest.Run(ctx, b.Base, ingest.Input{Paths: []string{"docs/long.md"}, Options: o})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if docs := documents(t, b); len(docs) != 1 || !docs[0].Partial || docs[0].Chunks != 3 {
		t.Errorf("interrupted: %+v", docs)
	}
	o.OnCommit = nil
	if _, err := ingest.Run(t.Context(), b.Base,
		ingest.Input{Paths: []string{"docs/short.md"}, Options: o}); err != nil {
		t.Fatal(err)
	}
	if docs := documents(t, b); len(docs) != 2 || !docs[0].Partial || docs[1].Partial {
		t.Errorf("another one: %+v", docs)
	}
	r, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{"docs"}, Options: o})
	if err != nil || r.Known != 4 || r.Embedded != 6 {
		t.Errorf("%+v %v", r, err)
	}
	if docs := documents(t, b); docs[0].Partial || docs[0].Chunks != 9 {
		t.Errorf("to its end: %+v", docs)
	}
}

// A flipped byte of a vector is mended by the next ingest, of whatever; one of a text by the next ingest of its file.
func TestDamageIsMendedByIngest(t *testing.T) {
	b := doubles.NewBase(t, nil)
	tree(t, b,
		map[string]string{"docs/a.md": "About herrings.", "docs/b.md": "About tides.", "new/c.md": "About lamps."})
	must(t, b, ingest.Options{}, "docs")
	before := best(t, b, "herrings")
	path := filepath.Join(b.Dir, "store", "segments", "000000.vec")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0x41, 0x42, 0x43, 0x44}, 4096+40); err != nil {
		t.Fatal(err)
	}
	b = reopened(t, b)
	if _, err := b.Snapshot(t.Context()); !errors.Is(err, store.ErrCorrupt) ||
		!strings.Contains(err.Error(), "sluice docs repair") {
		t.Fatal(err)
	}
	r := must(t, b, ingest.Options{}, "new")
	if r.Renewed != 2 || r.Embedded != 1 || !strings.Contains(b.Log.String(), "1 damaged blocks of vectors") {
		t.Errorf("%+v, %s", r, b.Log)
	}
	if got := best(t, b, "herrings"); got != before {
		t.Errorf("found %s, want %s", got, before)
	}
}

// reopened returns the base once more, as another process has it.
func reopened(t *testing.T, b *doubles.Base) *doubles.Base {
	t.Helper()
	return doubles.NewBase(t, func(c *knowledge.Config) { c.Dir = filepath.Join(b.Dir, "store") })
}

// best returns the text of the chunk that is nearest to a query.
func best(t *testing.T, b *doubles.Base, query string) string {
	t.Helper()
	snap, _, err := b.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	e, err := b.Embed(t.Context(), []string{query}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	r, err := snap.Search(t.Context(), retrieve.Queries{Vectors: knowledge.Vectors(e)},
		overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 1, Mode: retrieve.Dense}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := snap.Chunks(t.Context(), []string{r[0].Results[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	return c[0].Text
}
