package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/engine/internal/index"
)

// Save writes what took time to make to a file: codes, rotation, clusters, norms, deleted rows, and a digest of the
// vectors, which stay with the caller. The file is there whole, or as it was before.
func (s *Set) Save(ctx context.Context, path string) (err error) {
	v := s.Vectors()
	if err := use(&v); err != nil {
		return err
	}
	m := snapshotOf(v)
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("engine: saving a set: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // the first error counts
			_ = os.Remove(f.Name()) // as above
		}
	}()
	if err := m.x.Save(ctx, f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("engine: saving a set: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("engine: saving a set: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("engine: saving a set: %w", err)
	}
	return nil
}

// Load makes a saved set again, over the same vectors: all rows in the order of their numbers, deleted ones too. They
// are read once, for their digest: other vectors are ErrSetVectors. A file that is damaged, of another version
// or something else is ErrSetFile. Clusters and Seed of the options do not matter.
func (e *Engine) Load(ctx context.Context, path string, v Vectors, o SetOptions) (*Set, error) {
	if err := fill(ctx, &v); err != nil {
		return nil, err
	}
	v.Set = nil
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("engine: loading a set: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("engine: loading a set: %w", err)
	}
	x, err := index.Load(ctx, &e.r, f, info.Size(), v, o.index())
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, path)
	}
	return e.newSet(x, o)
}
