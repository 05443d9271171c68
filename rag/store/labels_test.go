package store

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Labels go where their chunks go: they come with them, stay with an unchanged text, move with Compact, are replaced
// when that is asked for, and go when the chunk does.
func TestLabels(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := mustOpen(t, dir, testSeams())
	check := func(name string, want map[string][]Label) {
		t.Helper()
		got, err := s.Labels(ctx, []string{"a/0", "a/1", "a/2", "none"})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		view, err := s.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		byRow, err := view.Labels(ctx, []string{"person", "date"})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string][]Label{}
		for row, l := range byRow {
			seen[view.IDs[row]] = l
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Fatalf("%s, in a view (-want +got):\n%s", name, diff)
		}
	}
	person, other, date := Label{"person", "Ada"}, Label{"person", "Bob"}, Label{"date", "1815"}
	b := batchOf(1, testDim, "a/0", "a/1", "a/2")
	b.Labels = map[string][]Label{"a/0": {person, date, person}, "a/1": {other}}
	mustCommit(t, s, b)
	check("new", map[string][]Label{"a/0": {date, person}, "a/1": {other}})

	again := batchOf(1, testDim, "a/0", "a/1", "a/2")
	mustCommit(t, s, again)
	check("the same texts", map[string][]Label{"a/0": {date, person}, "a/1": {other}})

	known := Batch{Documents: again.Documents, Known: []corpus.Chunk{again.Chunks[0], again.Chunks[2]},
		Labels: map[string][]Label{"a/0": {}, "a/2": {person}}}
	mustCommit(t, s, known)
	check("of known chunks", map[string][]Label{"a/1": {other}, "a/2": {person}})

	mustCommit(t, s, batchOf(2, testDim, "a/1"))
	check("another text", map[string][]Label{"a/2": {person}})
	if rows, err := s.Compact(ctx, 0); err != nil || rows == 0 {
		t.Fatal(rows, err)
	}
	check("compacted", map[string][]Label{"a/2": {person}})
	if list, err := s.LabelCounts(ctx, "person", 5); err != nil || !cmp.Equal(list, []LabelCount{{person, 1}}) {
		t.Errorf("%v %v", list, err)
	}
	if _, err := s.DeleteDocuments(ctx, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	check("deleted", map[string][]Label{})

	for _, labels := range []map[string][]Label{{"x/9": {person}}, {"a/0": {{"", "x"}}}, {"a/0": {{"person", ""}}},
		{"a/0": {{"person", "a\x00"}}}} {
		b := batchOf(1, testDim, "a/0")
		b.Labels = labels
		if _, err := s.Commit(ctx, b); !errors.Is(err, ErrInput) {
			t.Errorf("%v: %v", labels, err)
		}
	}
}

// Chunks are counted by what their documents' metadata say: live ones, of the state that the view is of.
func TestChunksByMeta(t *testing.T) {
	s := mustOpen(t, t.TempDir(), testSeams())
	b := batchOf(1, testDim, "a/0", "a/1", "b/0", "c/0")
	for i, code := range []string{"de", "en", ""} {
		if b.Documents[i].Meta = nil; code != "" {
			b.Documents[i].Meta = corpus.Meta{"language": code}
		}
	}
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	before, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if _, err := s.DeleteDocuments(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	after, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	for _, c := range []struct {
		view *View
		want map[string]int
	}{{before, map[string]int{"de": 2, "en": 1}}, {after, map[string]int{"en": 1}}} {
		if got, err := c.view.ChunksByMeta(t.Context(), "language"); err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%v %v, want %v", got, err, c.want)
		}
	}
}
