package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// faults is a file system on which the n-th step does something else, and which remembers what a power
// cut would leave: the content of each file at its last Sync, under the names at the last SyncDir.
type faults struct {
	osFS
	n, at   int
	do      func() error
	steps   []string
	content map[string][]byte
	names   map[string]bool
	folders []string     // that SyncDir was called for
	random  func() error // asked at each step, unless nil
}

func (f *faults) seams() seams {
	f.content, f.names = map[string][]byte{}, map[string]bool{}
	return seams{fs: f, segmentBytes: 1, step: f.step, patient: 10 * time.Second}
}

// arm lets the n-th step from now on (from 1) call do and return its error.
func (f *faults) arm(n int, do func() error) { f.n, f.at, f.do, f.steps = 0, n, do, nil }

func (f *faults) step(name string) error {
	f.n++
	f.steps = append(f.steps, name)
	if f.n == f.at {
		return f.do()
	}
	if f.random != nil {
		return f.random()
	}
	return nil
}

func (f *faults) OpenFile(name string, flag int) (file, error) {
	if err := f.step("open"); err != nil {
		return nil, err
	}
	o, err := f.osFS.OpenFile(name, flag)
	return &faultyFile{file: o, f: f, name: name}, err
}

func (f *faults) SyncDir(name string) error {
	if err := f.step("syncdir"); err != nil {
		return err
	}
	f.folders = append(f.folders, name)
	for _, path := range segmentFiles(name) {
		f.names[path] = true
	}
	return f.osFS.SyncDir(name)
}

// powerCut leaves on disk what was synced and nothing else.
func (f *faults) powerCut(dir string) error {
	for _, path := range segmentFiles(filepath.Join(dir, segmentFolder)) {
		if !f.names[path] {
			if err := os.Remove(path); err != nil {
				return err
			}
		} else if err := os.WriteFile(path, f.content[path], 0o644); err != nil {
			return err
		}
	}
	return nil
}

func segmentFiles(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "*.vec"))
	return list
}

type faultyFile struct {
	file
	f    *faults
	name string
}

// WriteAt that fails has written half of it, as a full disk does.
func (w *faultyFile) WriteAt(b []byte, off int64) (int, error) {
	if err := w.f.step("write"); err != nil {
		n, _ := w.file.WriteAt(b[:len(b)/2], off)
		return n, err
	}
	return w.file.WriteAt(b, off)
}

func (w *faultyFile) Sync() error {
	if err := w.f.step("sync"); err != nil {
		return err
	}
	b, err := os.ReadFile(w.name)
	w.f.content[w.name] = b
	return errors.Join(err, w.file.Sync())
}

// At each step of a Commit, a full disk, a failing disk or a cancelled context leaves the store as it
// was, also after a power cut; the next Commit works and survives one.
func TestCommitFailsAtEachStep(t *testing.T) {
	race.Skip(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for name, fail := range map[string]struct {
		do   func() error
		want error
	}{
		"full disk": {func() error { return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC} },
			syscall.ENOSPC},
		"bad disk":  {func() error { return syscall.EIO }, syscall.EIO},
		"cancelled": {func() error { stop(); return nil }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				f := &faults{}
				dir := fastDir(t)
				s := mustOpen(t, dir, f.seams())
				mustCommit(t, s, batchOf(1, testDim, ids("a", 700)...))
				before := versions(1, ids("a", 700)...)
				f.arm(n, fail.do)
				ctx, stop = context.WithCancel(context.Background())
				_, err := s.Commit(ctx, crashBatch(n))
				if f.n < n { // nothing was left to fail
					if err != nil || n < 9 {
						t.Fatalf("step %d of %v: %v", n, f.steps, err)
					}
					return
				}
				// A cancellation behind the last look at the context comes too late.
				after := before
				if err == nil && name == "cancelled" && n >= len(f.steps) {
					after = crashed(n)
				} else if !errors.Is(err, fail.want) || !strings.Contains(err.Error(), dir) {
					t.Fatalf("step %d (%s): %v, want %v", n, f.steps[n-1], err, fail.want)
				} else if fail.want == syscall.ENOSPC && !strings.Contains(err.Error(), "free some space") {
					t.Fatal(err)
				}
				verify(t, s, after)
				s.Close()
				if err := f.powerCut(dir); err != nil {
					t.Fatal(err)
				}
				f.arm(0, nil)
				s = mustOpen(t, dir, seams{fs: f, segmentBytes: 1, step: f.step, patient: 10 * time.Second})
				verify(t, s, after)
				mustCommit(t, s, crashBatch(n))
				after = crashed(n)
				s.Close()
				if err := f.powerCut(dir); err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, dir, testSeams())
				verify(t, s, after)
				s.Close()
			}
		})
	}
}

// crashed returns what crashBatch(n) leaves: its Replace drops the chunks of document a that it does not list.
func crashed(n int) map[string]int {
	return versions(n+1, append(ids(fmt.Sprint("c", n), 400), "a/0", "a/1")...)
}

// A COMMIT that fails may still be in the log: its rows are not used again.
func TestFailedCommitBurnsItsRows(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 10)...))
	refuse := int32(1)
	refuseCommits(t, s, &refuse)
	if _, err := s.Commit(ctx, batchOf(1, testDim, ids("b", 1500)...)); !errors.Is(err, ErrUncertain) {
		t.Fatal("COMMIT was refused, and Commit says", err)
	}
	verify(t, s, versions(1, ids("a", 10)...))
	refuse = 0
	mustCommit(t, s, batchOf(1, testDim, ids("c", 10)...))
	want := versions(1, append(ids("a", 10), ids("c", 10)...)...)
	verify(t, s, want)
	if st, err := s.Stats(ctx); err != nil || st.Rows != 10+1500+10 {
		t.Fatal(st, err)
	}
	s.Close()
	verify(t, mustOpen(t, s.Dir(), testSeams()), want)
}

// refuseCommits lets the COMMIT of transactions fail while refuse is not 0.
func refuseCommits(t *testing.T, s *Store, refuse *int32) {
	t.Helper()
	c, err := s.write.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Raw(func(dc any) error {
		dc.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { return *refuse })
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A COMMIT of Compact that fails burns rows of new segments, and those between: the store goes on behind them.
func TestFailedCommitOfCompact(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	f := &faults{}
	s, want := sparse(t, f.seams())
	refuse := int32(1)
	refuseCommits(t, s, &refuse)
	for range 2 {
		if _, err := s.Compact(ctx, 0); err == nil {
			t.Fatal("COMMIT was refused, Compact was not")
		}
	}
	verify(t, s, want)
	refuse = 0
	mustCommit(t, s, batchOf(1, testDim, ids("c", 10)...))
	maps.Copy(want, versions(1, ids("c", 10)...))
	verify(t, s, want)
	s.Close()
	if err := f.powerCut(s.Dir()); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, s.Dir(), testSeams())
	verify(t, s, want)
	if _, err := s.Compact(ctx, 0); err != nil {
		t.Fatal(err)
	}
	verify(t, s, want)
}

// SQLite's own "database is full".
func TestDatabaseFull(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 10)...))
	if _, err := s.write.Exec(`PRAGMA max_page_count = 40`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, batchOf(1, testDim, ids("b", 2000)...)); !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), "free some space") {
		t.Fatal(err)
	}
	verify(t, s, versions(1, ids("a", 10)...))
	if _, err := s.write.Exec(`PRAGMA max_page_count = 100000`); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, batchOf(1, testDim, ids("b", 2000)...))
	verify(t, s, versions(1, append(ids("a", 10), ids("b", 2000)...)...))
}
