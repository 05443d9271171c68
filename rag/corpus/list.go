package corpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
)

// File is a regular file that Load would read, or leave out because of what it is.
type File struct {
	Path   string // as it was given, or what was given with what lies below it: as Document.Source has it
	Name   string // relative to the folder given, with slashes; of a file that was given its base name
	Real   string // absolute, links followed
	Folder string // that was given, or that of the file that was given: as Real
	Given  bool   // the file was given, not a folder
	Info   fs.FileInfo
}

// Via is the absolute path by which the file was reached: Real, unless that was a link.
func (f File) Via() string {
	if f.Given {
		if path, err := filepath.Abs(f.Path); err == nil {
			return path
		}
	}
	return filepath.Join(f.Folder, filepath.FromSlash(f.Name))
}

// List finds the files below paths as Load does, in the same order, and opens none of them. What it leaves out goes to
// o.OnSkip, or with o.Strict is the error. That nothing is there is no error.
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
			o.OnSkip(Skipped{source, err})
		}
		return nil
	}
	for _, p := range paths {
		if err := errors.Join(ctx.Err(), w.path(p)); err != nil {
			return files, err
		}
	}
	return files, nil
}

// Folders calls enters for each folder that List reads, just before it is read: whoever has it watched from then on
// misses no file. Files that are given bring the folders that they lie in. What cannot be read is left out.
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
	for _, p := range paths {
		if err := errors.Join(ctx.Err(), w.path(p)); err != nil {
			return err
		}
	}
	return nil
}

// LoadFiles yields the documents of files that List has found, as Load does: the next file is asked for when the last
// one has been read to its end, and its Info says what it is now. That there was no document is no error.
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
