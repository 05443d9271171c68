// Package filelock gives a file to one user at a time, within this process and between processes. The kernel releases
// the lock when the process ends, so a killed process leaves no stale lock.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHeld is wrapped by the error for a lock that is held by another user.
var ErrHeld = errors.New("in use")

// HeldError names a file in use and the process that holds it. It unwraps to ErrHeld.
type HeldError struct {
	File string // what the lock protects
	PID  int    // of the process that holds it; 0: unknown
}

func (e *HeldError) Unwrap() error { return ErrHeld }

// Holder names the process in words.
func (e *HeldError) Holder() string {
	switch {
	case e.PID == os.Getpid():
		return fmt.Sprintf("another call of this process (%d)", e.PID)
	case e.PID > 0:
		return fmt.Sprintf("process %d", e.PID)
	}
	return "an unknown process"
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is %v: %s is working on it; wait for that, or end it", e.File, ErrHeld, e.Holder())
}

// Suffix is appended to the name of a file to name its lock file, which remains after the lock is released.
const Suffix = ".lock"

// Lock is held until Release.
type Lock struct{ f *os.File }

// Take locks a file, which need not exist, by locking a file beside it, because the file itself may be replaced. It
// does not wait: if another call or process holds the lock, the error is a *HeldError.
func Take(file string) (*Lock, error) {
	f, err := os.OpenFile(file+Suffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	if err := Try(f, file); err != nil {
		f.Close()
		return nil, err
	}
	return &Lock{f}, nil
}

// Try locks an open file until it is closed or unlocked. It does not wait: if another call or process holds the lock,
// the error is a *HeldError that names protects.
func Try(f *os.File, protects string) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			// Writing a fixed width in place works on a full disk after the first time. A failure only means that
			// another process's message lacks the process id.
			_, _ = f.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 0)
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return &HeldError{File: protects, PID: holder(f)}
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", protects, err)
		}
	}
}

// Wait locks an open file, exclusively or shared, as soon as no conflicting lock is held.
func Wait(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Unlock releases a lock of Try or Wait. It cannot fail for a held lock.
func Unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// Release releases the lock. A nil lock and a second call do nothing.
func (l *Lock) Release() error {
	if l == nil || l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return f.Close()
}

// holder returns the process id in a lock's file, or 0 without one.
func holder(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
