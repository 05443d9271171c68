package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func stateOf(path string, size int64) FileState {
	return FileState{Path: path, Via: path, Size: size, Modified: 1e18 + size, Changed: -5, Read: 7, Inode: 1 << 63,
		How: "256/2", Documents: [16]byte{1, 2, byte(size)}}
}

// States of files come back as they were put, with the batch or not at all.
func TestFileStates(t *testing.T) {
	ctx := context.Background()
	x := testSeams()
	fail := ""
	x.step = func(at string) error {
		if at == fail {
			return unix.EIO
		}
		return nil
	}
	s := mustOpen(t, t.TempDir(), x)
	link := stateOf("/real/b.md", 2)
	link.Via, link.NoWords = "/docs/b.md", true
	b := batchOf(1, testDim, "a/1")
	b.Files = []FileState{stateOf("/docs/a.md", 1), link}
	fail = "commit"
	if _, err := s.Commit(ctx, b); !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	if got, err := s.Files(ctx); err != nil || len(got) != 0 {
		t.Fatalf("%v %v: states without their documents", got, err)
	}
	fail = ""
	mustCommit(t, s, b)
	want := map[string]FileState{"/docs/a.md": b.Files[0], "/real/b.md": link}
	got, err := s.Files(ctx)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	again := stateOf("/docs/a.md", 3)
	if err := s.PutFiles(ctx, []FileState{again}, []string{"/real/b.md", "/not/there"}); err != nil {
		t.Fatal(err)
	}
	got, err = s.Files(ctx)
	if diff := cmp.Diff(map[string]FileState{"/docs/a.md": again}, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if err := s.PutFiles(ctx, []FileState{{Path: ""}}, nil); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
}

// A document that has changed since it was looked at is not deleted.
func TestDeleteUnchanged(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, "a/1", "a/2", "b/1", "c/1"))
	mustCommit(t, s, batchOf(2, testDim, "b/1"))
	if _, err := s.DeleteDocuments(ctx, []string{"c"}); err != nil {
		t.Fatal(err)
	}
	list := []DocumentInfo{{ID: "a", Digest: "sha256:a1"}, {ID: "b", Digest: "sha256:b1"},
		{ID: "c", Digest: "sha256:c1"}}
	gone, chunks, err := s.DeleteUnchanged(ctx, list)
	if err != nil || !slices.Equal(gone, []string{"a"}) || chunks != 2 {
		t.Fatal(gone, chunks, err)
	}
	verify(t, s, map[string]int{"b/1": 2})
}

// The vector of a text is found by its digest, also after its chunk has been deleted.
func TestTextRows(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	b := batchOf(1, testDim, "a/1", "a/2", "b/1")
	mustCommit(t, s, b)
	rows, err := s.TextRows(ctx, []string{"a", "none"})
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	if _, err := s.DeleteDocuments(ctx, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	row, ok := rows[sha256.Sum256([]byte(b.Chunks[1].EmbedText()))]
	v, err := s.RowVectors(ctx, []int64{row})
	if err != nil || !ok || !slices.Equal(v.Data, vectorOf("a/2", 1, testDim)) {
		t.Error(row, ok, v.Data, err)
	}
}
