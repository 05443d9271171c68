package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// Counter counts tokens as the encoder does; embed.Counter does so without the encoder's weights.
type Counter interface {
	embed.Examiner
	MaxTokens() int // what the encoder reads of a text
}

// Preview yields the chunks that Run would make of files, and stores nothing: no store is opened or made. Their ids are
// those of documents without a collection. counter counts tokens; nil, and the chunker Semantic, load the encoder. What
// is not read is given to Options.OnSkip. No document at all is corpus.ErrNoDocument, a bad option
// knowledge.ErrOption.
func Preview(ctx context.Context, base *knowledge.Base, in Input, counter Counter) iter.Seq2[corpus.Chunk, error] {
	return func(yield func(corpus.Chunk, error) bool) {
		ctx := cores.AsBatch(ctx)
		r := &run{base: base, o: in.Options, result: &Result{}}
		if err := r.prepare(ctx, in, counter); err != nil {
			yield(corpus.Chunk{}, err)
			return
		}
		for doc, err := range corpus.Load(ctx, in.Paths, r.loading(r.skip)) {
			if err != nil {
				yield(corpus.Chunk{}, err)
				return
			}
			r.handedIn(doc)
			r.cleaned(doc)
			for c, err := range corpus.Chunks(ctx, doc, r.chunk) {
				if err != nil {
					err = fmt.Errorf("%s: %w", doc.Source, err)
				}
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

// prepare reads the options for texts and chunks, and opens the encoder unless a counter takes its place.
func (r *run) prepare(ctx context.Context, in Input, counter Counter) (err error) {
	r.pictures = picturesOf(in)
	r.chunk = corpus.ChunkOptions{NoChunk: r.o.NoChunk, OnSkip: r.skip}
	if r.chunk.Size, r.chunk.Overlap, err = chunkSize(r.o.Chunk); err != nil {
		return err
	}
	if err = errors.Join(r.chooseChunker(), r.chooseClean(), r.resolveGiven()); err != nil {
		return err
	}
	if counter != nil && r.chunk.Semantic == nil {
		examineBy(&r.chunk, counter)
		r.chunk.MaxTokens = counter.MaxTokens()
		return nil
	}
	if r.enc, err = r.base.Encoder(ctx); err != nil {
		return err
	}
	examine(&r.chunk, r.enc)
	r.chunk.MaxTokens = r.enc.Info().MaxTokens
	return nil
}
