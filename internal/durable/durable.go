// Package durable replaces files so that a power cut leaves the old one or the new one.
package durable

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace writes a file atomically and durably: to a temporary file, which is synced and renamed, and the folder is
// synced. Its mode is FileMode's.
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
	if err := errors.Join(w.Flush(), f.Chmod(FileMode(filepath.Dir(name))), f.Sync()); err != nil {
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

// MkdirAll makes a folder and its parents, and makes the names of the new ones durable.
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
	if err := os.Mkdir(dir, folderMode(parent)); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(parent)
}

// MkdirPrivate makes a folder that only its owner may use, and its parents. An existing folder is not changed.
func MkdirPrivate(dir string, sync func(folder string) error) error {
	parent := filepath.Dir(dir)
	if err := MkdirAllWith(parent, sync); err != nil {
		return err
	}
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, os.ErrExist):
		return MkdirAllWith(dir, sync) // which reports a file with that name
	case err != nil:
		return err
	}
	return sync(parent)
}

// FileMode returns the mode of a new file in a folder: users who may read the folder may read the file. In a folder of
// its owner only, files are readable only by the owner, regardless of the umask.
func FileMode(dir string) os.FileMode { return 0o600 | permissions(dir)&0o044 }

// folderMode returns the mode of a new folder in another one, by the same rule.
func folderMode(parent string) os.FileMode { return 0o700 | permissions(parent)&0o055 }

func permissions(dir string) os.FileMode {
	info, err := os.Stat(dir)
	if err != nil {
		return 0o755 // the next call on it reports the error
	}
	return info.Mode().Perm()
}
