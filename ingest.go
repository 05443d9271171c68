package sluice

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
	"github.com/sluice-rag/sluice/rag/web"
)

// Ingest puts files, folders and JSON lines, of the formats that corpus.Load lists, into the store, which it makes
// when it is absent, as ingest.Run describes: documents → chunks → vectors → commits. With ingest.Options.Entities,
// names are found by the model of Config.Classifier if it labels parts of texts, and otherwise by rules.
func (s *Sluice) Ingest(ctx context.Context, paths []string, o ingest.Options) (ingest.Result, error) {
	return s.ingest(ctx, paths, o, func(ctx context.Context, in ingest.Input) (ingest.Result, error) {
		return ingest.Run(ctx, s.base, in)
	})
}

// IngestFrom puts the documents into the store that a connector writes (ingest.Connector). It returns when the program
// has ended.
func (s *Sluice) IngestFrom(ctx context.Context, c ingest.Connector, o ingest.Options) (ingest.Result, error) {
	c.Ending = web.EndingOf
	return s.ingest(ctx, nil, o, func(ctx context.Context, in ingest.Input) (ingest.Result, error) {
		return ingest.Connect(ctx, s.base, c, in)
	})
}

func (s *Sluice) ingest(ctx context.Context, paths []string, o ingest.Options,
	run func(context.Context, ingest.Input) (ingest.Result, error)) (ingest.Result, error) {
	return during(ctx, s, func(ctx context.Context) (r ingest.Result, err error) {
		in, err := s.ingestInput(ctx, paths, o)
		if err != nil {
			return r, err
		}
		if o.Entities {
			if in.Names, err = s.names(ctx); err != nil {
				return r, err
			}
		}
		if r, err = run(ctx, in); err != nil {
			return r, err
		}
		e, err := s.base.Encoder(ctx)
		if err != nil {
			return r, err
		}
		return r, s.keepRuntime(ctx, e) // the store may be new
	})
}

func (s *Sluice) ingestInput(ctx context.Context, paths []string, o ingest.Options) (ingest.Input, error) {
	in := ingest.Input{Paths: paths, Options: o, Pictures: pictureReader{s}}
	if root, err := fetch.Root(); err == nil && o.CacheDir == "" {
		in.CacheDir = filepath.Join(root, "pdf")
	}
	if o.OCR == ingest.OCRAlways {
		if _, err := s.ocr.get(ctx); err != nil {
			return in, err
		}
	}
	return in, nil
}

// Preview yields the chunks that Ingest would make of files with the same options, and stores nothing. Of a local
// encoder it loads only the tokenizer, unless chunks are split by subject (ingest.Options.Chunker). Files that are not
// read are reported to ingest.Options.OnSkip.
func (s *Sluice) Preview(ctx context.Context, paths []string, o ingest.Options) iter.Seq2[corpus.Chunk, error] {
	return sequence(ctx, s, func(ctx context.Context, yield func(corpus.Chunk, error) bool) error {
		counter, free := s.counter(ctx)
		defer free()
		in, err := s.ingestInput(ctx, paths, o)
		if err == nil {
			ingest.Preview(ctx, s.base, in, counter)(yield)
		}
		return err
	})
}

// counter returns the tokenizer of the encoder; nil if the encoder has to be loaded to count tokens.
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
	name, _, tokens := embed.SplitName(name)
	if _, _, ok := remote.SplitName(name); ok {
		return nil, none
	}
	dir, err := models.Locate(name)
	if err != nil {
		return nil, none
	}
	c, err := embed.OpenCounter(dir, tokens)
	if err != nil {
		s.log.Debug("the encoder is loaded to count tokens", "because", err)
		return nil, none
	}
	return c, c.Close
}

// WatchOptions configures Watch.
type WatchOptions struct {
	ingest.WatchOptions
	// OnSync is called after each sync, before the next one, with the result and the error of an incomplete sync. It
	// may be nil.
	OnSync func(context.Context, ingest.Result, error)
}

// Watch keeps the store in sync with folders until ctx ends, which is not an error: it runs Ingest with
// ingest.Options.Sync at the start, after each change, and at intervals. The error of a failed sync goes to OnSync and
// the sync is repeated; errors that a repetition cannot solve, such as a wrong option, are returned.
func (s *Sluice) Watch(ctx context.Context, paths []string, o ingest.Options, w WatchOptions) (err error) {
	o.Sync = true
	first := true
	return ingest.Watch(ctx, paths, o.Files, w.WatchOptions, func(ctx context.Context) error {
		r, err := s.Ingest(ctx, paths, o)
		if err != nil && ctx.Err() == nil && (first && !isPassing(err) || isAny(err, ErrOption, ErrClosed)) {
			return err
		}
		first = false
		if w.OnSync != nil {
			w.OnSync(ctx, r, err)
		}
		return ctx.Err()
	})
}

// isPassing reports whether the next sync may succeed after an error.
func isPassing(err error) bool {
	return isAny(err, ingest.ErrVanished, store.ErrLocked, store.ErrConflict, corpus.ErrNoDocument)
}

func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}
