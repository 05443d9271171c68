//go:build linux || darwin

package fetch

import (
	"math"
	"syscall"
)

// freeBytes returns how much an ordinary user may still write to the file system of a folder.
func freeBytes(dir string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Bsize <= 0 || s.Bavail > math.MaxInt64/uint64(s.Bsize) {
		return 0, false
	}
	return int64(s.Bavail * uint64(s.Bsize)), true
}
