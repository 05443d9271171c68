package matrixfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes the space of the whole file, so that a full disk shows before hours of work. File systems that
// cannot do that get only the length.
func reserve(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return f.Truncate(size)
}
