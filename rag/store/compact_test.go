package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// sparse returns a store of which two thirds are deleted, and what is left of it.
func sparse(t *testing.T, x seams) (*Store, map[string]int) {
	t.Helper()
	s := mustOpen(t, fastDir(t), x)
	mustCommit(t, s, batchOf(1, testDim, ids("a", 1300)...))
	mustCommit(t, s, batchOf(1, testDim, ids("b", 900)...))
	mustCommit(t, s, batchOf(2, testDim, ids("b", 400)...))
	if _, err := s.DeleteDocuments(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	want := versions(1, ids("b", 900)...)
	maps.Copy(want, versions(2, ids("b", 400)...))
	return s, want
}

// Compact gives space back and changes nothing else: for views that are open, for readers that open the store later,
// and for what is written later.
func TestCompact(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	s, want := sparse(t, testSeams())
	before, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := before.SaveRows(ctx); err != nil {
		t.Fatal(err)
	}
	other, err := Open(ctx, s.Dir(), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	verify(t, other, want)
	if n, err := s.Compact(ctx, .9); n != 0 || err != nil {
		t.Fatalf("it does not pay: %d %v", n, err)
	}
	n, err := s.Compact(ctx, CompactShare)
	if n != 1700 || err != nil {
		t.Fatal(n, err)
	}
	st, err := s.Stats(ctx)
	if err != nil || st.Rows != 900 || st.Deleted != 0 || st.Segments != 1 || len(segmentFiles(s.segments.dir)) != 1 {
		t.Fatalf("%+v, %v: %v", st, segmentFiles(s.segments.dir), err)
	}
	verify(t, s, want)
	verify(t, other, want)
	for i, id := range before.IDs {
		if v := want[id]; !before.Deleted(i) &&
			!slices.Equal(before.Vectors.Data[i*testDim:(i+1)*testDim], vectorOf(id, v, testDim)) {
			t.Fatalf("the view of before has another vector of %s", id)
		}
	}
	if k, err := before.Chunks(ctx, []string{"b/1", "b/800"}); err != nil || k[0].Text != textOf("b/1", 2) ||
		k[1].Text != textOf("b/800", 1) {
		t.Fatal(k, err)
	}
	if _, err := s.RowVectors(ctx, []int64{3}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if n, err := s.Compact(ctx, 0); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	mustCommit(t, s, batchOf(3, testDim, ids("c", 1000)...))
	maps.Copy(want, versions(3, ids("c", 1000)...))
	if _, err := s.DeleteDocuments(ctx, []string{"b"}); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(want, func(id string, _ int) bool { return strings.HasPrefix(id, "b/") })
	if n, err := s.Compact(ctx, 0); n != 900 || err != nil {
		t.Fatal(n, err)
	}
	s.Close()
	verify(t, mustOpen(t, s.Dir(), testSeams()), want)
	if _, err := other.Compact(ctx, 0); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
}

// At each step of a Compact a failing disk, a full one, or a cut of the power leaves what was there.
func TestCompactFailsAtEachStep(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	for n := 1; ; n += 3 {
		f := &faults{}
		s, want := sparse(t, f.seams())
		f.arm(n, func() error { return syscall.ENOSPC })
		_, err := s.Compact(ctx, 0)
		done := f.n < n
		if done != (err == nil) || !done && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("step %d of %v: %v", n, f.steps, err)
		}
		f.arm(0, nil)
		verify(t, s, want)
		s.Close()
		if err := f.powerCut(s.Dir()); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, s.Dir(), seams{fs: f, segmentBytes: 1, step: f.step, patient: time.Second})
		verify(t, s, want)
		mustCommit(t, s, batchOf(1, testDim, fmt.Sprint("n/", n)))
		if done {
			return
		}
	}
}
