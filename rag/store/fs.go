package store

import (
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/durable"
)

// fsys is everything the store asks of the file system for its segments. Tests replace it to fail,
// to kill the process or to lose unsynced data at any of its calls.
type fsys interface {
	OpenFile(name string, flag int) (file, error)
	Remove(name string) error
	SyncDir(name string) error
	// Replace writes a file that is there whole, under its name and durably, or as it was before.
	Replace(name string, write func(io.Writer) error) error
}

// file is an open segment.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error // data and the metadata needed to read it back
	Fd() uintptr
}

// osFS is the operating system's file system.
type osFS struct{}

func (osFS) OpenFile(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, durable.FileMode(filepath.Dir(name)))
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Remove(name string) error { return os.Remove(name) }

// SyncDir makes the names in a folder durable (a file that was synced may still lack its name).
func (osFS) SyncDir(name string) error { return durable.SyncDir(name) }

func (osFS) Replace(name string, write func(io.Writer) error) error {
	return durable.Replace(name, write)
}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return fdatasync(f.File) }

func (f osFile) Size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}
