package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// stored reads the live chunks with their versions, told from their text digests.
func stored(t *testing.T, s *Store) map[string]int {
	t.Helper()
	v, done := liveOf(t, s)
	defer done()
	got := map[string]int{}
	for k, err := range s.AllChunks(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		for version := 1; version < 60; version++ {
			if k.Text == textOf(k.ID, version) {
				got[k.ID] = version
			}
		}
	}
	if len(got) != len(v.IDs) {
		t.Fatalf("%d chunks of known text, %d in the view", len(got), len(v.IDs))
	}
	return got
}

// kill -9 at each step of one Commit.
func TestCrashAtEachStep(t *testing.T) {
	race.Skip(t)
	dir := t.TempDir()
	s := mustOpen(t, dir, testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 700)...))
	want := versions(1, ids("a", 700)...)
	s.Close()
	for n := 1; ; n++ {
		c, _, out := start(t, "crash", dir, fmt.Sprint(n))
		said, _ := io.ReadAll(out)
		err := c.Wait()
		s := mustOpen(t, dir, testSeams())
		if len(said) > 0 {
			want = crashed(n)
			verify(t, s, want)
			if err != nil || n < 9 {
				t.Fatalf("survived with %d steps: %v", n-1, err)
			}
			return
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("step %d: %v", n, err)
		}
		verify(t, s, want)
		s.Close()
	}
}

// Two processes: one writer, any number of readers, which see what is committed meanwhile.
func TestTwoProcesses(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	c, in, out := start(t, "hold", dir)
	expect := func(want string) {
		t.Helper()
		if line, err := out.ReadString('\n'); err != nil || line != want+"\n" {
			t.Fatalf("%q %v, want %q", line, err, want)
		}
	}
	expect("ready")
	r, err := Open(ctx, dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := map[string]int{}
	for i := range 3 {
		id := fmt.Sprintf("a/%d", i)
		fmt.Fprintln(in, id)
		expect("ok")
		want[id] = 1
		verify(t, r, want)
	}
	if _, err := r.Commit(ctx, batchOf(1, testDim, "x/0")); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	if _, err := r.DeleteDocuments(ctx, []string{"a"}); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	if err := r.SetMeta(ctx, "k", nil); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	w := mustOpen(t, dir, testSeams()) // the lock died with its holder
	verify(t, w, want)
}

// Two processes write in turns: the lock is held for a transaction, whoever waits for it honours their context, and
// after a while says who has it.
func TestWritersTakeTurns(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	c, in, out := start(t, "hold", dir)
	expect := func(want string) {
		t.Helper()
		if line, err := out.ReadString('\n'); err != nil || line != want+"\n" {
			t.Fatalf("%q %v, want %q", line, err, want)
		}
	}
	expect("ready")
	x := testSeams()
	x.patient = 20 * time.Millisecond
	w := mustOpen(t, dir, x)
	mustCommit(t, w, batchOf(1, testDim, "w/0"))
	fmt.Fprintln(in, "h/0")
	expect("ok")
	mustCommit(t, w, batchOf(1, testDim, "w/1")) // behind the row of the other process
	want := versions(1, "w/0", "h/0", "w/1")
	verify(t, w, want)

	fmt.Fprintln(in, "stop h/1") // within its transaction
	expect("stopped")
	if _, err := w.Commit(ctx, batchOf(1, testDim, "w/2")); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d", c.Process.Pid)) ||
		!strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
	w.lock.patient = time.Hour
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := w.Commit(short, batchOf(1, testDim, "w/2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if waited := time.Since(begun); waited > 5*time.Second {
		t.Fatalf("the context was honoured after %v", waited)
	}
	verify(t, w, want) // reading waits for nobody
	fmt.Fprintln(in, "go")
	expect("ok")
	mustCommit(t, w, batchOf(1, testDim, "w/2"))
	want["h/1"], want["w/2"] = 1, 1
	verify(t, w, want)
	in.Close()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}
