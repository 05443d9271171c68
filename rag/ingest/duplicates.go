package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// What becomes of chunks that nearly repeat others (Options.Duplicates).
const (
	KeepDuplicates   = "keep"   // they are not looked for
	ReportDuplicates = "report" // they are stored and told of
	DropDuplicates   = "drop"   // they are told of and not stored
)

// chooseDuplicates reads Options.Duplicates.
func (r *run) chooseDuplicates() error {
	switch r.o.Duplicates {
	case "", KeepDuplicates, ReportDuplicates, DropDuplicates:
		return nil
	}
	return fmt.Errorf("%w: duplicates %q: %s, %s or %s", knowledge.ErrOption, r.o.Duplicates, KeepDuplicates,
		ReportDuplicates, DropDuplicates)
}

// duplicates looks for new chunks of a batch that repeat others: of the store, without what the batch replaces, and of
// the batch. Those that are dropped leave it.
func (r *run) duplicates(ctx context.Context, b *store.Batch) error {
	if r.o.Duplicates == "" || r.o.Duplicates == KeepDuplicates || len(b.Chunks) == 0 {
		return nil
	}
	snap, err := r.base.Snapshot(ctx)
	if errors.Is(err, store.ErrNotFound) {
		snap, err = nil, nil
	}
	if err != nil {
		return err
	}
	if snap != nil {
		defer snap.Release()
	}
	replaced, stays := map[string]bool{}, map[string]bool{}
	for _, d := range b.Documents {
		replaced[d.ID] = true
	}
	for _, c := range b.Known {
		stays[c.ID] = true
	}
	dim := r.enc.Info().Encoder.Dim
	v := engine.Vectors{Rows: len(b.Chunks), Dim: dim, Stride: dim, Data: b.Vectors}
	list, err := r.base.Repeats(ctx, snap, b.Chunks, v,
		func(c *corpus.Chunk) bool { return !replaced[c.Document] || stays[c.ID] }, knowledge.DuplicateOptions{})
	if err != nil {
		return err
	}
	drop := map[string]bool{}
	for _, x := range list {
		r.result.Duplicates++
		drop[x.ID] = true
		if r.o.OnDuplicate != nil {
			r.o.OnDuplicate(x)
		}
	}
	if r.o.Duplicates == DropDuplicates && len(drop) > 0 {
		r.drop(b, drop, dim)
	}
	return nil
}

// drop takes chunks out of a batch, and out of those of its document that come later.
func (r *run) drop(b *store.Batch, which map[string]bool, dim int) {
	if r.dropped == nil {
		r.dropped = map[string]bool{}
	}
	var chunks []corpus.Chunk
	var vectors []float32
	for i, c := range b.Chunks {
		if which[c.ID] {
			r.dropped[c.ID] = true
			continue
		}
		chunks, vectors = append(chunks, c), append(vectors, b.Vectors[i*dim:(i+1)*dim]...)
	}
	b.Chunks, b.Vectors = chunks, vectors
}

// withoutDropped are chunks without those that were dropped.
func (r *run) withoutDropped(chunks []corpus.Chunk) []corpus.Chunk {
	if len(r.dropped) == 0 {
		return chunks
	}
	return slices.DeleteFunc(slices.Clone(chunks), func(c corpus.Chunk) bool { return r.dropped[c.ID] })
}
