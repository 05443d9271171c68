package sluice

import (
	"context"
	"iter"
	"path/filepath"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// Preview yields the chunks that Ingest would make of files with the same options, and stores nothing. Of an encoder on
// this machine it loads the tokenizer only, unless the chunks follow the subject (IngestOptions.Chunker). What is not
// read is given to IngestOptions.OnSkip.
func (s *Sluice) Preview(ctx context.Context, paths []string, o IngestOptions) iter.Seq2[corpus.Chunk, error] {
	return func(yield func(corpus.Chunk, error) bool) {
		ctx, leave, err := s.calls.enter(ctx)
		if err != nil {
			yield(corpus.Chunk{}, err)
			return
		}
		defer leave(&err)
		in := ingest.Input{Paths: paths, Options: o}
		if root, err := fetch.Root(); err == nil && o.CacheDir == "" {
			in.CacheDir = filepath.Join(root, "pdf")
		}
		counter, free := s.counter(ctx)
		defer free()
		for c, err := range ingest.Preview(ctx, s.base, in, counter) {
			if err != nil && context.Cause(ctx) == ErrClosed {
				err = ErrClosed
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// counter is the tokenizer of the encoder; nil where that has to be loaded to count tokens.
func (s *Sluice) counter(ctx context.Context) (ingest.Counter, func()) {
	none := func() {}
	if s.cfg.Embedder != nil {
		return nil, none
	}
	name := s.cfg.Encoder
	if name == "" {
		name = DefaultEncoder
		if st, err := s.base.Reader(ctx); err == nil && st.Encoder().Name != "" {
			name = st.Encoder().Name
		}
	}
	name, _ = embed.SplitName(name)
	if _, _, ok := remote.SplitName(name); ok {
		return nil, none
	}
	dir, err := models.Locate(name)
	if err != nil {
		return nil, none
	}
	c, err := embed.OpenCounter(dir)
	if err != nil {
		s.log.Debug("the encoder is loaded to count tokens", "because", err)
		return nil, none
	}
	return c, c.Close
}
