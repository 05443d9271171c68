package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// allowed is what the metadata say, in Go instead of SQL.
func allowed(meta corpus.Meta, groups []string) bool {
	var of []string
	switch v := meta["access"].(type) {
	case nil:
		_, there := meta["access"]
		return !there
	case string:
		of = []string{v}
	case []string:
		of = v
	case []any:
		for _, x := range v {
			if text, ok := x.(string); ok {
				of = append(of, text)
			}
		}
	}
	return slices.ContainsFunc(of, func(g string) bool { return slices.Contains(groups, g) })
}

// TestRestrictedReads compares what each way of reading gives to groups with what it gives to everybody, without the
// documents of others, while documents come, change their access and go.
func TestRestrictedReads(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 2))
	dir := fastDir(t)
	s := mustOpen(t, dir, testSeams())
	accesses := []any{"a", "b", []any{"a", "b"}, []any{"it's", `"x"`}, []any{}, "", 7, []any{1, "b"}}
	sets := [][]string{{}, {"a"}, {"b"}, {"a", "b"}, {"it's"}, {`"x"`, "none"}, {"7"}}
	readers := make([]*Store, len(sets))
	for i, groups := range sets {
		var err error
		if readers[i], err = Open(ctx, dir, Options{ReadOnly: true, Groups: groups}); err != nil {
			t.Fatal(err)
		}
		defer readers[i].Close()
	}
	for version := range 12 {
		for d := range 20 {
			if r.IntN(3) > 0 && version > 0 {
				continue
			}
			name := fmt.Sprint("d", d)
			b := batchOf(version+1, testDim, ids(name, 1+r.IntN(3))...)
			if r.IntN(3) == 0 {
				b = batchOf(1, testDim, ids(name, 2)...) // the texts stay
			}
			b.Replace = true
			b.Documents[0].Topic = fmt.Sprint("topic ", r.IntN(4))
			if n := r.IntN(len(accesses) + 3); n < len(accesses) {
				b.Documents[0].Meta["access"] = accesses[n]
			}
			b.Labels = map[string][]Label{b.Chunks[0].ID: {{Kind: "person", Value: name}}}
			mustCommit(t, s, b)
		}
		_, err := s.DeleteDocuments(ctx, []string{fmt.Sprint("d", r.IntN(20))})
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		for i, groups := range sets {
			compareRestricted(t, s, readers[i], groups)
		}
	}
}

func compareRestricted(t *testing.T, all, some *Store, groups []string) {
	t.Helper()
	ctx := context.Background()
	documents, err := all.Documents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]bool{}
	var want []DocumentInfo
	topics := map[string]bool{"": true}
	for _, d := range documents {
		if allowed(d.Meta, groups) {
			mine[d.ID], topics[d.Topic] = true, true
			want = append(want, d)
		}
	}
	got, err := some.Documents(ctx)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("documents of %q: %v %s", groups, err, diff)
	}
	whole, err := all.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	view, err := some.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var rows []int64
	for i, id := range whole.IDs {
		if d, _, _ := strings.Cut(id, "/"); !whole.Deleted(i) && mine[d] {
			rows = append(rows, whole.First+int64(i))
		}
	}
	if view.Count() != len(rows) || view.Count() != view.Vectors.Rows {
		t.Fatalf("%q: %d rows, %d live, want %d", groups, view.Vectors.Rows, view.Count(), len(rows))
	}
	ofTopics, err := view.Topics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dim := view.Vectors.Dim
	for i, row := range rows {
		at, _ := whole.index(row)
		if view.IDs[i] != whole.IDs[at] || view.Digests[i] != whole.Digests[at] || view.place(i) != row ||
			!slices.Equal(view.Vectors.Data[i*dim:][:dim], whole.Vectors.Data[at*dim:][:dim]) || !topics[ofTopics[i]] {
			t.Fatalf("%q: row %d is not row %d of the store", groups, i, row)
		}
	}
	if v, err := some.RowVectors(ctx, rows); err != nil || !slices.Equal(v.Data, view.Vectors.Data) {
		t.Errorf("vectors of rows: %v", err)
	}
	if list, err := view.Select(ctx, func(DocumentInfo) bool { return true }); err != nil || len(list) != len(rows) {
		t.Errorf("%d of %d rows selected, %v", len(list), len(rows), err)
	}
	labels, err := view.Labels(ctx, []string{"person"})
	for row, list := range labels {
		if d, _, _ := strings.Cut(view.IDs[row], "/"); list[0].Value != d {
			t.Errorf("%s has the label of %s", view.IDs[row], list[0].Value)
		}
	}
	counts, countErr := some.LabelCounts(ctx, "", 0)
	if err != nil || countErr != nil || len(counts) != len(labels) {
		t.Errorf("%d labels, %d counted, %v, %v", len(labels), len(counts), err, countErr)
	}
	stats, err := some.Stats(ctx)
	if err != nil || stats.Documents != len(want) || stats.Chunks != len(rows) || stats.Rows != int64(len(rows)) ||
		stats.DatabaseBytes != 0 || stats.Deleted != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	for i, id := range whole.IDs {
		d, _, _ := strings.Cut(id, "/")
		if whole.Deleted(i) || mine[d] {
			continue
		}
		for name, read := range map[string]func() error{
			"chunks":       func() error { _, err := some.Chunks(ctx, []string{id}); return err },
			"the view's":   func() error { _, err := view.Chunks(ctx, []string{id}); return err },
			"siblings":     func() error { _, err := view.Siblings(ctx, id, 1, 1); return err },
			"the document": func() error { _, err := some.Document(ctx, d); return err },
		} {
			if err := read(); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q, %s of %s: %v", groups, name, id, err)
			}
		}
		if has, err := some.Has(ctx, []string{id}); len(has) > 0 || err != nil {
			t.Errorf("%q has %v, %v", groups, has, err)
		}
	}
	var archive bytes.Buffer
	done, err := some.Export(ctx, &archive, ExportOptions{})
	if err != nil || done.Documents != len(want) || done.Chunks != len(rows) {
		t.Errorf("exported %+v, %v", done, err)
	}
}

// TestRestrictedStoresAreRead: a store for groups refuses to be written to.
func TestRestrictedStoresAreRead(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	mustCommit(t, mustOpen(t, dir, testSeams()), batchOf(1, testDim, "a/0"))
	if s, err := Open(ctx, dir, Options{Groups: []string{}}); !errors.Is(err, ErrInput) {
		t.Error(s, err)
	}
	s, err := Open(ctx, dir, Options{ReadOnly: true, Groups: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Commit(ctx, batchOf(1, testDim, "b/0")); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if _, err := s.IndexDir(); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if err := s.each(ctx, nil, func() error { return nil }, `DROP VIEW temp.documents`); err == nil {
		t.Error("a view can be dropped")
	}
}
