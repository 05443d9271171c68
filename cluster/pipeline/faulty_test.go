package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

// faulty is an object storage in memory that fails, or panics, when it is told to. Workers find it by its address.
type faulty struct {
	mu      sync.Mutex
	objects map[string][]byte
	writes  int                           // of objects that were there already
	fails   func(what, name string) error // called before each operation; nil: nothing fails
}

var errOutage = errors.New("the storage is out of order")

// scheme is under which the tests' storages are registered.
const scheme = "faulty"

// storages holds the storages of the tests, by the host of their address.
type storages struct {
	mu sync.Mutex
	of map[string]*faulty
}

func (s *storages) OpenBucketURL(_ context.Context, u *url.URL) (*blob.Bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of[u.Host]
	if f == nil {
		return nil, errors.New("no such storage")
	}
	return blob.NewBucket(&bucket{f}), nil
}

func (s *storages) add(name string) *faulty {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &faulty{objects: map[string][]byte{}}
	s.of[name] = f
	return f
}

func (f *faulty) list(kind string) (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.objects {
		if strings.HasPrefix(name, kind+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// check fails if it is this operation's turn.
func (f *faulty) check(what, name string) error {
	f.mu.Lock()
	fails := f.fails
	f.mu.Unlock()
	if fails == nil {
		return nil
	}
	return fails(what, name)
}

type bucket struct{ f *faulty }

func (b *bucket) ErrorCode(err error) gcerrors.ErrorCode {
	if errors.Is(err, errMissing) {
		return gcerrors.NotFound
	}
	return gcerrors.Unknown
}

var errMissing = errors.New("no such object")

func (b *bucket) As(any) bool             { return false }
func (b *bucket) ErrorAs(error, any) bool { return false }
func (b *bucket) Close() error            { return nil }

func (b *bucket) get(what, name string) ([]byte, error) {
	if err := b.f.check(what, name); err != nil {
		return nil, err
	}
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	data, ok := b.f.objects[name]
	if !ok {
		return nil, errMissing
	}
	return data, nil
}

func (b *bucket) Attributes(_ context.Context, name string) (*driver.Attributes, error) {
	data, err := b.get("stat", name)
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{Size: int64(len(data)), ModTime: time.Unix(0, 0)}, nil
}

func (b *bucket) ListPaged(context.Context, *driver.ListOptions) (*driver.ListPage, error) {
	return &driver.ListPage{}, nil
}

type reader struct {
	io.Reader
	size int64
}

func (r *reader) Close() error                         { return nil }
func (r *reader) As(any) bool                          { return false }
func (r *reader) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{Size: r.size} }

func (b *bucket) NewRangeReader(_ context.Context, name string, from, length int64, _ *driver.ReaderOptions) (
	driver.Reader, error) {
	data, err := b.get("read", name)
	if err != nil {
		return nil, err
	}
	part := data[min(from, int64(len(data))):]
	if length >= 0 {
		part = part[:min(length, int64(len(part)))]
	}
	return &reader{bytes.NewReader(part), int64(len(data))}, nil
}

type writer struct {
	bytes.Buffer
	b    *bucket
	name string
}

func (w *writer) Close() error {
	if err := w.b.f.check("write", w.name); err != nil {
		return err
	}
	w.b.f.mu.Lock()
	defer w.b.f.mu.Unlock()
	if _, there := w.b.f.objects[w.name]; there {
		w.b.f.writes++
	}
	w.b.f.objects[w.name] = slices.Clone(w.Bytes())
	return nil
}

func (b *bucket) NewTypedWriter(_ context.Context, name, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	return &writer{b: b, name: name}, nil
}

func (b *bucket) Copy(context.Context, string, string, *driver.CopyOptions) error { return errMissing }
func (b *bucket) Delete(context.Context, string, *driver.DeleteOptions) error     { return errMissing }
func (b *bucket) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errMissing
}
