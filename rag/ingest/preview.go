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
	CountTokens(text string) (int, error)
	MaxTokens() int // what the encoder reads of a text
}

// Preview yields the chunks that Run would make of files, and stores nothing: no store is opened or made. Their ids are
// those of documents without a collection. counter counts tokens; nil, and the chunker Semantic, load the encoder. What
// is not read is given to Options.OnSkip. No document at all is corpus.ErrNoDocument, a bad option
// knowledge.ErrOption.
func Preview(ctx context.Context, base *knowledge.Base, in Input, counter Counter) iter.Seq2[corpus.Chunk, error] {
	return func(yield func(corpus.Chunk, error) bool) {
		ctx := cores.AsBatch(ctx)
		r := &run{base: base, o: in.Options, result: &Result{}, pictures: picturesOf(in)}
		limit, err := r.prepare(ctx, counter)
		if err != nil {
			yield(corpus.Chunk{}, err)
			return
		}
		load := corpus.LoadOptions{FileOptions: r.o.Files, MaxFileBytes: r.o.MaxFileBytes, Strict: r.o.Strict,
			OnSkip: r.skip, CacheDir: r.o.CacheDir, Clean: r.clean, Pictures: r.pictures,
			AllPages: r.o.OCR == OCRAlways, MaxTextBytes: r.mostText(limit)}
		for doc, err := range corpus.Load(ctx, in.Paths, load) {
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

// prepare reads the options for chunks, and returns how many tokens the encoder reads.
func (r *run) prepare(ctx context.Context, counter Counter) (limit int, err error) {
	r.chunk = corpus.ChunkOptions{NoChunk: r.o.NoChunk, OnSkip: r.skip}
	if r.chunk.Size, r.chunk.Overlap, err = chunkSize(r.o.Chunk); err != nil {
		return 0, err
	}
	if err = errors.Join(r.chooseChunker(), r.chooseClean(), r.resolveGiven()); err != nil {
		return 0, err
	}
	if counter != nil && r.chunk.Semantic == nil {
		examineBy(&r.chunk, counter)
		r.chunk.MaxTokens = counter.MaxTokens()
		return r.chunk.MaxTokens, nil
	}
	if r.enc, err = r.base.Encoder(ctx); err != nil {
		return 0, err
	}
	examine(&r.chunk, r.enc)
	r.chunk.MaxTokens = r.enc.Info().MaxTokens
	return r.chunk.MaxTokens, nil
}
