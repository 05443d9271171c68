package sluice

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// Store gives access to the store as a whole: its files and exports.
type Store struct{ s *Sluice }

// Store returns the store as a whole.
func (s *Sluice) Store() Store { return Store{s} }

// Dir returns the folder of the store, or of the replica of a shared one.
func (t Store) Dir() string { return t.s.base.Dir() }

// Shared returns the state of the connection to the database of a shared store; ok is false for a store that is a
// folder.
func (t Store) Shared() (status store.SharedStatus, ok bool) {
	if t.s.shared == nil {
		return status, false
	}
	return t.s.shared.Status(), true
}

// Export writes documents (their ids; nil: the whole store, with calibrations and router) as a file for Restore. It is
// one state of the store even if others write meanwhile. The format is in docs/store.md.
func (t Store) Export(ctx context.Context, to io.Writer, ids []string) (store.Exported, error) {
	return reading(ctx, t.s, func(ctx context.Context, st *store.Store) (done store.Exported, err error) {
		o := store.ExportOptions{Documents: ids}
		if ids == nil {
			if o.Files, err = store.KeptFiles(st.Dir()); err != nil {
				return done, err
			}
		}
		return st.Export(ctx, to, o)
	})
}

// Restore reads an export into the store: into a new one with calibrations and router, or document by document into an
// existing one. See store.Restore for its checks, the state after an interruption, and the errors.
func (t Store) Restore(ctx context.Context, from io.ReadSeeker, replace bool) (store.Restored, error) {
	return during(ctx, t.s, func(ctx context.Context) (store.Restored, error) {
		done, err := store.Restore(ctx, t.Dir(), from, store.RestoreOptions{Replace: replace, Shared: t.s.shared})
		return done, errors.Join(err, t.s.base.Refresh())
	})
}

// Check reads and compares everything that the store holds, and what is derived from it: the database, all vectors and
// texts with their checksums, rows, calibrations, router and indexes. It calls found for each damage, with its remedy,
// and for harmless irregularities. Others may read and write meanwhile.
func (t Store) Check(ctx context.Context, found func(store.Finding)) (store.Inspected, error) {
	return during(ctx, t.s, func(ctx context.Context) (store.Inspected, error) {
		return t.s.base.Inspect(ctx, found)
	})
}

// Repaired reports what Repair has done, and what is left to do.
type Repaired struct {
	Blocks int      `json:"blocks"` // damaged blocks of vectors
	Chunks int      `json:"chunks"` // chunks that were embedded again
	Lost   []string `json:"lost"`   // ids of chunks that were removed because their texts were damaged, too
	// Texts are the remaining chunks with damaged texts, and Sources the incomplete documents, which Ingest reads
	// again.
	Texts   []string `json:"texts"`
	Sources []string `json:"sources"`
}

// Repair finds vectors and texts that differ from what was committed, and embeds the chunks of damaged vectors again.
// Damaged texts are only reported: their sources have to be ingested again.
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

// Compact frees the space of deleted chunks if at least the share minShare (0 … 1) of the store is deleted, and returns
// how many vectors' space that is. Ingest does this by itself from store.CompactShare on.
func (t Store) Compact(ctx context.Context, minShare float64) (vectors int64, err error) {
	return t.s.base.Compact(ctx, minShare)
}

// Refresh drops what earlier calls have read of the store. Only programs that use Follow need it: other calls check by
// themselves whether this or another process has changed the store.
func (t Store) Refresh() error { return t.s.base.Refresh() }

// Follow checks in the background whether the store has changed, until ctx ends, for servers: calls then neither check
// nor wait for caches and indexes to be updated. They see this process's changes when Refresh has returned, and others'
// within about the given time.
func (t Store) Follow(ctx context.Context, every time.Duration) {
	_ = run(ctx, t.s, func(ctx context.Context) error {
		t.s.base.Follow(ctx, every)
		return nil
	})
}

// Moment returns the current position in the order of the store's changes, for documents that are handed in now and
// ingested later (ingest.Options.HandedIn). The caller sets Moment.Place, because it knows what else is handed in.
func (t Store) Moment(ctx context.Context) (store.Moment, error) {
	return during(ctx, t.s, func(ctx context.Context) (now store.Moment, err error) {
		st, err := t.s.base.Reader(ctx)
		if errors.Is(err, store.ErrNoStore) { // the ingest creates the store
			return now, nil
		}
		if err == nil {
			now.Generation, err = st.Generation(ctx)
		}
		return now, err
	})
}

// ForgetOrder drops the recorded order of changes for documents that were handed in and not yet ingested, if there are
// none left.
func (t Store) ForgetOrder(ctx context.Context) error {
	return run(ctx, t.s, func(ctx context.Context) error {
		st, err := t.s.base.Writer(ctx, nil)
		if errors.Is(err, store.ErrNoStore) {
			return nil
		}
		if err != nil {
			return err
		}
		return st.ForgetOrder(ctx)
	})
}
