package filehash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	data := make([]byte, 33<<20) // more than two reads
	data[len(data)-1] = 7
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(data)
	if got, err := Sum(t.Context(), path); err != nil || got != hex.EncodeToString(want[:]) {
		t.Errorf("%s, %v", got, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Sum(done, path); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Sum(t.Context(), path+".gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Sum(t.Context(), filepath.Dir(path)); err == nil {
		t.Error("a folder has no digest")
	}
}
