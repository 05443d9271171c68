// Package durable replaces files so that a power cut leaves the old one or the new one.
package durable

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace writes a file by write: under a name of its own first, which is synced, then renamed, and the folder is
// synced. So name is there whole, or as it was before; mode is 0644.
func Replace(name string, write func(io.Writer) error) error {
	if err := Put(name, write); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}

// Put is Replace without the sync of the folder: of several files, that one is enough.
func Put(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // the first error counts
			_ = os.Remove(f.Name()) // as above
		}
	}()
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := errors.Join(w.Flush(), f.Chmod(0o644), f.Sync()); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// SyncDir makes the names in a folder durable: a file that was synced may still lack its name.
func SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MkdirAll makes a folder and those that it lies in, and makes the names of the new ones durable.
func MkdirAll(dir string) error { return MkdirAllWith(dir, SyncDir) }

// MkdirAllWith is MkdirAll with another SyncDir.
func MkdirAllWith(dir string, sync func(folder string) error) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAllWith(parent, sync); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(parent)
}
