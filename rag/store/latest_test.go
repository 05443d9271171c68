package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestOrderOfWhatWasHandedIn: of two batches the one counts that was handed in later, whichever is committed first; a
// deletion comes behind what was handed in before it; and nothing of that is kept when nothing waits.
func TestOrderOfWhatWasHandedIn(t *testing.T) {
	ctx := t.Context()
	s := mustOpen(t, t.TempDir(), testSeams())
	waits := filepath.Join(s.Dir(), UploadsFolder, "job")
	if err := os.MkdirAll(waits, 0o700); err != nil {
		t.Fatal(err)
	}
	now := func() int64 {
		g, err := s.Generation(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	put := func(version int, at Moment) error {
		b := batchOf(version, testDim, "a/0")
		b.HandedIn = &at
		_, err := s.Commit(ctx, b)
		return err
	}
	document := batchOf(1, testDim, "a/0").Documents[0].ID
	isLate := func(err error) bool {
		var late *OvertakenError
		return errors.Is(err, ErrOvertaken) && errors.As(err, &late) && slices.Equal(late.IDs, []string{document})
	}
	first, second := Moment{Generation: now(), Place: 1}, Moment{Generation: now(), Place: 2}
	if err := errors.Join(put(2, second), put(2, second)); err != nil { // an interrupted one is repeated
		t.Fatal(err)
	}
	if err := put(1, first); !isLate(err) {
		t.Fatalf("an earlier one: %v", err)
	}
	verify(t, s, versions(2, "a/0"))
	third := Moment{Generation: now(), Place: 3}
	if _, err := s.DeleteDocuments(ctx, []string{document}); err != nil {
		t.Fatal(err)
	}
	if err := put(3, third); !isLate(err) {
		t.Fatalf("one that was deleted since: %v", err)
	}
	if late, err := s.Overtaken(ctx, third, document); !late || err != nil {
		t.Fatal(late, err)
	}
	verify(t, s, versions(1))
	if err := put(4, Moment{Generation: now(), Place: 4}); err != nil {
		t.Fatalf("one behind the deletion: %v", err)
	}
	lines := func() (n int) {
		if err := s.write.QueryRow(`SELECT count(*) FROM latest`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := now()
	if err := s.ForgetOrder(ctx); err != nil || lines() != 1 {
		t.Fatalf("while something waits: %d lines, %v", lines(), err)
	}
	if err := os.Remove(waits); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetOrder(ctx); err != nil || lines() != 0 || now() != before {
		t.Fatalf("%d lines, generation %d instead of %d, %v", lines(), now(), before, err)
	}
	if _, err := s.DeleteDocuments(ctx, []string{document}); err != nil || lines() != 0 {
		t.Fatalf("a deletion that nothing waits for: %d lines, %v", lines(), err)
	}
}
