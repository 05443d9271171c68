package store

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSelectAndSiblings: a view selects its own live rows by documents and finds the chunks around one, also after the
// store has changed.
func TestSelectAndSiblings(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, "a/0", "a/1", "a/2", "b/0", "b/1"))
	mustCommit(t, s, batchOf(2, testDim, "a/1")) // another text: a row behind the others
	view, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteDocuments(ctx, []string{"b"}); err != nil {
		t.Fatal(err)
	}
	later, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	selected := func(v *View, accepts func(DocumentInfo) bool) (ids []string) {
		t.Helper()
		rows, err := v.Select(ctx, accepts)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if i > 0 && row <= rows[i-1] || v.Deleted(row) {
				t.Errorf("rows %v are not those of live chunks, ascending", rows)
			}
			ids = append(ids, v.IDs[row])
		}
		return ids
	}
	all := func(DocumentInfo) bool { return true }
	a := func(d DocumentInfo) bool { return d.ID == "a" }
	for name, x := range map[string]struct{ got, want []string }{
		"all":                {selected(view, all), []string{"a/0", "a/2", "b/0", "b/1", "a/1"}},
		"one document":       {selected(view, a), []string{"a/0", "a/2", "a/1"}},
		"none":               {selected(view, func(DocumentInfo) bool { return false }), nil},
		"all that are left":  {selected(later, all), []string{"a/0", "a/2", "a/1"}},
		"the deleted's rest": {selected(later, func(d DocumentInfo) bool { return d.ID == "b" }), nil},
	} {
		if diff := cmp.Diff(x.want, x.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	chunks, err := view.Siblings(ctx, "b/1", 1, 1)
	if err != nil || len(chunks) != 2 || chunks[0].ID != "b/0" || chunks[1].ID != "b/1" {
		t.Errorf("%+v, %v", chunks, err)
	}
	if _, err := later.Siblings(ctx, "b/1", 1, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a deleted chunk: %v", err)
	}
	if err := view.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := view.Select(ctx, all); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed view selects: %v", err)
	}
	if _, err := view.Siblings(ctx, "a/0", 1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed view has siblings: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := later.Select(cancelled, all); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
