package sluice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// Documents lists what the store holds.
func (s *Sluice) Documents(ctx context.Context) (_ []store.DocumentInfo, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	return st.Documents(ctx)
}

// Titles returns the titles of documents by their ids; those without a title, or gone, are left out.
func (s *Sluice) Titles(ctx context.Context, ids []string) (_ map[string]string, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	snap, err := s.base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	return snap.Titles(ctx, ids)
}

// Chunks returns chunks by their ids, in that order; a missing one is store.ErrNotFound.
func (s *Sluice) Chunks(ctx context.Context, ids []string) (_ []corpus.Chunk, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	return st.Chunks(ctx, ids)
}

// Document returns what the store knows of one document; a missing one is store.ErrNotFound.
func (s *Sluice) Document(ctx context.Context, id string) (_ store.DocumentInfo, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return store.DocumentInfo{}, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return store.DocumentInfo{}, err
	}
	return st.Document(ctx, id)
}

// Labels returns the labels of those of the chunks that have some: their entities, if these were looked for.
func (s *Sluice) Labels(ctx context.Context, ids []string) (_ map[string][]store.Label, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	return st.Labels(ctx, ids)
}

// LabelCounts lists the labels of all chunks, those of many chunks first; of one kind unless that is "", and at most
// limit of them unless that is 0.
func (s *Sluice) LabelCounts(ctx context.Context, kind string, limit int) (_ []store.LabelCount, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	return st.LabelCounts(ctx, kind, limit)
}

// AllChunks yields every chunk in the store's order.
func (s *Sluice) AllChunks(ctx context.Context) iter.Seq2[corpus.Chunk, error] {
	return func(yield func(corpus.Chunk, error) bool) {
		s.chunks(ctx, yield, func(ctx context.Context, st *store.Store) iter.Seq2[corpus.Chunk, error] {
			return st.AllChunks(ctx)
		})
	}
}

// DocumentChunks yields a document's chunks in the store's order; none if there is no such document.
func (s *Sluice) DocumentChunks(ctx context.Context, id string) iter.Seq2[corpus.Chunk, error] {
	return func(yield func(corpus.Chunk, error) bool) {
		s.chunks(ctx, yield, func(ctx context.Context, st *store.Store) iter.Seq2[corpus.Chunk, error] {
			return st.DocumentChunks(ctx, id)
		})
	}
}

// chunks yields those of a sequence. Close ends it, too.
func (s *Sluice) chunks(
	ctx context.Context, yield func(corpus.Chunk, error) bool,
	of func(context.Context, *store.Store) iter.Seq2[corpus.Chunk, error],
) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		yield(corpus.Chunk{}, err)
		return
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		yield(corpus.Chunk{}, err)
		return
	}
	for c, err := range of(ctx, st) {
		if err != nil && context.Cause(ctx) == ErrClosed {
			err = ErrClosed
		}
		if !yield(c, err) {
			return
		}
	}
}

// DeleteDocuments removes documents with their chunks and returns how many chunks went. An id that the
// store does not hold is store.ErrNotFound, and then nothing is removed.
func (s *Sluice) DeleteDocuments(ctx context.Context, ids []string) (chunks int, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave(&err)
	st, err := s.base.Writer(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = s.base.Changed(err) }()
	return st.DeleteDocuments(ctx, ids)
}

// Moment is now, as the changes of the store are ordered: for what is handed in and ingested later
// (IngestOptions.HandedIn). Place is left to the caller, who knows what else is handed in.
func (s *Sluice) Moment(ctx context.Context) (now store.Moment, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return now, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if errors.Is(err, store.ErrNoStore) { // what is ingested makes it
		return now, nil
	}
	if err == nil {
		now.Generation, err = st.Generation(ctx)
	}
	return now, err
}

// ForgetOrder drops what the store remembers of the order of changes for things that were handed in and are not
// ingested yet, if there is no such thing left.
func (s *Sluice) ForgetOrder(ctx context.Context) (err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer leave(&err)
	st, err := s.base.Writer(ctx, nil)
	if errors.Is(err, store.ErrNoStore) {
		return nil
	}
	if err != nil {
		return err
	}
	return st.ForgetOrder(ctx)
}

// Compact gives back the space of deleted chunks if at least that share of the store (0 … 1) is deleted, and returns
// how many vectors' space that is. Ingest does so by itself from store.CompactShare on.
func (s *Sluice) Compact(ctx context.Context, minShare float64) (vectors int64, err error) {
	return s.base.Compact(ctx, minShare)
}

// Refresh drops what the last call has read of the store. Every call looks whether something has changed, in this or
// another process, and needs no Refresh.
func (s *Sluice) Refresh() error { return s.base.Refresh() }

// RepairResult is what Repair has done, and what is left.
type RepairResult struct {
	Blocks int      `json:"blocks"` // of vectors that were damaged
	Chunks int      `json:"chunks"` // that were embedded again
	Lost   []string `json:"lost"`   // ids of chunks whose text was damaged as well: they are gone
	// Texts are damaged ones that are left, and sources of documents that are incomplete: Ingest reads these again.
	Texts   []string `json:"texts"`
	Sources []string `json:"sources"`
}

// Repair looks for vectors and texts that are not as they were committed, and embeds the chunks of damaged vectors
// again from their texts. Damaged texts are only found: their sources have to be ingested again.
func (s *Sluice) Repair(ctx context.Context) (r RepairResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return r, err
	}
	defer leave(&err)
	st, err := s.base.Writer(ctx, nil)
	if err != nil {
		return r, err
	}
	enc, err := s.base.Encoder(ctx)
	if err == nil {
		err = knowledge.SameEncoder(st, enc.Info().Encoder)
	}
	if err != nil {
		return r, err
	}
	done, err := ingest.Repair(ctx, st, enc)
	r.Blocks, r.Chunks, r.Lost = done.Blocks, done.Chunks, done.Lost
	if err = s.base.Changed(err); err != nil {
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
}

// GoneDocuments lists the documents whose files are not there any more, as far as their files are known. Where the
// whole folder has gone, which may have moved (MoveCollection), none of its documents is listed.
func (s *Sluice) GoneDocuments(ctx context.Context) (gone []store.DocumentInfo, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	collections, err := st.Collections(ctx)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{"": true}
	for _, c := range collections {
		_, err := os.Stat(c.Root)
		there[c.Name] = err == nil
	}
	docs, err := st.Documents(ctx)
	for _, d := range docs {
		if d.Path == "" || !there[d.Collection] {
			continue
		}
		if _, err := os.Stat(d.Path); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, d)
		}
	}
	return gone, err
}

// FindDocuments returns the ids that patterns mean: each is an id, a pattern of ids ("*" and "?" within a part between
// slashes, "**" across), or the path of a file, which may have gone, with all its lines. One that means nothing is
// store.ErrNotFound.
func (s *Sluice) FindDocuments(ctx context.Context, patterns []string) (ids []string, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	docs, err := st.Sources(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, pattern := range patterns {
		found := findDocuments(docs, pattern)
		if len(found) == 0 {
			return nil, fmt.Errorf("%w: no document has the id, path or pattern %q; 'sluice docs list' shows the ids",
				store.ErrNotFound, pattern)
		}
		for _, id := range found {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

func findDocuments(docs []store.DocumentInfo, pattern string) (ids []string) {
	for _, d := range docs {
		if d.ID == pattern {
			return []string{pattern}
		}
	}
	path, err := filepath.Abs(pattern)
	if real, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
		path = real
	}
	var isMatch *regexp.Regexp
	if strings.ContainsAny(pattern, "*?") {
		isMatch = retrieve.Glob(pattern)
	}
	for _, d := range docs {
		if isMatch != nil && isMatch.MatchString(d.ID) || err == nil && d.Path == path ||
			d.Path == "" && d.Source == pattern {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Collections lists the folders that documents were ingested from, with the names that begin their ids.
func (s *Sluice) Collections(ctx context.Context) (_ []store.Collection, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	return st.Collections(ctx)
}

// MoveCollection says where the folder of a collection is now; its documents keep their ids. What is no folder is
// ErrOption.
func (s *Sluice) MoveCollection(ctx context.Context, name, folder string) (err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer leave(&err)
	root, err := filepath.Abs(folder)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return err
	}
	if i, err := os.Stat(root); err != nil || !i.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", ErrOption, folder)
	}
	st, err := s.base.Writer(ctx, nil)
	if err != nil {
		return err
	}
	return s.base.Changed(st.MoveCollection(ctx, name, root))
}
