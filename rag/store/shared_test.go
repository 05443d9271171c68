package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/postgres"
)

// suiteEnv is the URL of the database that TestSharedSuite gives to the tests of the local store.
const suiteEnv = "SLUICE_STORE_TEST_SHARED"

// ofFolders are tests of what a store that is a folder does alone: of its faults and damage, which embedding again
// repairs, of other processes that open the folder without the database, and of what is counted or timed.
const ofFolders = "RandomFaults|RootsMove.*|Kill|CrashAtEachStep|FailedCommitBurnsItsRows|OrderOfWhatWasHandedIn|" +
	"FullDisk|Inspect|Repair.*|RetitledDocumentOfADamagedBlock|RestoreIntoExisting|RestoreFailsAtEachStep|" +
	"ReadOnlyFileSystem|OpenRefuses|NamesAreDurable|PowerCut.*|TwoProcesses|WritersTakeTurns|Million"

// atEachStep are tests that make many stores: they run where SLUICE_POSTGRES_ALL is set.
const atEachStep = "CommitFailsAtEachStep|CompactFailsAtEachStep|CreationResumes"

var failure = regexp.MustCompile(`(?m)^ *--- FAIL: \S+`)

// TestSharedSuite runs the tests of a store once more on shared ones.
func TestSharedSuite(t *testing.T) {
	if os.Getenv(suiteEnv) != "" {
		t.Skip("SKIP: it is this test that runs the suite")
	}
	server := postgres.Start(t)
	skip := ofFolders
	if os.Getenv("SLUICE_POSTGRES_ALL") == "" {
		skip += "|" + atEachStep
	}
	c := exec.Command(os.Args[0], "-test.v", "-rapid.checks=5", "-test.run", "^Test", "-test.skip",
		"^Test("+skip+"|Shared.*)$")
	c.Env = append(os.Environ(), suiteEnv+"="+server.URL())
	out, err := c.CombinedOutput()
	passed := bytes.Count(out, []byte("\n--- PASS"))
	if err != nil || passed < 30 {
		t.Fatalf("%d tests passed: %v %q\n%s", passed, err, failure.FindAll(out, -1), out)
	}
	t.Logf("%d tests of the store pass on a shared one", passed)
}

// replicas are the folders that mustOpen has opened as such.
var replicas sync.Map

// isReplica is false for a folder that holds a store which was made without the database, as Restore does.
func isReplica(dir string) bool {
	_, known := replicas.Load(dir)
	if !known && checkFolder(dir, Options{}) == nil {
		return false
	}
	replicas.Store(dir, true)
	return true
}

// sharedAt returns the shared store of a database whose replica is a folder.
func sharedAt(t testing.TB, url, dir string, x seams) *Shared {
	t.Helper()
	r := newSharedAt(url, dir, x)
	t.Cleanup(func() { r.Close() })
	return r
}

func newSharedAt(url, dir string, x seams) *Shared {
	r := NewShared(url, os.TempDir(), slog.New(slog.DiscardHandler))
	r.dir, r.x = dir, x
	return r
}

// baseOf names a base of a database by a folder.
func baseOf(url, dir string) string {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return fmt.Sprintf("%s&base=t%x", url, h.Sum64())
}

func openShared(t testing.TB, url, dir string) (*Store, *Shared) {
	t.Helper()
	r := sharedAt(t, url, dir, testSeams())
	s, err := Open(context.Background(), dir, Options{Create: true, Encoder: &testEncoder, Shared: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, r
}

// awaitGeneration waits until a replica is of a generation.
func awaitGeneration(t testing.TB, s *Store, generation int64) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		now, err := s.Generation(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if now >= generation {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("generation %d, expected %d", now, generation)
		}
	}
}

func generationOf(t testing.TB, s *Store) int64 {
	t.Helper()
	n, err := s.Generation(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSharedFollows(t *testing.T) {
	ctx := context.Background()
	server := postgres.Start(t)
	url, root := server.URL(), fastDir(t)
	a, _ := openShared(t, url, filepath.Join(root, "a"))
	b, _ := openShared(t, url, filepath.Join(root, "b"))
	batch := batchOf(1, testDim, ids("a", 3)...)
	batch.Chunks[0].Topic = "t1"
	batch.Labels = map[string][]Label{"a/1": {{"person", "Ada"}, {"person", "Bob"}}}
	mustCommit(t, a, batch)
	mustCommit(t, a, batchOf(1, testDim, ids("b", 2000)...))
	want := versions(1, append(ids("a", 3), ids("b", 2000)...)...)
	verify(t, a, want)
	awaitGeneration(t, b, generationOf(t, a))
	verify(t, b, want)
	if l, err := b.Labels(ctx, []string{"a/1"}); err != nil || len(l["a/1"]) != 2 {
		t.Fatal(l, err)
	}
	// b writes, which first brings it up to date.
	replace := batchOf(2, testDim, "a/1", "a/7")
	replace.Replace = true
	mustCommit(t, b, replace)
	if _, err := b.DeleteDocuments(ctx, []string{"b"}); err != nil {
		t.Fatal(err)
	}
	awaitGeneration(t, a, generationOf(t, b))
	verify(t, a, versions(2, "a/1", "a/7"))
	sameContent(t, a, b)
	if n, err := a.Compact(ctx, 0); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	mustCommit(t, a, batchOf(3, testDim, ids("c", 5)...))
	awaitGeneration(t, b, generationOf(t, a))
	want = versions(2, "a/1", "a/7")
	for _, id := range ids("c", 5) {
		want[id] = 3
	}
	verify(t, b, want)
	sameContent(t, a, b)
	c, _ := openShared(t, url, filepath.Join(root, "c")) // from nothing
	verify(t, c, want)
	sameContent(t, a, c)
	if _, err := b.DeleteDocuments(ctx, []string{"nothing"}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

// A file of a calibration that names others is written after them.
func TestSharedFilesInOrder(t *testing.T) {
	url, root := postgres.Start(t).URL(), fastDir(t)
	a, r := openShared(t, url, filepath.Join(root, "a"))
	b, _ := openShared(t, url, filepath.Join(root, "b"))
	names := []string{"calibration/c.cal.json", "calibration/c.cal.z.npy"}
	for _, name := range names {
		if err := r.putFile(name, bytes.Repeat([]byte(name), 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.KeepFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitGeneration(t, b, generationOf(t, a))
	c, _ := openShared(t, url, filepath.Join(root, "c"))
	for _, s := range []*Store{b, c} {
		var when [2]time.Time
		for i, name := range names {
			info, err := os.Stat(filepath.Join(s.Dir(), name))
			if err != nil {
				t.Fatal(err)
			}
			when[i] = info.ModTime()
		}
		if when[0].Before(when[1]) {
			t.Errorf("%s was written before %s: %v", names[0], names[1], when)
		}
	}
	if err := os.Remove(filepath.Join(b.Dir(), names[1])); err != nil {
		t.Fatal(err)
	}
	if err := b.KeepFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitGeneration(t, a, generationOf(t, b))
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(filepath.Join(a.Dir(), names[1]))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil || time.Now().After(until) {
			t.Fatal("the file is there yet", err)
		}
	}
}
