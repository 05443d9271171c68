package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// The folders of all files that a store makes are synced, with those that had to be made for it.
func TestNamesAreDurable(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "store")
	f := &faults{}
	s := mustOpen(t, dir, f.seams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 10)...))
	want := []string{root, filepath.Join(root, "a"), filepath.Join(root, "a", "b"), dir,
		filepath.Join(dir, segmentFolder)}
	for _, folder := range want {
		if !slices.Contains(f.folders, folder) {
			t.Errorf("%s was not synced, only %v", folder, f.folders)
		}
	}
	f.folders = nil
	if _, err := s.IndexDir(); err != nil || !slices.Equal(f.folders, []string{dir}) {
		t.Errorf("%v %v", f.folders, err)
	}
	f.folders = nil
	mustCommit(t, s, batchOf(1, testDim, ids("b", 1500)...)) // two new segments
	if n := len(f.folders); n < 1 || f.folders[0] != filepath.Join(dir, segmentFolder) {
		t.Errorf("%v", f.folders)
	}
	var level int
	if err := s.write.QueryRow(`PRAGMA synchronous`).Scan(&level); err != nil || level != 2 {
		t.Errorf("SQLite syncs its log at level %d, want 2 (FULL): %v", level, err)
	}
}

// image is the content of the database's files.
type image struct{ db, wal []byte }

func imageOf(t *testing.T, dir string) (i image) {
	t.Helper()
	var err error
	if i.db, err = os.ReadFile(filepath.Join(dir, databaseName)); err != nil {
		t.Fatal(err)
	}
	if i.wal, err = os.ReadFile(filepath.Join(dir, databaseName+"-wal")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return i
}

// cut puts a store into a new folder as a power cut may leave it.
func (i image) cut(t *testing.T, dir string) *Store {
	t.Helper()
	to := fastDir(t)
	if err := os.CopyFS(filepath.Join(to, segmentFolder), os.DirFS(filepath.Join(dir, segmentFolder))); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{databaseName: i.db, databaseName + "-wal": i.wal} {
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mustOpen(t, to, testSeams())
}

// mixed has each page of 4 KiB (after the first head bytes) from one of two contents, and a torn one now and then.
func mixed(r *rand.Rand, head int, a, b []byte, share float64) []byte {
	out := append([]byte{}, b...)
	for at := head; at < len(out); at += 4096 {
		page := out[at:min(at+4096, len(out))]
		if r.Float64() < share {
			continue
		}
		if r.IntN(4) == 0 { // torn: only the first sectors were written
			page = page[min(len(page), 512*(1+r.IntN(7))):]
		}
		if at < len(a) {
			copy(page, a[min(len(a), at+4096-len(page)):])
		} else {
			clear(page)
		}
	}
	return out
}

// A power cut while SQLite writes: any part of what it had not synced may be on disk, pages torn in between. While a
// transaction is written to the log, the store is the one before or, if all of it is there, the one after. While the
// log is merged into the database, it is the one after.
func TestPowerCutOfTheDatabase(t *testing.T) {
	race.Skip(t)
	s := mustOpen(t, fastDir(t), testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 300)...))
	before, synced := versions(1, ids("a", 300)...), imageOf(t, s.Dir())
	b := batchOf(2, testDim, append(ids("a", 40), ids("b", 200)...)...)
	b.Replace = true
	mustCommit(t, s, b)
	after, logged := versions(2, append(ids("a", 40), ids("b", 200)...)...), imageOf(t, s.Dir())
	if string(synced.db) != string(logged.db) || len(logged.wal) <= len(synced.wal) {
		t.Fatalf("the log has %d bytes after %d: the test needs one that grows", len(logged.wal), len(synced.wal))
	}
	r := rand.New(rand.NewPCG(1, 1))
	state := func(i image) map[string]int {
		t.Helper()
		c := i.cut(t, s.Dir())
		defer c.Close()
		got := stored(t, c)
		verify(t, c, got)
		return got
	}
	lost := 0
	for round := range 12 {
		wal := append([]byte{}, logged.wal[:len(synced.wal)+r.IntN(len(logged.wal)-len(synced.wal))]...)
		if round%2 == 0 { // all lengths, but not all pages
			wal = mixed(r, len(synced.wal), synced.wal, logged.wal, .95)
		}
		switch got := state(image{synced.db, wal}); {
		case maps.Equal(got, before):
			lost++
		case !maps.Equal(got, after):
			t.Fatalf("round %d: %d chunks, neither the %d before nor the %d after", round, len(got), len(before),
				len(after))
		}
	}
	if lost == 0 {
		t.Error("no cut lost anything")
	}
	if got := state(logged); !maps.Equal(got, after) {
		t.Fatal("what was acknowledged is lost")
	}
	if err := s.Close(); err != nil { // merges the log
		t.Fatal(err)
	}
	merged := imageOf(t, s.Dir())
	for round := range 8 {
		db := mixed(r, 0, logged.db, merged.db, float64(round)/8)
		if got := state(image{db, logged.wal}); !maps.Equal(got, after) {
			t.Fatalf("round %d: a cut while the log was merged leaves %d chunks: %v", round, len(got),
				fmt.Sprint(len(db)))
		}
	}
}
