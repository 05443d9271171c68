// Package objects keeps what workers exchange in an object storage (file://, s3://, gs://, azblob://, mem://). An
// object is named by the sha256 of its content, so that writing it twice changes nothing, and reading it finds damage.
// Records name objects by what they are the result of.
package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// The errors of this package.
var (
	ErrDamaged  = errors.New("objects: the content does not fit the name")
	ErrNotFound = errors.New("objects: not found")
)

// Store is a bucket, or a folder of one.
type Store struct{ b *blob.Bucket }

// Open opens the bucket that an address names. The scheme's driver must be linked in; "?prefix=a/" is a folder of it.
func Open(ctx context.Context, address string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	if options := u.Query(); u.Scheme == "file" && !options.Has("metadata") {
		options.Set("metadata", "skip") // no second file with an MD5 beside each one
		u.RawQuery = options.Encode()
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("objects: opening %s: %w", address, err)
	}
	return &Store{b}, nil
}

// Fetch copies the objects of the bucket that an address names as files below a folder. A name that would leave the
// folder is an error.
func Fetch(ctx context.Context, address, folder string) (err error) {
	s, err := Open(ctx, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for list := s.b.List(nil); ; {
		o, err := list.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("objects: listing %s: %w", address, err)
		}
		name := filepath.FromSlash(o.Key)
		if strings.HasSuffix(o.Key, "/") { // stands for a folder
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("objects: %s has an object %q, which is no name of a file in a folder", address, o.Key)
		}
		data, err := s.read(ctx, o.Key)
		if err != nil {
			return err
		}
		to := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600)); err != nil {
			return err
		}
	}
}

// Close ends the use of the bucket.
func (s *Store) Close() error { return s.b.Close() }

// Name returns the name of a content among the objects of a kind.
func Name(kind string, data []byte) string {
	sum := sha256.Sum256(data)
	return path.Join(kind, hex.EncodeToString(sum[:]))
}

// Put writes an object unless it is there, and returns its name.
func (s *Store) Put(ctx context.Context, kind string, data []byte) (string, error) {
	name := Name(kind, data)
	return name, again(ctx, "writing "+name, func() error {
		there, err := s.b.Exists(ctx, name)
		if err != nil || there {
			return err
		}
		return s.write(ctx, name, data)
	})
}

// write writes an object without the two MD5 sums that Bucket.WriteAll computes: names are SHA-256 digests, which
// readers compare.
func (s *Store) write(ctx context.Context, name string, data []byte) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := s.b.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		stop() // so that Close does not finish it
		return errors.Join(err, w.Close())
	}
	return w.Close()
}

// Get reads an object; one whose content is another is ErrDamaged.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	data, err := s.read(ctx, name)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != path.Base(name) {
		return nil, fmt.Errorf("%w: %s", ErrDamaged, name)
	}
	return data, nil
}

func (s *Store) read(ctx context.Context, name string) (data []byte, err error) {
	err = again(ctx, "reading "+name, func() error {
		r, err := s.b.NewReader(ctx, name, nil)
		if err != nil {
			return err
		}
		var b bytes.Buffer // Bucket.ReadAll does not know the size, and copies what it has again and again
		b.Grow(int(max(r.Size(), 0)) + bytes.MinRead)
		_, err = b.ReadFrom(r)
		data = b.Bytes()
		return errors.Join(err, r.Close())
	})
	return data, err
}

// Part reads some bytes of an object. Whether they are damaged is not found out.
func (s *Store) Part(ctx context.Context, name string, from, length int64) (data []byte, err error) {
	err = again(ctx, "reading "+name, func() error {
		r, err := s.b.NewRangeReader(ctx, name, from, length, nil)
		if err != nil {
			return err
		}
		data, err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	})
	if err == nil && int64(len(data)) != length {
		err = fmt.Errorf("%w: %s has %d bytes from %d on, expected %d", ErrDamaged, name, len(data), from, length)
	}
	return data, err
}

// PutJSON is Put of a value as JSON.
func (s *Store) PutJSON(ctx context.Context, kind string, v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("objects: %s: %w", kind, err)
	}
	return s.Put(ctx, kind, data)
}

// GetJSON is Get of a value as JSON.
func (s *Store) GetJSON(ctx context.Context, name string, v any) error {
	data, err := s.Get(ctx, name)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("objects: %s: %w", name, err)
	}
	return nil
}

// Record writes which object is the result of something, whose name is the caller's. Records that are written twice
// name the same object, or another one that serves as well.
func (s *Store) Record(ctx context.Context, of, name string) error {
	return again(ctx, "writing "+of, func() error { return s.b.WriteAll(ctx, of, []byte(name), nil) })
}

// Recorded returns the object that is the result of something; ErrNotFound if nothing is recorded.
func (s *Store) Recorded(ctx context.Context, of string) (string, error) {
	name, err := s.read(ctx, of)
	return strings.TrimSpace(string(name)), err
}

const tries = 5

// again tries something that fails for a while.
func again(ctx context.Context, what string, do func() error) error {
	wait := 50 * time.Millisecond
	for try := 1; ; try++ {
		err := do()
		switch code := gcerrors.Code(err); {
		case err == nil:
			return nil
		case code == gcerrors.NotFound:
			return fmt.Errorf("%w: %s: %w", ErrNotFound, what, err)
		case ctx.Err() != nil || try == tries || code == gcerrors.PermissionDenied || code == gcerrors.InvalidArgument:
			return fmt.Errorf("objects: %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait *= 4
	}
}
