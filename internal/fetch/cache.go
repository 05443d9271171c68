package fetch

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/filelock"
)

// EnvCache names the environment variable that moves the cache.
const EnvCache = "SLUICE_CACHE"

// Progress is called with the bytes that are there and the total (0: unknown), at most a few times a second.
type Progress func(name string, done, total int64)

// Want is a file to bring. With an empty SHA256 nothing can be verified but Size, and the caller records what came.
type Want struct {
	Name   string // for messages
	URL    string // for HTTP
	SHA256 string
	Git    string // SHA-1 of git's blob, as the hub states it for small files; "": unknown
	Size   int64  // 0: unknown
	Token  string // for the scheme, host and port of URL alone, not for where it leads; "": none
}

// Cache is a content-addressed folder of files. Its methods may be called from several goroutines and processes.
type Cache struct {
	root     string
	client   *http.Client
	log      func(format string, args ...any)
	sleep    func(ctx context.Context, d time.Duration) error
	retries  int
	backoff  time.Duration
	stall    time.Duration // of silence, after which an attempt is given up
	free     func(dir string) (bytes int64, ok bool)
	create   func(name string, flag int) (io.WriteCloser, error)
	download atomic.Int64
}

// Option changes how a Cache works.
type Option func(*Cache)

// WithLog sends remarks (retries, deleted files) to log. Without it they are dropped.
func WithLog(log func(format string, args ...any)) Option { return func(c *Cache) { c.log = log } }

// WithClient replaces the HTTP client.
func WithClient(h *http.Client) Option { return func(c *Cache) { c.client = h } }

// WithRetries sets how often a broken download is tried again and the first pause between tries, which then doubles.
func WithRetries(n int, first time.Duration) Option {
	return func(c *Cache) { c.retries, c.backoff = n, first }
}

// WithStall sets how long a server may be silent before an attempt counts as broken. It is a minute without this.
func WithStall(d time.Duration) Option { return func(c *Cache) { c.stall = d } }

// Root returns the cache folder of this user: $SLUICE_CACHE, else sluice in the user's cache folder.
func Root() (string, error) {
	if dir := os.Getenv(EnvCache); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("fetch: no cache folder: set %s: %w", EnvCache, err)
	}
	return filepath.Join(home, ".cache", "sluice"), nil
}

// Open returns the cache at root, or at Root() when root is empty. Nothing is created before it is needed.
func Open(root string, opts ...Option) (*Cache, error) {
	if root == "" {
		var err error
		if root, err = Root(); err != nil {
			return nil, err
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	c := &Cache{root: root, client: http.DefaultClient, log: func(string, ...any) {}, sleep: sleep, retries: 5,
		backoff: time.Second, stall: time.Minute, free: freeBytes}
	c.create = func(name string, flag int) (io.WriteCloser, error) { return os.OpenFile(name, flag, 0o644) }
	for _, o := range opts {
		o(c)
	}
	c.client = redirected(c.client)
	return c, nil
}

// Log passes a remark on to what WithLog has set.
func (c *Cache) Log(format string, args ...any) { c.log(format, args...) }

// Root returns the folder of the cache.
func (c *Cache) Root() string { return c.root }

// Path joins elements below the root.
func (c *Cache) Path(elem ...string) string {
	return filepath.Join(append([]string{c.root}, elem...)...)
}

// Downloaded returns the bytes that came over the network since Open.
func (c *Cache) Downloaded() int64 { return c.download.Load() }

// AddDownloaded counts bytes that another tool brought (cargo, go).
func (c *Cache) AddDownloaded(n int64) { c.download.Add(n) }

// Dir creates a folder below the root.
func (c *Cache) Dir(elem ...string) (string, error) {
	dir := c.Path(elem...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", ErrWrite, err)
	}
	return dir, nil
}

// Blob returns the path of a verified file. A blob that does not match its digest is deleted and logged, and treated
// as absent.
func (c *Cache) Blob(w Want) (string, bool) {
	if w.SHA256 == "" {
		return "", false
	}
	path := c.Path("blobs", w.SHA256)
	err := Verify(path, w)
	if errors.Is(err, ErrMismatch) {
		c.log("%s: the copy in the cache was damaged and has been deleted (%v)", w.Name, err)
		_ = os.Remove(path)
	}
	return path, err == nil
}

// Verify compares the file with its pin: its size, and its digests as far as they are known.
func Verify(path string, w Want) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if w.Size > 0 && st.Size() != w.Size {
		return &MismatchError{w.Name, "size", strconv.FormatInt(w.Size, 10), strconv.FormatInt(st.Size(), 10)}
	}
	for _, d := range []struct {
		what, want string
		sum        func(ctx context.Context, path string) (string, error)
	}{{"sha256", w.SHA256, filehash.Sum}, {"git's sha1", w.Git, gitSum}} {
		if d.want == "" {
			continue
		}
		got, err := d.sum(context.Background(), path)
		if err != nil {
			return err
		}
		if got != d.want {
			return &MismatchError{w.Name, d.what, d.want, got}
		}
	}
	return nil
}

// gitSum returns the SHA-1 by which git knows a file with the content of this one.
func gitSum(_ context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", st.Size())
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Room returns an error if the missing bytes of the files are more than the disk has room for.
func (c *Cache) Room(what string, files []Want) error {
	var missing int64
	for _, w := range files {
		n := w.Size
		if st, err := os.Stat(c.Path("blobs", w.SHA256)); err == nil && w.SHA256 != "" && st.Size() == n {
			continue
		}
		n = max(n-partial{c.Path("partial", w.key())}.size(), 0)
		missing = min(missing, math.MaxInt64-n) + n
	}
	return c.room(what, missing)
}

func (c *Cache) room(what string, missing int64) error {
	dir := c.root
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir) // the folders are made when there is something for them
	}
	if free, ok := c.free(dir); ok && missing > free {
		return fmt.Errorf("%w: %d bytes are missing of %s and %s has room for %d", ErrWrite, missing, what, c.root,
			free)
	}
	return nil
}

// key names what is on the way and its lock.
func (w Want) key() string {
	if w.SHA256 != "" {
		return w.SHA256
	}
	sum := sha256.Sum256([]byte(w.URL))
	return "url-" + hex.EncodeToString(sum[:])
}

// adopt verifies the file at path and gives it its name in the cache. A file that does not match is deleted.
func (c *Cache) adopt(path string, w Want) (string, error) {
	if err := Verify(path, w); err != nil {
		_ = os.Remove(path)
		return "", err
	}
	if w.SHA256 == "" {
		var err error
		if w.SHA256, err = filehash.Sum(context.Background(), path); err != nil {
			return "", err
		}
	}
	dir, err := c.Dir("blobs")
	if err != nil {
		return "", err
	}
	blob := filepath.Join(dir, w.SHA256)
	if err := os.Rename(path, blob); err != nil {
		return "", fmt.Errorf("%w: %w", ErrWrite, err)
	}
	return blob, nil
}

// Lock waits until no other process holds the named lock, and returns what releases it.
func (c *Cache) Lock(ctx context.Context, name string) (unlock func(), err error) {
	dir, err := c.Dir("locks")
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrite, err)
	}
	for said := false; ; said = true {
		err := filelock.Try(f, f.Name())
		if err == nil {
			return func() { _ = f.Close() }, nil // closing releases it
		}
		if !errors.Is(err, filelock.ErrHeld) {
			_ = f.Close()
			return nil, fmt.Errorf("fetch: locking %s: %w", f.Name(), err)
		}
		if !said {
			c.log("waiting for another process that holds %s", f.Name())
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
