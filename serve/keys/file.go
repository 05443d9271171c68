package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
)

// File is a file of keys in use. Its methods may be called from any goroutine.
type File struct {
	path string // "": the keys stay as they are
	now  func() time.Time

	mu     sync.Mutex
	list   []Key
	state  fs.FileInfo
	looked time.Time
	failed error // of the last look at the file; the earlier keys count
}

// again is how often a file is looked at.
const again = time.Second

// Open reads a file of keys. ErrFile, if it holds none.
func Open(path string) (*File, error) {
	f := &File{path: path, now: time.Now}
	if err := f.read(); err != nil {
		return nil, err
	}
	if len(f.list) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNone)
	}
	return f, nil
}

// Of returns keys that are not of a file.
func Of(list []Key) *File { return &File{list: list, now: time.Now} }

func (f *File) read() error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	state, err := in.Stat()
	if err != nil {
		return err
	}
	list, err := Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.list, f.state = list, state
	return nil
}

// List returns the keys as the file has them now. The error, of a file that cannot be read any more, comes with the
// keys of before.
func (f *File) List() ([]Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); f.path != "" && now.Sub(f.looked) >= again {
		f.looked = now
		i, err := os.Stat(f.path)
		was := f.state
		if err == nil && (!os.SameFile(i, was) || i.Size() != was.Size() || !i.ModTime().Equal(was.ModTime())) {
			err = f.read()
		}
		f.failed = err
	}
	return f.list, f.failed
}

// Find returns the key with a text, unless it has expired.
func (f *File) Find(text string) (Key, bool) {
	list, _ := f.List()
	k, ok := find(list, text)
	return k, ok && !k.Expired(f.now())
}

// Path returns where the keys are kept, "" for keys that are not of a file.
func (f *File) Path() string { return f.path }

// look lets the next List look at the file.
func (f *File) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = time.Time{}
}

// Add makes a key and returns its text, which is told this once.
func (f *File) Add(k Key) (text string, err error) {
	defer f.look()
	return Add(f.path, k)
}

// Remove removes the key with a name.
func (f *File) Remove(name string) error {
	defer f.look()
	return Remove(f.path, name)
}

// Rotate makes another key with the name and all else of one, which counts on until a time, and returns its text.
func (f *File) Rotate(name string, until time.Time) (text string, err error) {
	defer f.look()
	return Rotate(f.path, name, until)
}

// Add adds a key with a name to a file, which is made when absent, and returns its text.
func Add(path string, k Key) (text string, err error) {
	if err := checkName(k.Name); err != nil {
		return "", err
	}
	for _, word := range slices.Concat(k.Bases, k.Groups) {
		if word == "" || strings.ContainsAny(word, " \t\r\n,=#") {
			return "", fmt.Errorf("%w: base or group %.80q: no space, comma, '=' or '#'", ErrFile, word)
		}
	}
	err = edit(path, true, func(list []Key) ([]Key, error) {
		if slices.ContainsFunc(list, func(x Key) bool { return x.Name == k.Name }) {
			return nil, fmt.Errorf("%w: %q exists already", ErrName, k.Name)
		}
		text, k.Digest = draw()
		return append(list, k), nil
	})
	return text, err
}

// Remove removes the key with a name from a file.
func Remove(path, name string) error {
	return edit(path, false, func(list []Key) ([]Key, error) {
		i, err := named(list, name)
		if err != nil {
			return nil, err
		}
		return slices.Delete(list, i, i+1), nil
	})
}

// Rotate gives a name another key. The earlier one is valid until a time, under the name with ".old" behind it.
func Rotate(path, name string, until time.Time) (text string, err error) {
	err = edit(path, false, func(list []Key) ([]Key, error) {
		i, err := named(list, name)
		if err != nil {
			return nil, err
		}
		old := list[i]
		old.Name += ".old"
		if old.Expires.IsZero() || old.Expires.After(until) {
			old.Expires = until.UTC().Truncate(time.Second)
		}
		list = slices.DeleteFunc(list, func(x Key) bool { return x.Name == old.Name })
		i, _ = named(list, name)
		text, list[i].Digest = draw()
		return append(list, old), nil
	})
	return text, err
}

func named(list []Key, name string) (int, error) {
	i := slices.IndexFunc(list, func(x Key) bool { return x.Name == name })
	if i < 0 || name == "" {
		return i, fmt.Errorf("%w: there is no key %.80q", ErrName, name)
	}
	return i, nil
}

// edit changes a file of keys, which holds digests only from then on. Its comments stay, above the keys.
func edit(path string, create bool, change func([]Key) ([]Key, error)) error {
	lock, err := filelock.Take(path)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the file is written by then
	raw, err := os.ReadFile(path)
	if err != nil && !(create && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	list, err := Read(strings.NewReader(string(raw)))
	if err == nil {
		list, err = change(list)
	}
	if err != nil {
		return err
	}
	err = durable.Replace(path, func(w io.Writer) error {
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				if _, err := fmt.Fprintln(w, strings.TrimSpace(line)); err != nil {
					return err
				}
			}
		}
		for _, k := range list {
			if _, err := fmt.Fprintln(w, k.line()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}
