//go:build unix

package pairs

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file to read.
func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping outlives the descriptor
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|populate)
}

func unmapFile(data []byte) {
	if data != nil {
		_ = unix.Munmap(data) // of what was mapped it does not fail
	}
}
