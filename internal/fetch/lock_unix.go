//go:build unix

package fetch

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an exclusive lock that the kernel drops with the file, also when the process dies.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
