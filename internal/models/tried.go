package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/manifest"
)

// Pinned reports whether a name is a model of the manifest with a digest for each file, which Locate has checked. Paths
// are not.
func (r *Registry) Pinned(name string) bool {
	m, ok := r.manifest.Model(name)
	for _, f := range m.Files {
		ok = ok && f.SHA256 != ""
	}
	return ok
}

// WasTried reports whether RememberTried was called for the file in its present state. with is everything else that the
// outcome depends on.
func (r *Registry) WasTried(path, with string) bool {
	mark, err := r.mark("tried", path, with)
	if err == nil {
		_, err = os.Stat(mark)
	}
	return err == nil
}

// RememberTried keeps that a file was opened without harm. A model that is split is not remembered: its other files are
// not looked at.
func (r *Registry) RememberTried(path, with string) error {
	if _, _, _, split := manifest.Part(path); split {
		return nil
	}
	mark, err := r.mark("tried", path, with)
	if err != nil {
		return err
	}
	if _, err := r.cache.Dir("tried"); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

// mark returns the path of a file in a folder of the cache whose name stands for a file in its present state.
func (r *Registry) mark(folder, path, with string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %d %q", path, st.Size(), st.ModTime().UnixNano(), inode(st), with))
	return r.cache.Path(folder, hex.EncodeToString(h[:])), nil
}
