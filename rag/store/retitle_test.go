package store

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// TestRetitledDocumentGetsNewRows checks that the chunks of a document whose title alone has changed get new rows with
// the vectors and labels that they had, and that other documents keep their rows.
func TestRetitledDocumentGetsNewRows(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	b := batchOf(1, testDim, "a/0", "a/1", "b/0")
	b.Labels = map[string][]Label{"a/1": {{"person", "Ada"}}}
	mustCommit(t, s, b)
	rowsOf := func() map[string]int64 {
		t.Helper()
		r, err := s.beginRead(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		held, err := lookup(ctx, r.tx, []string{"a/0", "a/1", "b/0"})
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]int64{}
		for id, h := range held {
			rows[id] = h.row
		}
		return rows
	}
	before := rowsOf()
	same := batchOf(1, testDim, "a/0", "b/0")
	same.Chunks, same.Vectors = nil, nil
	same.Known = []corpus.Chunk{chunkOf("a/0", "a", 1, 0), chunkOf("a/1", "a", 1, 1), chunkOf("b/0", "b", 1, 2)}
	mustCommit(t, s, same)
	for id, row := range rowsOf() {
		if row != before[id] {
			t.Errorf("%s has moved from row %d to %d, though no title has changed", id, before[id], row)
		}
	}
	other := same
	title := *other.Documents[0]
	title.Title = "Another title"
	other.Documents = []*corpus.Document{&title, same.Documents[1]}
	mustCommit(t, s, other)
	verify(t, s, versions(1, "a/0", "a/1", "b/0"))
	after := rowsOf()
	if after["a/0"] < 3 || after["a/1"] < 3 || after["b/0"] != before["b/0"] {
		t.Errorf("rows %v, before %v", after, before)
	}
	for i, moves := range []bool{true, false, false} { // a year; when it was made; the same again
		said := title
		said.Meta = corpus.Meta{"year": json.Number("2021"), "modified": strconv.Itoa(i)}
		other.Documents = []*corpus.Document{&said, same.Documents[1]}
		last := rowsOf()
		mustCommit(t, s, other)
		if now := rowsOf(); (now["a/0"] != last["a/0"]) != moves || now["b/0"] != last["b/0"] {
			t.Errorf("commit %d: rows %v, before %v", i, now, last)
		}
	}
	verify(t, s, versions(1, "a/0", "a/1", "b/0"))
	after = rowsOf()
	v, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if v.Damage != nil || v.Count() != 3 {
		t.Errorf("%d chunks, damage %v", v.Count(), v.Damage)
	}
	labels, err := v.Labels(ctx, []string{"person"})
	if err != nil || len(labels) != 1 || len(labels[int(after["a/1"]-v.First)]) != 1 {
		t.Errorf("labels by row: %v, %v", labels, err)
	}
}

// TestRetitledDocumentOfADamagedBlock checks that rows of a damaged block stay where they are: a repair gives them new
// rows and vectors.
func TestRetitledDocumentOfADamagedBlock(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, testSeams())
	b := batchOf(1, testDim, "a/0")
	mustCommit(t, s, b)
	s.Close()
	patch(filepath.Join("segments", "000000.vec"), headerSize+7, 0x99)(t, dir)
	s = mustOpen(t, dir, testSeams())
	b.Known, b.Chunks, b.Vectors = b.Chunks, nil, nil
	b.Documents[0].Title = "Another title"
	mustCommit(t, s, b)
	var asked []string
	if done, err := s.Repair(t.Context(), again(&asked)); err != nil || done.Chunks != 1 {
		t.Fatal(done, err)
	}
	verify(t, s, versions(1, "a/0"))
	titles, err := s.Titles(t.Context(), []string{"a"})
	if err != nil || titles["a"] != "Another title" {
		t.Error(titles, err)
	}
}
