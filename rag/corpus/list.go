package corpus

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
)

// File is a regular file that Load would read, or skip because of its kind.
type File struct {
	Path   string // as it was given, or the given path joined with the path below it: as Document.Source
	Name   string // relative to the folder given, with slashes; the base name of a file that was given
	Real   string // absolute, links followed
	Folder string // the given folder, or the folder of the given file: as Real
	Given  bool   // the file was given, not a folder
	Info   fs.FileInfo
}

// Via returns the absolute path by which the file was reached: Real, unless that was a link.
func (f File) Via() string {
	if f.Given {
		if path, err := filepath.Abs(f.Path); err == nil {
			return path
		}
	}
	return filepath.Join(f.Folder, filepath.FromSlash(f.Name))
}

// List finds the files below paths as Load does, in the same order, and opens none of them. What it skips is reported
// to o.OnSkip, or with o.Strict is the error. Finding no file is not an error.
func List(ctx context.Context, paths []string, o LoadOptions) (files []File, err error) {
	if err := o.FileOptions.check(); err != nil {
		return nil, err
	}
	w := newWalker(ctx, o.FileOptions)
	w.file = func(f found) error {
		files = append(files, File{Path: f.path, Name: f.name, Real: f.real, Folder: f.folder, Given: f.given,
			Info: f.info})
		return ctx.Err()
	}
	w.skip = func(source string, err error, fault bool) error {
		if fault && o.Strict {
			return fmt.Errorf("%s: %w", source, err)
		}
		if o.OnSkip != nil {
			o.OnSkip(Skipped{Source: source, Err: err})
		}
		return nil
	}
	err = w.paths(paths)
	return files, err
}

// Folders calls enters for each folder that List reads, just before it is read, so that a watch set in enters misses no
// file. Of a given file it is the folder that holds it. Unreadable folders are left out.
func Folders(ctx context.Context, paths []string, o FileOptions, enters func(dir string)) error {
	if err := o.check(); err != nil {
		return err
	}
	w := newWalker(ctx, o)
	w.enters = enters
	w.file = func(f found) error {
		if f.given {
			enters(filepath.Dir(f.path))
		}
		return ctx.Err()
	}
	w.skip = func(string, error, bool) error { return nil }
	return w.paths(paths)
}

// LoadFiles yields the documents of files that List has found, as Load does: the next file is requested when the last
// one has been read to its end, and its Info is updated. Finding no document is not an error.
func LoadFiles(ctx context.Context, files iter.Seq[File], o LoadOptions) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		l := newLoader(ctx, o, yield)
		defer l.close()
		for f := range files {
			at := found{path: f.Path, name: f.Name, real: f.Real, folder: f.Folder, given: f.Given}
			if l.file(at.is(f.Info)) != nil {
				return
			}
		}
	}
}
