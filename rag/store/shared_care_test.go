package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/rag/corpus"
)

func findingsOf(t *testing.T, s *Store) (list []Finding) {
	t.Helper()
	if _, err := s.Inspect(t.Context(), func(f Finding) {
		if !f.Harmless {
			list = append(list, f)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// What is damaged of a replica is found, and taken from the database again; so is a replica that is missing or cannot
// be opened. What the database has otherwise than the replica is found.
func TestSharedReplicaIsMended(t *testing.T) {
	server := postgres.Start(t)
	url, dir := server.URL(), filepath.Join(fastDir(t), "s")
	s, r := openShared(t, url, dir)
	mustCommit(t, s, batchOf(1, testDim, ids("a", 1500)...))
	want := versions(1, ids("a", 1500)...)
	if list := findingsOf(t, s); len(list) > 0 {
		t.Fatal(list)
	}
	flip(t, filepath.Join(dir, segmentFolder, "000000.vec"), headerSize+700*4*testDim)
	if _, err := r.replica.Exec(`UPDATE texts SET text = 'other' WHERE row = 9`); err != nil {
		t.Fatal(err)
	}
	if list := findingsOf(t, s); len(list) < 3 {
		t.Fatal(list)
	}
	generation := generationOf(t, s)
	done, err := s.Repair(t.Context(), func(context.Context, []corpus.Chunk) ([]float32, error) {
		return nil, errors.New("nothing is to be embedded again")
	})
	if err != nil || done.Blocks != 1 || generationOf(t, s) != generation {
		t.Fatal(done, err)
	}
	verify(t, s, want)
	if list := findingsOf(t, s); len(list) > 0 {
		t.Fatal(list)
	}
	for _, harm := range []func() error{
		func() error { return os.RemoveAll(dir) },
		func() error { return os.Truncate(filepath.Join(dir, segmentFolder, "000000.vec"), 100) },
		func() error {
			return os.WriteFile(filepath.Join(dir, databaseName), bytes.Repeat([]byte("x"), 8192), 0o600)
		},
	} {
		if err := errors.Join(s.Close(), r.Close(), harm(), os.MkdirAll(filepath.Join(dir, UploadsFolder, "one"),
			0o700)); err != nil {
			t.Fatal(err)
		}
		s, r = openShared(t, url, dir)
		verify(t, s, want)
		if _, err := os.Stat(filepath.Join(dir, UploadsFolder, "one")); err != nil { // only this folder has it
			t.Fatal(err)
		}
	}
	server.Exec("base1", `UPDATE sluice.texts SET text = 'changed by hand' WHERE row = 3`)
	server.Exec("base1", `UPDATE sluice.vectors SET embedding = (SELECT embedding FROM sluice.vectors WHERE row = 1)
		WHERE row = 1200`)
	list := findingsOf(t, s)
	if len(list) != 2 || list[0].Where != "texts" || !strings.Contains(list[1].Problem, "1200") {
		t.Fatal(list)
	}
}

// flip changes a byte of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// Exports go from each kind of store into the other.
func TestSharedExportRestore(t *testing.T) {
	local, _ := richStore(t)
	all := export(t, local, ExportOptions{})
	url, dir := postgres.Start(t).URL(), filepath.Join(fastDir(t), "s")
	r := sharedAt(t, url, dir, testSeams())
	done, err := restore(t.Context(), dir, bytes.NewReader(all), RestoreOptions{Shared: r}, testSeams())
	if err != nil || !done.New {
		t.Fatal(done, err)
	}
	other, _ := openShared(t, url, filepath.Join(fastDir(t), "other"))
	sameContent(t, local, other)
	if again := export(t, other, ExportOptions{}); !bytes.Equal(all, again) {
		t.Fatalf("%d bytes, %d again", len(all), len(again))
	}
	back := filepath.Join(fastDir(t), "back")
	if _, err := restore(t.Context(), back, bytes.NewReader(export(t, other, ExportOptions{})), RestoreOptions{},
		testSeams()); err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), back, Options{ReadOnly: true}, testSeams())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sameContent(t, local, s)
	// Once more, into the store that is there.
	done, err = restore(t.Context(), dir, bytes.NewReader(all), RestoreOptions{Shared: r}, testSeams())
	if err != nil || done.New || done.Restored != 0 {
		t.Fatal(done, err)
	}
}

// A store is read while the database is away if there is a replica, and refuses changes with ErrAway.
func TestSharedAway(t *testing.T) {
	server := postgres.Start(t)
	url, dir := server.URL(), filepath.Join(fastDir(t), "s")
	s, r := openShared(t, url, dir)
	mustCommit(t, s, batchOf(1, testDim, ids("a", 5)...))
	if err := errors.Join(s.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	o := Options{Shared: sharedAt(t, url, dir+"2", testSeams())}
	if _, err := Open(t.Context(), dir+"2", o); !errors.Is(err, ErrAway) {
		t.Fatal(err)
	}
	s, r = openShared(t, url, dir)
	verify(t, s, versions(1, ids("a", 5)...))
	if r.Status().Away == nil {
		t.Fatal("the database is not away")
	}
	if _, err := s.Commit(t.Context(), batchOf(2, testDim, "b/1")); !errors.Is(err, ErrAway) {
		t.Fatal(err)
	}
	if _, err := s.Exclusive(t.Context()); !errors.Is(err, ErrAway) {
		t.Fatal(err)
	}
	verify(t, s, versions(1, ids("a", 5)...))
	server.Run()
	mustCommit(t, s, batchOf(1, testDim, "b/1"))
	verify(t, s, versions(1, append(ids("a", 5), "b/1")...))
}

// loser is a way to the database that loses the answer to a COMMIT once it is armed.
type loser struct {
	net.Listener
	armed atomic.Bool
}

func newLoser(t *testing.T, to string) *loser {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &loser{Listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { x.pass(near, to) })
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return x
}

func (x *loser) pass(near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	var lost atomic.Bool
	go func() {
		defer near.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := far.Read(b)
			if err != nil || lost.Load() { // the server has committed
				return
			}
			if _, err := near.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 1<<16)
	for {
		n, err := near.Read(b)
		if err != nil {
			return
		}
		if bytes.Contains(b[:n], []byte("commit\x00")) && x.armed.CompareAndSwap(true, false) {
			lost.Store(true)
		}
		if _, err := io.Copy(far, bytes.NewReader(b[:n])); err != nil {
			return
		}
	}
}

// A commit whose answer is lost is looked for, and acknowledged if it was made.
func TestSharedLostAnswer(t *testing.T) {
	server := postgres.Start(t)
	url := server.URL()
	way := newLoser(t, server.Addr())
	s, _ := openShared(t, strings.Replace(url, server.Addr(), way.Addr().String(), 1), filepath.Join(fastDir(t), "s"))
	mustCommit(t, s, batchOf(1, testDim, "a/1"))
	way.armed.Store(true)
	mustCommit(t, s, batchOf(1, testDim, "a/2"))
	if way.armed.Load() {
		t.Fatal("no answer was lost")
	}
	verify(t, s, versions(1, "a/1", "a/2"))
	other, _ := openShared(t, url, filepath.Join(fastDir(t), "other"))
	sameContent(t, s, other)
}

// A replica is not brought up to date by a database that was restored from a backup and has gone on: it is set aside,
// and another one is made.
func TestSharedOtherHistory(t *testing.T) {
	server := postgres.Start(t)
	url, dir := server.URL(), filepath.Join(fastDir(t), "s")
	s, r := openShared(t, url, dir)
	mustCommit(t, s, batchOf(1, testDim, ids("a", 5)...))
	if err := errors.Join(s.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	server.Exec("postgres", `CREATE DATABASE backup TEMPLATE base1`)
	s, r = openShared(t, url, dir)
	mustCommit(t, s, batchOf(1, testDim, "b/1")) // is lost
	if err := errors.Join(s.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	server.Exec("postgres", `DROP DATABASE base1`)
	server.Exec("postgres", `CREATE DATABASE base1 TEMPLATE backup`)
	other, _ := openShared(t, url, filepath.Join(fastDir(t), "other"))
	mustCommit(t, other, batchOf(1, testDim, "c/1"))
	mustCommit(t, other, batchOf(1, testDim, "c/2"))
	s, _ = openShared(t, url, dir)
	verify(t, s, versions(1, append(ids("a", 5), "c/1", "c/2")...))
	old, err := open(t.Context(), dir+asideSuffix, Options{ReadOnly: true}, testSeams())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	verify(t, old, versions(1, append(ids("a", 5), "b/1")...))
}
