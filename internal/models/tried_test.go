package models

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRememberTried checks that a success counts only for the file's present state and the same other inputs.
func TestRememberTried(t *testing.T) {
	f := newFixture(t)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, []byte("GGUF one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f.WasTried(path, "a") {
		t.Error("tried before anybody did")
	}
	if err := f.RememberTried(path, "a"); err != nil {
		t.Fatal(err)
	}
	if !f.WasTried(path, "a") || f.WasTried(path, "b") {
		t.Error("what was remembered is not told apart from what was not")
	}
	if err := os.WriteFile(path, []byte("GGUF two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if f.WasTried(path, "a") {
		t.Error("another content is taken for the one that was tried")
	}
	split := filepath.Join(t.TempDir(), "m-00001-of-00002.gguf")
	if err := os.WriteFile(split, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.RememberTried(split, "a"); err != nil || f.WasTried(split, "a") {
		t.Errorf("one file of a split model is remembered (%v)", err)
	}
}

// Only a model of the manifest with a digest for each of its files is pinned.
func TestPinned(t *testing.T) {
	f := newFixture(t)
	list, err := f.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if f.Pinned(m.Name) != m.Pinned {
			t.Errorf("%s: pinned %v, listed as %v", m.Name, f.Pinned(m.Name), m.Pinned)
		}
	}
	if f.Pinned(t.TempDir()) || f.Pinned("") {
		t.Error("a path is pinned")
	}
}
