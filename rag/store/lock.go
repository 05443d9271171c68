package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// lockWriter takes the writer's lock of a store folder. The kernel gives it back when the process
// dies, so a kill never leaves a stale one. The process id in the file is for the message only.
func lockWriter(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("store %s: take the writer's lock: %w", dir, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		// Fixed width and in place: works on a full disk after the first time. Failure costs a number
		// in another process's message, nothing else.
		_, _ = f.WriteAt([]byte(fmt.Sprintf("%-20d\n", os.Getpid())), 0)
		return f, nil
	}
	defer f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is held by %s: wait for it, or end it; reading is possible meanwhile",
			ErrLocked, dir, holder(f))
	}
	return nil, fmt.Errorf("store %s: lock %s: %w", dir, path, err)
}

// holder names the process that wrote its id into the lock file.
func holder(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	switch {
	case err != nil:
		return "an unknown process"
	case pid == os.Getpid():
		return fmt.Sprintf("this process (%d)", pid)
	}
	return fmt.Sprintf("process %d", pid)
}
