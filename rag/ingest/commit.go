package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// repair has the vectors that are damaged embedded again, from the stored texts.
func (r *run) repair(ctx context.Context) error {
	done, err := Repair(ctx, r.store, r.enc)
	r.result.Renewed += done.Chunks
	if done.Blocks > 0 {
		r.base.Logger().Warn(fmt.Sprintf("%d damaged blocks of vectors: %d chunks were embedded again, %d were lost "+
			"with their texts", done.Blocks, done.Chunks, len(done.Lost)))
	}
	return err
}

// Repair is store.Repair with an encoder.
func Repair(ctx context.Context, st *store.Store, enc embed.Embedder) (store.Repaired, error) {
	done, err := st.Repair(ctx, func(ctx context.Context, chunks []corpus.Chunk) ([]float32, error) {
		e, err := enc.Embed(ctx, embedTexts(chunks), embed.Document)
		if err != nil {
			return nil, err
		}
		return e.Data, nil
	})
	if done.Blocks > 0 { // rows that counts were made of cannot be read back any more
		err = errors.Join(err, knowledge.DropCounts(st))
	}
	return done, err
}

// embedTexts returns the texts of chunks as the encoder reads them.
func embedTexts(chunks []corpus.Chunk) []string {
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = c.EmbedText()
	}
	return texts
}

// whole returns the batch of whole documents that wait for a commit.
func (r *run) whole() store.Batch {
	b := r.pending
	b.Replace = true
	r.pending = store.Batch{}
	return b
}

// commit embeds those chunks of b that the store does not hold with the same text, and makes all durable.
func (r *run) commit(ctx context.Context, b store.Batch) error {
	if len(b.Documents) == 0 {
		if r.store == nil { // nothing to put in has come yet
			return nil
		}
		return r.store.PutFiles(ctx, b.Files, nil)
	}
	return r.tryCommit(ctx, b, 1)
}

// maxTries of a commit whose known chunks others delete meanwhile.
const maxTries = 5

func (r *run) tryCommit(ctx context.Context, whole store.Batch, tries int) error {
	b := whole
	b.Known, b.Chunks, b.Take = slices.Clone(r.withoutDropped(whole.Known)), r.withoutDropped(whole.Chunks), r.take
	b.HandedIn = r.o.HandedIn
	ids := make([]string, len(b.Chunks))
	to := r.at
	for i, c := range b.Chunks {
		ids[i] = c.ID
		to = r.meter.position(c.Source, c.End)
	}
	held, err := r.store.Has(ctx, ids)
	if err != nil {
		return err
	}
	var fresh []corpus.Chunk
	known, renewed := 0, 0
	for _, c := range b.Chunks {
		digest, ok := held[c.ID]
		if ok && digest == c.Digest() {
			b.Known = append(b.Known, c)
			known++
			continue
		}
		if ok && digest == "" {
			renewed++
		}
		fresh = append(fresh, c)
	}
	b.Chunks = fresh
	var reused int
	if b.Vectors, reused, err = r.vectors(ctx, fresh, to); err != nil {
		return err
	}
	found := len(fresh)
	if err := r.duplicates(ctx, &b); err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return r.dropped[id] })
	labels, unnamed, err := r.labels(ctx, b)
	if err != nil {
		return err
	}
	b.Labels = labels
	_, err = r.store.Commit(ctx, b)
	if late, ok := errors.AsType[*store.OvertakenError](err); ok {
		return r.commit(ctx, r.withoutOvertaken(whole, late.IDs))
	}
	if errors.Is(err, store.ErrNotFound) && tries < maxTries { // what was known has been deleted or replaced meanwhile
		return r.tryCommit(ctx, whole, tries+1)
	}
	if err != nil {
		return err
	}
	r.result.Chunks += len(ids)
	r.result.Embedded += found - reused
	r.result.Reused += reused
	r.result.Known += known
	r.result.Unnamed += unnamed
	for _, list := range labels {
		r.result.Entities += len(list)
	}
	if r.result.Renewed += renewed; renewed > 0 {
		r.base.Logger().Warn(fmt.Sprintf("the texts of %d chunks were damaged and are read again", renewed))
	}
	r.result.Commits++
	if b.Replace { // not a part of a document that goes on in the next commit
		r.result.Documents += len(b.Documents)
	}
	r.track.committed(len(ids))
	if r.o.OnCommit != nil {
		r.o.OnCommit(ids)
	}
	if b.Replace {
		r.tellChanges(b.Documents)
	}
	r.at = to
	r.progress(to)
	return nil
}

func (r *run) progress(done int64) {
	total := r.meter.total
	if r.compared != nil { // each byte is read twice
		done, total = done+r.reached, 2*total
	}
	r.track.at(done, total, r.meter.files, len(r.meter.sizes))
}
