//go:build unix

package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	for _, err := range []error{os.WriteFile(file, []byte("12345"), 0o600), os.Symlink(file, link),
		syscall.Mkfifo(pipe, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]error{file: nil, link: nil, pipe: ErrNotRegular, dir: ErrNotRegular,
		"/dev/zero": ErrNotRegular, filepath.Join(dir, "none"): fs.ErrNotExist} {
		got, err := ReadFile(path, 5)
		if !errors.Is(err, want) || (err == nil) != (string(got) == "12345") {
			t.Errorf("%s: %q, %v, want %v", path, got, err, want)
		}
	}
	if _, err := ReadFile(file, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("5 bytes of 4: %v", err)
	}
}
