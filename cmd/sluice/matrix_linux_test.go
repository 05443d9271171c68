package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMatrixOnAFullDisk checks that the error states the space needed, and that no file is left.
func TestMatrixOnAFullDisk(t *testing.T) {
	b := newBench(t)
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("SKIP: mounting a tmpfs needs root: %v", err)
	}
	defer unix.Unmount(mount, unix.MNT_DETACH)
	x := b.npyFile("x.npy", gaussian(12, 600, 8))
	out := filepath.Join(mount, "out.npy")
	for _, extra := range [][]string{nil, {"--topk", "200"}} {
		b.fails(exitFailure, "no space left", append([]string{"matrix", x, x, "--out", out}, extra...)...)
		b.fails(exitFailure, "needs ", append([]string{"matrix", x, x, "--out", out}, extra...)...)
	}
	if left, err := os.ReadDir(mount); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	b.ok("matrix", x, x, "--topk", "3", "--out", out)
}
