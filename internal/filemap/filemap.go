// Package filemap maps files into memory to read them.
package filemap

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const populate = 0x8000 // MAP_POPULATE of Linux, which other systems do not have

// Map maps the first size bytes of a file, which may be closed afterwards; nil for 0 bytes. With all, the pages are
// read at once if the system can do that.
func Map(f *os.File, size int64, all bool) ([]byte, error) {
	if size == 0 {
		return nil, nil // which cannot be mapped
	}
	flags := unix.MAP_SHARED
	if all && runtime.GOOS == "linux" {
		flags |= populate
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, flags)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes: %w", size, err)
	}
	return b, nil
}

// Unmap ends what Map began; nil is nothing.
func Unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}
