//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestInputFromAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{}
	in, err := a.input(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = w.Write(make([]byte, 100_000)) // more than one read
			err = errors.Join(err, w.Close())
		}
		written <- err
	}()
	got, err := io.ReadAll(in)
	if err != nil || len(got) != 100_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := errors.Join(<-written, in.Close()); err != nil {
		t.Error(err)
	}
}

// TestInputEndsWithItsContext checks that a read of a silent standard input returns when the context ends.
func TestInputEndsWithItsContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close() // ends the blocked read
	ctx, cancel := context.WithCancel(t.Context())
	in, err := (&app{stdin: r}).input(ctx, "-")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := io.ReadAll(in); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
