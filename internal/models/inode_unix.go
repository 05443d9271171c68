//go:build unix

package models

import (
	"io/fs"
	"syscall"
)

// inode distinguishes a file from another one that took its name, even with the same size and time.
func inode(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}
