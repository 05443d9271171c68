//go:build unix

package matrixfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file of size bytes to read.
func mapFile(f *os.File, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil // which cannot be mapped
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes: %w", size, err)
	}
	return b, nil
}

func unmapFile(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}
