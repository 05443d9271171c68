package engine

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/sluice-rag/sluice/engine/internal/index"
	"github.com/sluice-rag/sluice/internal/durable"
)

// Save writes what took time to make to a file: codes, rotation, clusters, norms, deleted rows, and a digest of the
// vectors, which stay with the caller. The file is there whole, or as it was before.
func (s *Set) Save(ctx context.Context, path string) error {
	v := s.Vectors()
	if err := use(&v); err != nil {
		return err
	}
	m := snapshotOf(v)
	if err := durable.Replace(path, func(w io.Writer) error { return m.x.Save(ctx, w) }); err != nil {
		return fmt.Errorf("engine: saving a set: %w", err)
	}
	return nil
}

// Load makes a saved set again, over the same vectors: all rows in the order of their numbers, deleted ones too. They
// are read once, for their digest (unless SetOptions.Digest names them): other vectors are ErrSetVectors. A file that
// is damaged, of another version or something else is ErrSetFile. Clusters and Seed of the options do not matter.
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
