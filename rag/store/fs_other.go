//go:build !linux

package store

import "os"

// fdatasync is File.Sync elsewhere (on darwin that is F_FULLFSYNC, the only one that reaches the disk).
func fdatasync(f *os.File) error { return f.Sync() }
