package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/ignore"
)

// FileOptions selects the files below a folder that are read, and how. The zero value leaves out hidden files, those
// that ignore files name, and folders of packages and caches.
type FileOptions struct {
	// Include and Exclude are patterns of paths relative to the folder given: "*", "?", "[a-z]" and "{a,b}" within a
	// part between slashes, "**" across parts; one without a slash is compared with the name alone. With Include only
	// files that match one of its patterns are read; Exclude overrides it, for folders as well. Both apply to given
	// files, too.
	Include, Exclude []string
	Hidden           bool // files and folders whose names begin with a dot are read
	// NoIgnore reads what .gitignore, .ignore and .sluiceignore name, and folders of packages, caches and versions.
	NoIgnore bool
	Archives ArchiveLimits `key:".ingest"`
	Encoding string        `key:"encoding" doc:"encoding of texts (txt, md, html, csv, tsv), such as windows-1252 or shift_jis; empty finds each one's"`
	// As is the format, by an extension that is read ("txt", "csv", "py"), of all given files, and of those files in
	// folders and archives whose extensions do not name one; "": the extensions decide.
	As string
	// MaxSeconds bounds the parsing of a file, and also of a line and a message; 0 is 300.
	MaxSeconds float64 `key:"max_file_seconds" bounds:"1,86400" doc:"a file that takes longer to be parsed is skipped and reported, s; each MiB of it adds 5 s"`
}

// check refuses invalid patterns.
func (o FileOptions) check() error {
	for _, p := range slices.Concat(o.Include, o.Exclude) {
		if _, ok := ignore.New(p, true); !ok {
			return fmt.Errorf("%w: %q is no pattern of paths", ErrFormat, p)
		}
	}
	if o.As != "" && !isRead(o.As) {
		return fmt.Errorf("%w: %q is no format; these are: %s", ErrUnknown, o.As, formatNames)
	}
	if o.Encoding != "" {
		if _, err := charset.Named(o.Encoding); err != nil {
			return err
		}
	}
	return nil
}

// found is a regular file that a walk has found, or one in an archive.
type found struct {
	path     string      // as it was given, or the given path joined with the path below it
	name     string      // relative to the folder given, with slashes; the base name of a file that was given
	real     string      // absolute, with links followed
	folder   string      // the given folder, or the folder of the given file: as real
	given    bool        // the file was given, not a folder
	info     fs.FileInfo // nil for a file in an archive
	size     int64       // as far as known before reading; -1: unknown
	modified time.Time
	content  io.Reader // of a file in an archive; nil for any other
}

// open opens a found file for reading. It does not block if the file has become a pipe.
func (f found) open() (io.ReadCloser, error) {
	if f.content != nil {
		return io.NopCloser(f.content), nil
	}
	return regular.Open(f.path)
}

// is returns f with the state of its file when it was found.
func (f found) is(info fs.FileInfo) found {
	f.info, f.size, f.modified = info, info.Size(), info.ModTime()
	return f
}

// in returns a file in the archive f, by its path there.
func (f found) in(inner string, size int64, modified time.Time, content io.Reader) found {
	f.path, f.name, f.real = f.path+"/"+inner, f.name+"/"+inner, f.real+"/"+inner
	f.info, f.size, f.modified, f.content = nil, size, modified, content
	return f
}

// walker finds the files below paths, each once, folders in the order of names. It opens only ignore files.
type walker struct {
	ctx context.Context
	o   FileOptions
	// file is called for each; its error ends the walk.
	file func(found) error
	// skip is called for what is left out; fault reports that it should have been readable. Its error ends the walk.
	skip func(source string, err error, fault bool) error

	enters           func(dir string) // called for each folder before it is read; may be nil
	include, exclude []ignore.Pattern
	seen             map[string]bool // by found.real
	folder           string          // found.folder of the current path
	only             *ignore.Pattern // the current path, if it is a pattern
	any              bool            // the pattern has matched something
}

// newWalker makes a walker; its callbacks may be set later.
func newWalker(ctx context.Context, o FileOptions) *walker {
	return &walker{ctx: ctx, o: o, include: globs(o.Include), exclude: globs(o.Exclude), seen: map[string]bool{}}
}

// paths walks paths until one fails.
func (w *walker) paths(paths []string) error {
	for _, p := range paths {
		if err := errors.Join(w.ctx.Err(), w.path(p)); err != nil {
			return err
		}
	}
	return nil
}

// path walks one path, which may be a pattern ("docs/**/*.md").
func (w *walker) path(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?[{") {
		return w.pattern(path)
	}
	if err == nil {
		w.folder, err = RealPath(path)
	}
	if err != nil {
		return w.skip(path, reason(err), true)
	}
	if !info.IsDir() {
		w.folder = filepath.Dir(w.folder)
		return w.visit(path, filepath.Base(path), info, true)
	}
	return w.tree(path)
}

// pattern walks the folder at the beginning of a pattern.
func (w *walker) pattern(path string) error {
	base, pattern := doublestar.SplitPattern(filepath.ToSlash(filepath.Clean(path)))
	glob, ok := ignore.New("/"+pattern, true)
	if !ok {
		return w.skip(path, fmt.Errorf("%w: no such file, and no pattern of paths", ErrFormat), true)
	}
	var err error
	if w.folder, err = RealPath(base); err != nil {
		return w.skip(path, reason(err), true)
	}
	hidden := w.o.Hidden
	w.only, w.any = &glob, false
	w.o.Hidden = hidden || strings.HasPrefix(pattern, ".") || strings.Contains(pattern, "/.") // as asked for
	err = w.tree(base)
	w.only, w.o.Hidden = nil, hidden
	if err == nil && !w.any {
		err = w.skip(path, fmt.Errorf("%w: no file matches it", ErrFormat), true)
	}
	return err
}

// globs parses patterns that have been checked.
func globs(patterns []string) (all []ignore.Pattern) {
	for _, p := range patterns {
		if g, ok := ignore.New(strings.TrimPrefix(p, "./"), true); ok {
			all = append(all, g)
		}
	}
	return all
}

// tree walks a folder that was given.
func (w *walker) tree(root string) error {
	var rules *ignore.Rules
	if !w.o.NoIgnore {
		rules = ignore.Above(w.folder)
	}
	return w.entries(root, "", rules)
}

// entries walks the content of a folder, whose path below the one given is rel.
func (w *walker) entries(dir, rel string, above *ignore.Rules) error {
	if w.enters != nil {
		w.enters(dir)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		if err := w.skip(dir, reason(err), true); err != nil {
			return err
		}
	}
	rules := above
	if !w.o.NoIgnore {
		rules = above.Below(filepath.Join(w.folder, filepath.FromSlash(rel)))
	}
	for _, e := range list {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		path, name := filepath.Join(dir, e.Name()), e.Name()
		if rel != "" {
			name = rel + "/" + name
		}
		if why := w.left(e, path, name, rules); why != nil {
			err = w.skip(path, why, false)
		} else if e.IsDir() {
			err = w.entries(path, name, rules)
		} else {
			err = w.entry(path, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry visits an entry that is not a folder. Links are followed to files only: a linked folder could be a loop.
func (w *walker) entry(path, name string) error {
	if w.only != nil {
		if !w.only.MatchesAbove(name) {
			return nil
		}
		w.any = true
	}
	info, err := os.Stat(path)
	if err != nil {
		return w.skip(path, reason(err), true)
	}
	return w.visit(path, name, info, false)
}

// left returns why an entry of a folder is left out, or nil.
func (w *walker) left(e fs.DirEntry, path, name string, rules *ignore.Rules) error {
	if strings.HasPrefix(e.Name(), ".") && !w.o.Hidden {
		return ErrHidden
	}
	if matchesAny(w.exclude, name) {
		return fmt.Errorf("%w: excluded", ErrIgnored)
	}
	if e.IsDir() && isStore(path) {
		return ErrStore
	}
	if w.o.NoIgnore {
		return nil
	}
	if e.IsDir() && isLitter(path, e.Name()) {
		return fmt.Errorf("%w: a folder of packages, caches or versions", ErrIgnored)
	}
	if by, yes := rules.Ignored(filepath.ToSlash(w.folder)+"/"+name, e.IsDir()); yes {
		return fmt.Errorf("%w: by %s", ErrIgnored, by)
	}
	return nil
}

// chosen returns why a file is left out by Include and Exclude, or nil.
func (w *walker) chosen(name string) error {
	switch {
	case slices.ContainsFunc(w.exclude, func(g ignore.Pattern) bool { return g.MatchesAbove(name) }):
		return fmt.Errorf("%w: excluded", ErrIgnored)
	case len(w.include) > 0 && !matchesAny(w.include, name):
		return fmt.Errorf("%w: not among those included", ErrIgnored)
	}
	return nil
}

func matchesAny(patterns []ignore.Pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(g ignore.Pattern) bool { return g.Matches(name) })
}

// litter are the names of folders of versions, packages and caches.
const litter = " .git .hg .svn .bzr .jj .pijul _darcs node_modules bower_components __pycache__ "

// isLitter reports whether a folder holds files that programs put there: versions, packages, caches.
func isLitter(path, name string) bool {
	has := func(file string) bool {
		_, err := os.Stat(filepath.Join(path, file))
		return err == nil
	}
	return doc.OneOf(name, litter) || name == "CVS" && has("Entries") || has("pyvenv.cfg") || has("CACHEDIR.TAG")
}

// visit passes on a file that may be read.
func (w *walker) visit(path, name string, info fs.FileInfo, given bool) error {
	switch {
	case info.IsDir():
		return w.skip(path, fmt.Errorf("%w: a link to a folder; give the folder itself", ErrUnknown), false)
	case !info.Mode().IsRegular():
		return w.skip(path, fmt.Errorf("%w: %v is not a regular file", ErrUnknown, info.Mode().Type()), given)
	}
	if why := w.chosen(name); why != nil && (archiveKind(name) == nil || matchesAny(w.exclude, name)) {
		return w.skip(path, why, false)
	}
	real, err := RealPath(path)
	if err != nil {
		return w.skip(path, reason(err), true)
	}
	if !utf8.ValidString(path + real) { // an id could not name it
		return w.skip(path, fmt.Errorf("%w: its name is not UTF-8; rename it", ErrFormat), true)
	}
	if w.seen[real] { // found by another path
		return nil
	}
	w.seen[real] = true
	return w.file(found{path: path, name: name, real: real, folder: w.folder, given: given}.is(info))
}

// RealPath returns an absolute path with links followed.
func RealPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// isStore reports whether a folder is a store of Sluice, whose journals of questions are not documents.
func isStore(path string) bool {
	for _, name := range []string{"sluice.db", "segments"} {
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			return false
		}
	}
	return true
}

// reason shortens an error of the operating system: the path is in Skipped.Source already.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}
