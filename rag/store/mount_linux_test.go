package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// A real file system with less and less space left.
func TestFullDisk(t *testing.T) {
	race.Skip(t)
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("mounting a tmpfs needs root: %v", err)
	}
	defer unix.Unmount(mount, unix.MNT_DETACH)
	dir, filler := filepath.Join(mount, "store"), filepath.Join(mount, "filler")
	s := mustOpen(t, dir, testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 100)...))
	want := versions(1, ids("a", 100)...)
	var failed, done int
	for kib := 0; done < 2; kib += 40 { // kib left free
		var st unix.Statfs_t
		if err := unix.Statfs(mount, &st); err != nil {
			t.Fatal(err)
		}
		if free := int(st.Bavail)*int(st.Bsize) - kib<<10; free > 0 {
			if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, free), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b := batchOf(1, testDim, ids(fmt.Sprint("b", kib), 600)...)
		_, err := s.Commit(context.Background(), b)
		switch {
		case err == nil:
			done++
			maps.Copy(want, versions(1, ids(fmt.Sprint("b", kib), 600)...))
		case errors.Is(err, syscall.ENOSPC):
			failed++
		default:
			t.Fatalf("%d KiB free: %v", kib, err)
		}
		verify(t, s, want)
		if failed%4 == 1 || done == 1 {
			s.Close()
			s = mustOpen(t, dir, testSeams()) // still full
			verify(t, s, want)
		}
		if err := os.Remove(filler); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if failed < 3 {
		t.Fatalf("the disk was full %d times only", failed)
	}
	s.Close()
}

func TestReadOnlyFileSystem(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("mounting a tmpfs needs root: %v", err)
	}
	defer unix.Unmount(mount, unix.MNT_DETACH)
	s := mustOpen(t, mount, testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 50)...))
	s.Close()
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	r, err := Open(context.Background(), mount, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, r, versions(1, ids("a", 50)...))
	r.Close()
	if _, err := Open(context.Background(), mount, Options{}); !errors.Is(err, unix.EROFS) ||
		!strings.Contains(err.Error(), mount) {
		t.Fatal(err)
	}

	// Not closed by its writer: the log cannot be merged here, an old state is not passed off as the store.
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	c, in, out := start(t, "hold", mount)
	_, _ = out.ReadString('\n')
	fmt.Fprintln(in, "b/0")
	if line, err := out.ReadString('\n'); err != nil || line != "ok\n" {
		t.Fatal(line, err)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	os.Remove(filepath.Join(mount, databaseName+"-shm"))
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if r, err := Open(context.Background(), mount, Options{ReadOnly: true}); !errors.Is(err, ErrReadOnly) ||
		!strings.Contains(err.Error(), "was not closed") {
		if err == nil {
			r.Close()
		}
		t.Fatal(err)
	}
}
