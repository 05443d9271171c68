// Package regular opens files that must be regular ones. Opening a named pipe waits for a writer, and reading a device
// may never end; no signal ends either.
package regular

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// The errors of this package, wrapped with the path and what was found.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrTooLarge   = errors.New("larger than such a file can be")
)

// Open opens a regular file, or a link to one, for reading; anything else is ErrNotRegular, at once.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblocking, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is %w (%s)", path, ErrNotRegular, kind(st.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&os.ModeNamedPipe != 0:
		return "a pipe"
	case m&os.ModeDevice != 0:
		return "a device"
	case m&os.ModeSocket != 0:
		return "a socket"
	}
	return m.Type().String()
}

// ReadFile reads a regular file of at most limit bytes; a larger one is ErrTooLarge.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is %w: more than %d bytes", path, ErrTooLarge, limit)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
