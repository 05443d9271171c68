package setup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/filehash"
)

// untar writes those regular files of a .tar.gz for which keep returns true to dir, below their path without the
// prefix. Links, devices and names that leave dir are refused, and so is an archive without such a file.
func untar(archive, prefix, dir string, keep func(name string) bool) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	none := true
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			if none {
				return fmt.Errorf("%s has nothing below %s", archive, prefix)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		name, ok := strings.CutPrefix(h.Name, prefix+"/")
		if !ok || h.Typeflag == tar.TypeDir || !keep(name) {
			continue
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
			return fmt.Errorf("%s: member %q is not a plain file below its folder", archive, h.Name)
		}
		if err := WriteFile(filepath.Join(dir, filepath.FromSlash(name)), t,
			fs.FileMode(h.Mode)&0o755|0o644); err != nil {
			return err
		}
		none = false
	}
}

// WriteFile creates a file with its folders.
func WriteFile(name string, r io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// copyFile copies by way of a temporary name, so that a reader sees the old file or the new one.
func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	tmp := to + ".tmp"
	if err := WriteFile(tmp, f, st.Mode().Perm()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, to)
}

// glob returns the files that match, at least one, or an error that names the missing pattern.
func glob(dir string, patterns ...string) (files []string, err error) {
	for _, p := range patterns {
		m, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(p)))
		if err != nil {
			return nil, err
		}
		if len(m) == 0 {
			return nil, fmt.Errorf("nothing matches %s in %s", p, dir)
		}
		files = append(files, m...)
	}
	return files, nil
}

// copyInto copies files into a folder under their own names.
func copyInto(dir string, files ...string) error {
	for _, f := range files {
		if err := copyFile(f, filepath.Join(dir, filepath.Base(f))); err != nil {
			return err
		}
	}
	return nil
}

// relink makes a link, and replaces an existing one, which may point to files of other pins.
func relink(to, link string) error {
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(to, link)
}

// sourceDigests returns "name digest" of the files in dir with one of the extensions, in order of name.
func sourceDigests(dir string, ext ...string) (digests []string, err error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		if d.Type().IsRegular() && slices.Contains(ext, path.Ext(d.Name())) {
			h, err := filehash.Sum(context.Background(), filepath.Join(dir, d.Name()))
			if err != nil {
				return nil, err
			}
			digests = append(digests, d.Name()+" "+h)
		}
	}
	return digests, nil
}
