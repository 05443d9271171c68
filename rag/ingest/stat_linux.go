package ingest

import (
	"io/fs"
	"syscall"
)

// systemOf returns a file's attributes besides its size and time: when its content, name or rights changed last, in
// nanoseconds since 1970, and its inode number. Programs cannot set either.
func systemOf(info fs.FileInfo) (changed int64, inode uint64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return s.Ctim.Nano(), s.Ino
}
