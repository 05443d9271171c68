package sluice

import (
	"context"
	"iter"

	"github.com/sluice-rag/sluice/rag/corpus"
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
	st, err := s.base.Reader(ctx)
	if err != nil {
		return nil, err
	}
	return st.Titles(ctx, ids)
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

// Compact gives back the space of deleted chunks if at least that share of the store (0 … 1) is deleted, and returns
// how many vectors' space that is. Ingest does so by itself from store.CompactShare on.
func (s *Sluice) Compact(ctx context.Context, minShare float64) (vectors int64, err error) {
	return s.base.Compact(ctx, minShare)
}

// Refresh drops what the last call has read of the store. Every call looks whether something has changed, in this or
// another process, and needs no Refresh.
func (s *Sluice) Refresh() error { return s.base.Refresh() }
