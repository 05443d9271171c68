package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// Every damaged block is named when it is read, also one that a Commit is about to add to, and a view leaves its chunks
// out, and no others.
func TestBlocksAreVerified(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	for row, says := range map[int64]string{3: "000000.vec: block 0 (rows 0 to 255)",
		1500: "000001.vec: block 5 (rows 1280 to 1535)", 2099: "000002.vec: block 8 (rows 2048 to 2099)"} {
		dir := damaged(t, patch(filepath.Join("segments", fmt.Sprintf("%06d.vec", row/1024)),
			headerSize+row%1024*testDim*4+7, 0x99))
		s := mustOpen(t, dir, testSeams())
		var damage *BlockError
		v, err := s.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		first := row / blockRows * blockRows
		last := min(first+blockRows, 2100)
		if d := v.Damage; d == nil || len(d.Blocks) != 1 || d.Blocks[0].Block != row/blockRows ||
			!errors.Is(d.Blocks[0], ErrCorrupt) || int64(d.Chunks) != last-first || len(d.Documents) != 1 ||
			!strings.Contains(d.String(), says) || !strings.Contains(d.String(), `of ["a"]`) {
			t.Fatalf("%+v", d)
		}
		good := batchOf(1, testDim, ids("a", 2100)...).Vectors
		for i := range int64(2100) {
			inside := i >= first && i < last
			if v.Deleted(int(i)) != inside || !inside &&
				!slices.Equal(v.Vectors.Data[i*testDim:(i+1)*testDim], good[i*testDim:(i+1)*testDim]) {
				t.Fatalf("row %d of a store whose row %d is damaged", i, row)
			}
			if inside && v.Vectors.Data[i*testDim] != 0 {
				t.Fatalf("row %d is served", i)
			}
		}
		if _, err := s.RowVectors(ctx, []int64{row}); !errors.As(err, &damage) {
			t.Fatal(err)
		}
		if live, err := v.Live(ctx); err != nil || int64(len(live.IDs)) != 2100-(last-first) {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(ctx); !errors.As(err, &damage) || !strings.Contains(err.Error(), says) {
			t.Fatal(err)
		}
		_, err = s.Commit(ctx, batchOf(1, testDim, "b/0"))
		if row == 2099 != errors.As(err, &damage) {
			t.Fatalf("row %d: %v", row, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, edit := range map[string]func(*testing.T, string){
		"a lost checksum":     execute(`DELETE FROM blocks WHERE no = 1`),
		"the last lost":       execute(`DELETE FROM blocks WHERE no = 8`),
		"a row of nothing":    execute(`DELETE FROM chunks WHERE row = 7; DELETE FROM texts WHERE row = 7`),
		"a live row deleted ": execute(`INSERT INTO deleted VALUES (7, 1)`),
	} {
		s := mustOpen(t, damaged(t, edit), testSeams())
		if err := s.Check(ctx); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A View reads what has changed since the last one, and gives the same list as one that is read anew.
func TestViewsFollow(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	w := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, w, batchOf(1, testDim, ids("a", 700)...))
	r, err := Open(ctx, w.Dir(), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	same := func(what string) {
		t.Helper()
		got, done := liveOf(t, r)
		defer done()
		anew, err := Open(ctx, w.Dir(), Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer anew.Close()
		want, done := liveOf(t, anew)
		defer done()
		if got.Digest != want.Digest || !slices.Equal(got.Groups, want.Groups) || !slices.Equal(got.Rows, want.Rows) ||
			!slices.Equal(got.TextDigests, want.TextDigests) || !bytes.Equal(bytesOf(got.Vectors.Data),
			bytesOf(want.Vectors.Data)) {
			t.Fatalf("%s: %d chunks %s, want %d %s", what, len(got.IDs), got.Digest, len(want.IDs), want.Digest)
		}
		v, err := r.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if err := v.SaveRows(ctx); err != nil {
			t.Fatal(err)
		}
	}
	same("first")
	mustCommit(t, w, batchOf(1, testDim, ids("b", 900)...))
	same("appended")
	b := batchOf(2, testDim, "a/1", "a/2", "b/4")
	mustCommit(t, w, b)
	same("replaced")
	if _, err := w.DeleteDocuments(ctx, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	same("deleted")
	b = batchOf(1, testDim, "b/7", "b/8")
	b.Chunks[0].Topic = "another topic"
	mustCommit(t, w, b)
	same("another topic")
	if err := w.SetMeta(ctx, "k", nil); err != nil {
		t.Fatal(err)
	}
	same("the same")
}

// A list of rows that is damaged, cut, of another store or of a future is not used.
func TestStoredRowsAreNotTrusted(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	w := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, w, batchOf(1, testDim, ids("a", 100)...))
	v, err := w.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.SaveRows(ctx); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.Dir(), IndexFolder, rowsName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := parseRows(bytes.Clone(good), w.settings.id); err != nil || len(l.ids) != 100 || l.deleted != 0 {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := parseRows(bad, w.settings.id); err == nil {
			t.Fatalf("byte %d may change", i)
		}
		if _, err := parseRows(good[:i], w.settings.id); err == nil {
			t.Fatalf("%d bytes are enough", i)
		}
	}
	if _, err := parseRows(good, [16]byte{1}); err == nil {
		t.Fatal("another store's list")
	}
	if _, err := w.DeleteDocuments(ctx, []string{"a"}); err != nil { // a backup of the database is put back later
		t.Fatal(err)
	}
	future := bytes.Clone(good)
	for _, b := range [][]byte{future, good[:50], nil} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		anew := mustOpen(t, w.Dir(), testSeams())
		verify(t, anew, nil)
		anew.Close()
	}
}
