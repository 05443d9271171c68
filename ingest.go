package sluice

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// IngestOptions of Ingest. The zero value cuts into chunks of preset 256/2 and commits every 256.
type IngestOptions struct {
	Chunk        string // preset ("256/2", "512/10") or SIZE/OVERLAP in tokens; "" is 256/2
	NoChunk      bool   // one chunk per document or JSON line; what the encoder does not read of it is cut and counted
	CommitEvery  int    // chunks of one commit; 0 is 256
	MaxFileBytes int64  // larger files are skipped; 0 is 256 MiB
	Strict       bool   // a bad line or file is an error instead of a skip

	OnCommit func(ids []string)      // after each commit, with the ids that are durable now
	OnSkip   func(corpus.Skipped)    // for each file or line that was not read
	Progress func(done, total int64) // bytes of the sources, now and then
}

// IngestResult counts what Ingest did. It is right also when Ingest failed: what it counts as committed stays.
type IngestResult struct {
	Documents int     `json:"documents"` // committed to their end
	Chunks    int     `json:"chunks"`    // committed
	Embedded  int     `json:"embedded"`  // of Chunks: new or changed
	Known     int     `json:"known"`     // of Chunks: stored before with the same text and heading
	Skipped   int     `json:"skipped"`   // files and lines that were not read
	Empty     int     `json:"empty"`     // documents without a word
	Truncated int     `json:"truncated"` // chunks that the encoder did not read to their end
	Repaired  int     `json:"repaired"`  // chunks with NUL bytes or invalid UTF-8
	Commits   int     `json:"commits"`
	Seconds   float64 `json:"seconds"`
}

const (
	defaultChunk       = "256/2"
	defaultCommitEvery = 256
)

// Ingest puts files, folders and JSON lines into the store: documents → chunks → vectors → commits. Chunks
// that are stored with the same text and heading are not embedded again, so an interrupted ingest goes on where it was.
// No document at all is corpus.ErrNoDocument; a store of another encoder store.ErrEncoder; another process
// that writes store.ErrLocked.
func (s *Sluice) Ingest(ctx context.Context, paths []string, o IngestOptions) (result IngestResult, err error) {
	started := time.Now()
	in := &ingestion{s: s, o: o, result: &result}
	defer func() {
		result.Seconds = time.Since(started).Seconds()
		err = s.base.Changed(err)
	}()
	if o.CommitEvery < 0 {
		return result, fmt.Errorf("%w: commit every %d chunks", ErrOption, o.CommitEvery)
	}
	if o.CommitEvery == 0 {
		in.o.CommitEvery = defaultCommitEvery
	}
	if in.enc, err = s.encoder.get(ctx); err != nil {
		return result, err
	}
	info := in.enc.Info()
	in.chunk = corpus.ChunkOptions{MaxTokens: info.MaxTokens, NoChunk: o.NoChunk, Count: in.enc.CountTokens, OnSkip: in.skip}
	if in.chunk.Size, in.chunk.Overlap, err = chunkSize(o.Chunk); err != nil {
		return result, err
	}
	id := knowledge.StoreEncoder(info)
	if in.store, err = s.base.Writer(ctx, &id); err != nil {
		return result, err
	}
	if err = knowledge.SameEncoder(in.store, info); err != nil {
		return result, err
	}
	return result, in.run(ctx, paths)
}

// chunkSize reads a preset's name or SIZE/OVERLAP.
func chunkSize(s string) (size, overlap int, err error) {
	if s == "" {
		s = defaultChunk
	}
	if size, overlap, err = corpus.Preset(s); err == nil {
		return size, overlap, nil
	}
	a, b, ok := strings.Cut(s, "/")
	size, errSize := strconv.Atoi(a)
	overlap, errOverlap := strconv.Atoi(b)
	if !ok || errSize != nil || errOverlap != nil || size < 1 || overlap < 0 || overlap >= size {
		return 0, 0, fmt.Errorf("%w: chunks of %q: neither a preset (256/2, 512/10) nor SIZE/OVERLAP in tokens with SIZE > OVERLAP", ErrOption, s)
	}
	return size, overlap, nil
}

// ingestion is one call of Ingest. pending holds whole documents; one with more chunks than a commit takes
// goes in several, of which the last lists all its chunks, so that outdated ones are found.
type ingestion struct {
	s       *Sluice
	o       IngestOptions
	enc     embed.Embedder
	store   *store.Store
	chunk   corpus.ChunkOptions
	result  *IngestResult
	pending store.Batch
	meter   *meter
	at      int64 // bytes that are committed
}

func (in *ingestion) run(ctx context.Context, paths []string) error {
	in.meter = newMeter(paths)
	defer in.s.base.WatchEncoder(nil)
	load := corpus.LoadOptions{MaxFileBytes: in.o.MaxFileBytes, Strict: in.o.Strict, OnSkip: in.skip}
	for doc, err := range corpus.Load(ctx, paths, load) {
		if err == nil {
			err = in.add(ctx, doc)
		}
		if err != nil {
			return err
		}
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	if in.result.Documents == 0 {
		return fmt.Errorf("%w in %s: %d files or lines skipped, %d documents without a word", corpus.ErrNoDocument, strings.Join(paths, ", "), in.result.Skipped, in.result.Empty)
	}
	return nil
}

func (in *ingestion) skip(k corpus.Skipped) {
	in.result.Skipped++
	if in.o.OnSkip != nil {
		in.o.OnSkip(k)
	}
}

func (in *ingestion) add(ctx context.Context, doc *corpus.Document) error {
	chunks, err := corpus.Split(doc, in.chunk)
	if err != nil {
		return fmt.Errorf("%s: %w", doc.Source, err)
	}
	if len(chunks) == 0 {
		in.result.Empty++
		in.s.log.Warn("a document without a word was left out", "source", doc.Source)
		return nil
	}
	if len(in.pending.Chunks)+len(chunks) > in.o.CommitEvery {
		if err := in.flush(ctx); err != nil {
			return err
		}
	}
	var before []corpus.Chunk
	for len(chunks) > in.o.CommitEvery {
		part := chunks[:in.o.CommitEvery]
		if err := in.commit(ctx, store.Batch{Documents: []*corpus.Document{doc}, Chunks: part}); err != nil {
			return err
		}
		before, chunks = append(before, part...), chunks[in.o.CommitEvery:]
	}
	if before != nil {
		return in.commit(ctx, store.Batch{Documents: []*corpus.Document{doc}, Chunks: chunks, Known: before, Replace: true})
	}
	in.pending.Documents = append(in.pending.Documents, doc)
	in.pending.Chunks = append(in.pending.Chunks, chunks...)
	return nil
}

func (in *ingestion) flush(ctx context.Context) error {
	if len(in.pending.Documents) == 0 {
		return nil
	}
	b := in.pending
	b.Replace = true
	in.pending = store.Batch{}
	return in.commit(ctx, b)
}

// commit embeds those chunks of b that the store does not hold with the same text, and makes all durable.
func (in *ingestion) commit(ctx context.Context, b store.Batch) error {
	ids := make([]string, len(b.Chunks))
	to := in.at
	for i, c := range b.Chunks {
		ids[i] = c.ID
		to = in.meter.position(c.Source, c.End)
	}
	held, err := in.store.Has(ctx, ids)
	if err != nil {
		return err
	}
	var fresh []corpus.Chunk
	var texts []string
	known := 0
	for _, c := range b.Chunks {
		if digest, ok := held[c.ID]; ok && digest == c.Digest() {
			b.Known = append(b.Known, c)
			known++
			continue
		}
		fresh, texts = append(fresh, c), append(texts, c.EmbedText())
	}
	b.Chunks = fresh
	if len(texts) > 0 {
		from := in.at
		in.s.base.WatchEncoder(func(done, total int) { in.progress(from + (to-from)*int64(done)/int64(total)) })
		e, err := in.enc.Embed(ctx, texts, embed.Document)
		if err != nil {
			return err
		}
		b.Vectors = e.Data
		in.result.Truncated += e.Truncated
		in.result.Repaired += e.Repaired
	}
	if _, err := in.store.Commit(ctx, b); err != nil {
		return err
	}
	in.result.Chunks += len(ids)
	in.result.Embedded += len(fresh)
	in.result.Known += known
	in.result.Commits++
	if b.Replace { // not a part of a document that goes on in the next commit
		in.result.Documents += len(b.Documents)
	}
	if in.o.OnCommit != nil {
		in.o.OnCommit(ids)
	}
	in.at = to
	in.progress(to)
	return nil
}

func (in *ingestion) progress(done int64) {
	if in.o.Progress != nil {
		in.o.Progress(done, in.meter.total)
	}
}
