package sluice

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// Store gives access to the store as a whole: its files, and copies of it.
type Store struct{ s *Sluice }

// Store returns the store as a whole.
func (s *Sluice) Store() Store { return Store{s} }

// Dir returns the folder of the store.
func (t Store) Dir() string { return t.s.base.Dir() }

// Export writes documents (their ids; nil: the whole store, with calibrations and router) as a file that Restore reads.
// It is one state of the store, whoever writes meanwhile. The format is in docs/store.md.
func (t Store) Export(ctx context.Context, to io.Writer, ids []string) (store.Exported, error) {
	return reading(ctx, t.s, func(ctx context.Context, st *store.Store) (done store.Exported, err error) {
		o := store.ExportOptions{Documents: ids}
		if ids == nil {
			if o.Files, err = keptFiles(st); err != nil {
				return done, err
			}
		}
		return st.Export(ctx, to, o)
	})
}

// keptFiles returns the files of calibrations and the router that cannot be made again without work: no locks, and no
// counts or vectors that the next calibration makes anew.
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

// Restore reads an export into the store: into a new one with calibrations and router, or document by document into an
// existing one. See store.Restore for what it checks first, what an interruption leaves, and the errors.
func (t Store) Restore(ctx context.Context, from io.ReadSeeker, replace bool) (store.Restored, error) {
	return during(ctx, t.s, func(ctx context.Context) (store.Restored, error) {
		done, err := store.Restore(ctx, t.Dir(), from, store.RestoreOptions{Replace: replace})
		return done, errors.Join(err, t.s.base.Refresh())
	})
}

// Check reads and compares everything that the store holds, and what is made of it: the database, all vectors and texts
// with their checksums, rows, calibrations, router and indexes. It calls found for each thing that is damaged, with
// what mends it, and for what is harmless but odd. Others may read and write meanwhile.
func (t Store) Check(ctx context.Context, found func(store.Finding)) (store.Inspected, error) {
	return during(ctx, t.s, func(ctx context.Context) (store.Inspected, error) {
		return t.s.base.Inspect(ctx, found)
	})
}

// Repaired is what Repair has done, and what is left to do.
type Repaired struct {
	Blocks int      `json:"blocks"` // of vectors that were damaged
	Chunks int      `json:"chunks"` // that were embedded again
	Lost   []string `json:"lost"`   // ids of chunks whose text was damaged as well: they are gone
	// Texts are the chunks whose damaged texts are left, and Sources the documents that are incomplete: Ingest reads
	// these again.
	Texts   []string `json:"texts"`
	Sources []string `json:"sources"`
}

// Repair looks for vectors and texts that are not as they were committed, and embeds the chunks of damaged vectors
// again from their texts. Damaged texts are only found: their sources have to be ingested again.
func (t Store) Repair(ctx context.Context) (Repaired, error) {
	return writing(ctx, t.s, func(ctx context.Context, st *store.Store) (r Repaired, err error) {
		enc, err := t.s.base.Encoder(ctx)
		if err == nil {
			err = knowledge.SameEncoder(st, enc.Info().Encoder)
		}
		if err != nil {
			return r, err
		}
		done, err := ingest.Repair(ctx, st, enc)
		r.Blocks, r.Chunks, r.Lost = done.Blocks, done.Chunks, done.Lost
		if err != nil {
			return r, err
		}
		texts, err := st.DamagedTexts(ctx)
		if err != nil {
			return r, err
		}
		for _, t := range texts {
			r.Texts, r.Sources = append(r.Texts, t.Chunk), append(r.Sources, ingest.FileOf(t.Source))
		}
		docs, err := st.Documents(ctx)
		for _, d := range docs {
			if d.Partial {
				r.Sources = append(r.Sources, ingest.FileOf(d.Source))
			}
		}
		slices.Sort(r.Sources)
		r.Sources = slices.Compact(r.Sources)
		return r, err
	})
}

// Compact gives back the space of deleted chunks if at least that share of the store (0 … 1) is deleted, and returns
// how many vectors' space that is. Ingest does so by itself from store.CompactShare on.
func (t Store) Compact(ctx context.Context, minShare float64) (vectors int64, err error) {
	return t.s.base.Compact(ctx, minShare)
}

// Refresh drops what the last call has read of the store. Every call looks whether something has changed, in this or
// another process, and needs no Refresh, except beside Follow.
func (t Store) Refresh() error { return t.s.base.Refresh() }

// Follow looks in the background whether the store has changed, until ctx ends, for servers: calls then neither look
// themselves nor wait until caches and indexes are brought up to date. They see what this process writes when Refresh
// has returned, and what others write within about the time given.
func (t Store) Follow(ctx context.Context, every time.Duration) {
	_, _ = during(ctx, t.s, func(ctx context.Context) (none struct{}, _ error) {
		t.s.base.Follow(ctx, every)
		return none, nil
	})
}

// Moment returns the present place in the order of the store's changes: for what is handed in now and ingested later
// (ingest.Options.HandedIn). Moment.Place is left to the caller, who knows what else is handed in.
func (t Store) Moment(ctx context.Context) (store.Moment, error) {
	return during(ctx, t.s, func(ctx context.Context) (now store.Moment, err error) {
		st, err := t.s.base.Reader(ctx)
		if errors.Is(err, store.ErrNoStore) { // what is ingested makes it
			return now, nil
		}
		if err == nil {
			now.Generation, err = st.Generation(ctx)
		}
		return now, err
	})
}

// ForgetOrder drops what the store remembers of the order of changes for documents that were handed in and are not
// ingested yet, if there are none left.
func (t Store) ForgetOrder(ctx context.Context) error {
	_, err := during(ctx, t.s, func(ctx context.Context) (none struct{}, _ error) {
		st, err := t.s.base.Writer(ctx, nil)
		if err == nil {
			err = st.ForgetOrder(ctx)
		} else if errors.Is(err, store.ErrNoStore) {
			err = nil
		}
		return none, err
	})
	return err
}
