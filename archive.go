package sluice

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// Export writes documents (their ids; nil: the whole store, with calibrations and router) as a file that Restore reads.
// It is one state of the store, whoever writes meanwhile. The format is in docs/store.md.
func (s *Sluice) Export(ctx context.Context, to io.Writer, ids []string) (_ store.Exported, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return store.Exported{}, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return store.Exported{}, err
	}
	o := store.ExportOptions{Documents: ids}
	if ids == nil {
		if o.Files, err = keptFiles(st); err != nil {
			return store.Exported{}, err
		}
	}
	return st.Export(ctx, to, o)
}

// keptFiles are the files of calibrations and the router that cannot be made again without work: no locks, no counts or
// vectors that the next calibration makes anew.
func keptFiles(st *store.Store) (names []string, err error) {
	for _, dir := range []string{knowledge.CalibrationDir(st), knowledge.RouterDir(st)} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			switch filepath.Ext(e.Name()) {
			case ".lock", ".pairs", ".vectors", ".state":
				continue
			}
			if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, filepath.Base(dir)+"/"+e.Name())
			}
		}
	}
	return names, nil
}

// Restore reads an export into the store: into a new one with calibrations and router, or document by document into
// one that is there. See store.Restore for what it checks first, what an interruption leaves, and the errors.
func (s *Sluice) Restore(ctx context.Context, from io.ReadSeeker, replace bool) (_ store.Restored, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return store.Restored{}, err
	}
	defer leave(&err)
	done, err := store.Restore(ctx, s.base.Dir(), from, store.RestoreOptions{Replace: replace})
	return done, errors.Join(err, s.base.Refresh())
}

// Check reads and compares everything that the store holds, and what is made of it: the database, all vectors and texts
// with their checksums, rows, calibrations, router and indexes. It calls found for each thing that is damaged, with
// what mends it, and for what is harmless but odd. Others may read and write meanwhile.
func (s *Sluice) Check(ctx context.Context, found func(store.Finding)) (_ store.Inspected, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return store.Inspected{}, err
	}
	defer leave(&err)
	return s.base.Inspect(ctx, found)
}
