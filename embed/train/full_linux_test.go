package train

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk fills a file system after the first epoch: the next checkpoint is an error that says so, the one before
// it stays, and with room the training goes on from there, to the same bits.
func TestFullDisk(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("SKIP: mounting a tmpfs needs root: %v", err)
	}
	defer func() { _ = unix.Unmount(mount, unix.MNT_DETACH) }()
	in := input(t, bertDir(t))
	want := in
	trainOrFail(t, want)
	in.Out = filepath.Join(mount, "out")
	filler := filepath.Join(mount, "filler")
	in.Hooks.Epoch = func(Epoch) {
		if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Error("the disk is not full:", err)
		}
	}
	_, err := Classifier(t.Context(), in)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the one before it is kept") {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(in.Out); err != nil || len(entries) != 2 {
		t.Errorf("beside the checkpoint and its lock: %v, %v", entries, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	resumed := 0
	in.Hooks.Epoch, in.Hooks.Resumed = nil, func(_, step int) { resumed = step }
	trainOrFail(t, in)
	if resumed == 0 {
		t.Error("it began anew")
	}
	if !bytes.Equal(weightsOf(t, in.Out), weightsOf(t, want.Out)) {
		t.Error("other bits than without the full disk")
	}
}
