//go:build native

package embed

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only what has the digest that the program was packed with is opened.
func TestFallbackIsVerified(t *testing.T) {
	dir := t.TempDir()
	library, path := filepath.Join(dir, "libonnxruntime.so"), filepath.Join(dir, fallbackFolder, "libx.so.1")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	sum, err := hashFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for digests, want := range map[string]string{
		"":                               "install it",
		"libx.so.1=sha256:00":            "has the digest " + sum,
		"gone.so=" + sum:                 "gone.so",
		"libx.so.1=" + sum + " gone.so=": "libx.so.1: file too short", // opened, and the system refuses it
	} {
		err := openFallback(library, digests)
		if !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", digests, err)
		}
	}
	for text, want := range map[string]bool{"libstdc++.so.6: cannot open shared object file": true,
		"/x/libstdc++.so.6: version `GLIBCXX_3.4.22' not found": true, "libonnxruntime.so: file too short": false} {
		if lacksRuntime(errors.New(text)) != want {
			t.Error(text)
		}
	}
}
