package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/entities"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/store"
)

// Input names what Run puts into a base: files, folders and JSON lines, in the order of Paths.
type Input struct {
	Paths []string
	Options
	Names embed.Tagger // finds names for Options.Entities; nil takes rules, which find fewer
	// Pictures reads text in pictures, unless Options.OCR says not to; nil: none is read.
	Pictures corpus.PictureReader
}

// Options of Run. The zero value cuts into chunks of preset 256/2 and commits every 256.
type Options struct {
	Chunk string `key:"chunk" doc:"SIZE/OVERLAP of chunks in tokens of the encoder, special ones counted"` // "" is 256/2
	// one chunk per document or JSON line: its first 64 KiB, or 32 bytes for each token that the encoder reads
	NoChunk bool
	// Chunker is Fixed ("" as well) or Semantic.
	Chunker  string          `key:"chunker" oneof:"fixed semantic" doc:"where chunks end: fixed fills them with sentences; semantic also ends them where the subject changes, which embeds each sentence as well"`
	Semantic SemanticOptions `key:".ingest"`

	// Clean is parsed by corpus.ParseCleaners; "" removes nothing.
	Clean string `key:"clean" doc:"what is taken out of the prose of documents: none, all, or with commas between: contents (tables of contents), index, boilerplate (lines that come again and again, page numbers), bullets, dashes, space"`
	// Access holds the groups that may read what is ingested, unless it names groups itself. nil leaves what earlier
	// ingests of the same folders said; Everybody alone takes that back.
	Access []string `key:"access" doc:"groups that may read what is ingested, besides those who may read everything; documents that name groups themselves (access in front matter or JSON) keep these; * is everybody. Later ingests of the same folder keep them"`
	// OCR is OCRAuto ("" as well), OCROff or OCRAlways.
	OCR      string `key:"ocr" oneof:"off auto always" doc:"text in pictures: auto reads picture files and pages of PDF files that have no text, where the models are here ('models pull ocr'); always reads all pages of PDF files as pictures, and fails without the models; off reads none"`
	Language string `key:"language" doc:"language of documents that name none, as an ISO 639-1 code such as de; empty guesses each one's"`
	Entities bool   `key:"entities" doc:"find people, places, organisations, dates and quantities in each chunk, to search by them (--where label.person=NAME); names by the classifier, if that labels parts of texts, else by rules"`

	// Duplicates is KeepDuplicates ("" as well), ReportDuplicates or DropDuplicates.
	Duplicates string `key:"duplicates" oneof:"keep report drop" doc:"new chunks that nearly repeat others: keep does not look for them, report tells of them, drop does not store them"`

	CommitEvery  int   `key:"commit_every" bounds:"1,65536" doc:"chunks per commit: what a kill can cost, and the unit of 'committed' lines"` // 0 is 256
	MaxFileBytes int64 `key:"max_file_mib" unit:"MiB" bounds:"1,65536" doc:"larger files are skipped and reported, MiB"`                      // 0 is 256 MiB

	Strict bool               // a bad line or file is an error instead of a skip
	Files  corpus.FileOptions `key:".ingest"` // which files are read, and how
	// Collection names the folder whose documents these are, where it has no name yet, and stands before the ids of
	// JSON lines; "" names it after the folder.
	Collection string
	Replace    bool // an id that another source has is taken from it, instead of being refused
	// Given are the names under which files were handed in that are here for the ingest only, by their paths in Paths.
	// Such a document has no file: its id and its source are UploadPrefix and the name, and the same name handed in
	// again replaces it. A name is text only, and never a path that anything is read from.
	Given map[string]string
	// Pages are the addresses of pages of the web that were fetched into files of Paths, by these: as Given, but the
	// address is the id and the source.
	Pages map[string]string
	// Sources are the sources of documents of Pages by their ids, for a connector: such documents keep their own ids,
	// and a JSON line may name its source in its field "source".
	Sources map[string]string
	// HandedIn is when that was, if it is to be kept in order with later changes: a document of Given that was deleted
	// since, or replaced by what was handed in later, is left out. nil: it is handed in now.
	HandedIn *store.Moment

	// Sync brings the documents below Paths up to date: files that are as they were are not read, and documents whose
	// files have gone are removed, within limits.
	Sync        bool
	SyncOptions `key:".ingest"`

	OnTake   func(id, from string)                      // for each document that replaces one of another source
	OnFolder func(store.Collection)                     // for each folder that gets a name which is not its own
	OnCommit func(ids []string)                         // after each commit, with the ids that are durable now
	OnSkip   func(corpus.Skipped)                       // for each file or line that was not read
	OnClean  func(source string, what []corpus.Cleaned) // for each document that something was taken out of
	// for each new chunk that repeats another one, unless these are kept; it is told again when a commit is tried again
	OnDuplicate func(knowledge.Repeat)
	CacheDir    string         // as corpus.LoadOptions has it
	Progress    func(Progress) // now and then
}

// DefaultOptions returns the default options.
func DefaultOptions() Options {
	return Options{Chunk: DefaultChunk, Chunker: Fixed, Semantic: SemanticOptions{Percentile: DefaultPercentile},
		Clean: "none", OCR: OCRAuto, Duplicates: KeepDuplicates, CommitEvery: DefaultCommitEvery,
		MaxFileBytes: corpus.DefaultMaxFileBytes,
		Files:        corpus.FileOptions{Archives: corpus.DefaultArchiveLimits(), MaxSeconds: corpus.DefaultSeconds},
		SyncOptions:  SyncOptions{MaxDelete: DefaultMaxDelete}}
}

// Result counts what Run did. It is right also when Run failed: what it counts as committed stays.
type Result struct {
	Documents int `json:"documents"` // committed to their end
	Chunks    int `json:"chunks"`    // committed
	Embedded  int `json:"embedded"`  // new or changed chunks, with those that were dropped
	Known     int `json:"known"`     // of Chunks: stored before with the same text and heading
	Reused    int `json:"reused"`    // of Chunks: new ones that got the vector of another chunk with the same text
	Read      int `json:"read"`      // files that were read
	Skipped   int `json:"skipped"`   // files and lines that were not read
	Empty     int `json:"empty"`     // documents without a word
	Cut       int `json:"cut"`       // documents of which NoChunk kept the beginning only
	// documents by language (ISO 639-1) that the encoder was not trained for
	Foreign   map[string]int `json:"foreign,omitempty"`
	Truncated int            `json:"truncated"` // chunks that the encoder did not read to their end
	Repaired  int            `json:"repaired"`  // chunks with NUL bytes or invalid UTF-8
	// Cleaned counts what Options.Clean removed, by cleaner.
	Cleaned map[corpus.Cleaner]int `json:"cleaned,omitempty"`
	// EmptyPages counts the pages of PDF files that have no text, most of them scans.
	EmptyPages int `json:"empty_pages,omitempty"`
	// Duplicates counts new chunks that repeat others. Duplicates that were dropped are not counted in Chunks.
	Duplicates int     `json:"duplicates,omitempty"`
	Renewed    int     `json:"renewed"`             // chunks whose text or vector was damaged: embedded again
	Labelled   int     `json:"labelled,omitempty"`  // documents that got their topic from the store's router
	Removed    int     `json:"removed,omitempty"`   // documents that a connector said are gone
	Taken      int     `json:"taken"`               // documents that replace one of another source
	Refused    int     `json:"refused"`             // documents whose id another source has
	Overtaken  int     `json:"overtaken,omitempty"` // documents that were changed after they were handed in
	Commits    int     `json:"commits"`
	Entities   int     `json:"entities"` // entity labels found in new chunks
	Unnamed    int     `json:"unnamed"`  // chunks in which names were not looked for to their end
	Seconds    float64 `json:"seconds"`

	Sync *SyncResult `json:"sync,omitempty"` // nil without Options.Sync
}

// What Options.OCR may be.
const (
	OCRAuto   = "auto"
	OCROff    = "off"
	OCRAlways = "always"
)

// The defaults of Options.
const (
	DefaultChunk       = "256/2"
	DefaultCommitEvery = 256
)

// minTextBytes is the least length of a text that NoChunk keeps: more than encoders read of it, because it is searched
// for words as well, and short enough to count its tokens at once.
const minTextBytes = 64 << 10

// Run puts documents into the base's store, which it makes when absent. Chunks that are stored with the same
// text and heading are not embedded again, so an interrupted run goes on where it was. No document at all is
// corpus.ErrNoDocument; a store of another encoder store.ErrEncoder; another process that writes for longer than a
// commit waits store.ErrLocked; a bad option knowledge.ErrOption. Documents whose ids other sources have are left out,
// and store.ErrConflict when all else is done.
func Run(ctx context.Context, base *knowledge.Base, in Input) (result Result, err error) {
	started := time.Now()
	ctx = cores.AsBatch(ctx)
	r := &run{base: base, o: in.Options, result: &result, track: newTracker(in.Progress, time.Now)}
	r.router = sync.OnceValue(r.storeRouter)
	defer func() {
		result.Seconds = time.Since(started).Seconds()
		err = base.Changed(err)
	}()
	if r.o.CommitEvery < 0 {
		return result, fmt.Errorf("%w: commit every %d chunks", knowledge.ErrOption, r.o.CommitEvery)
	}
	r.o.CommitEvery = cmp.Or(r.o.CommitEvery, DefaultCommitEvery)
	if err = errors.Join(r.chooseEntities(in.Names), r.chooseSync(), r.chooseDuplicates()); err != nil {
		return result, err
	}
	if err = r.prepare(ctx, in, nil); err != nil {
		return result, err
	}
	if err = r.openExisting(ctx, in.Paths); err != nil {
		return result, err
	}
	r.how = howOf(r.o, r.entitiesBy(), r.access)
	defer r.base.WatchEncoder(nil)
	load := r.loading(r.unread)
	if err = r.plan(ctx, in.Paths, load); err != nil {
		return result, err
	}
	r.measure()
	for doc, err := range corpus.LoadFiles(ctx, r.files(ctx), load) {
		if err == nil {
			err = r.add(ctx, doc)
		}
		if err != nil {
			return result, err
		}
	}
	if err = ctx.Err(); err == nil {
		err = r.commit(ctx, r.whole())
	}
	refused := error(nil)
	if err == nil && r.o.Sync {
		if err = r.remove(ctx); errors.Is(err, ErrVanished) {
			refused, err = err, nil
		}
	}
	if err != nil {
		return result, err
	}
	r.sayLanguages()
	if result.Refused > 0 {
		refused = errors.Join(refused, fmt.Errorf("%w: %d documents, whose ids other sources have", store.ErrConflict,
			result.Refused))
	}
	if result.Documents == 0 && result.Overtaken == 0 && refused == nil && !r.o.Sync {
		return result, fmt.Errorf("%w in %s: %d files or lines skipped, %d documents without a word",
			corpus.ErrNoDocument, strings.Join(in.Paths, ", "), result.Skipped, result.Empty)
	}
	return result, errors.Join(r.tidy(ctx), refused)
}

// loading returns how files are read.
func (r *run) loading(onSkip func(corpus.Skipped)) corpus.LoadOptions {
	o := corpus.LoadOptions{FileOptions: r.o.Files, MaxFileBytes: r.o.MaxFileBytes, Strict: r.o.Strict, OnSkip: onSkip,
		CacheDir: r.o.CacheDir, Clean: r.clean, Pictures: r.pictures, AllPages: r.o.OCR == OCRAlways}
	if r.o.NoChunk {
		o.MaxTextBytes = max(minTextBytes, r.chunk.MaxTokens*chunk.BytesPerToken)
	}
	return o
}

// chunkSize reads a preset's name or SIZE/OVERLAP.
func chunkSize(s string) (size, overlap int, err error) {
	s = cmp.Or(s, DefaultChunk)
	if size, overlap, err = chunk.Preset(s); err == nil {
		return size, overlap, nil
	}
	a, b, ok := strings.Cut(s, "/")
	size, errSize := strconv.Atoi(a)
	overlap, errOverlap := strconv.Atoi(b)
	if !ok || errSize != nil || errOverlap != nil || size < 1 || overlap < 0 || overlap >= size {
		return 0, 0, fmt.Errorf("%w: chunks of %q: neither a preset (256/2, 512/10) nor SIZE/OVERLAP in tokens "+
			"with SIZE > OVERLAP", knowledge.ErrOption, s)
	}
	return size, overlap, nil
}

// run is one call of Run. pending holds whole documents; one with more chunks than a commit takes
// goes in several, of which the last lists all its chunks, so that outdated ones are found.
type run struct {
	base    *knowledge.Base
	o       Options
	enc     embed.Embedder
	store   *store.Store
	chunk   corpus.ChunkOptions
	result  *Result
	pending store.Batch
	meter   *meter
	track   *tracker
	names   *names

	held  *store.Store // for reading; nil when there was none
	todo  []reading    // files that are to be read
	now   *reading     // the one that is being read
	how   string       // what documents depend on besides their files (store.FileState.How)
	texts texts
	sync  syncing

	take   []string             // ids of Batch.Take
	router func() *route.Router // storeRouter, which is called once
	at     int64                // bytes that are committed

	compared *meter // of the sentences that Semantic has compared; nil without it
	reached  int64  // bytes up to there

	entities *entities.Finder // nil without Options.Entities
	labelled map[string]bool  // documents whose stored chunks have their labels

	given map[string]string // sources of Options.Given and Options.Pages, by what Document.Path is

	dropped map[string]bool // ids of chunks that repeat others
	clean   []corpus.Cleaner
	access  accessRules

	pictures corpus.PictureReader // nil: text in pictures is not read
}

// openExisting opens the store if there is one; else it is made when there is something to put in.
func (r *run) openExisting(ctx context.Context, paths []string) (err error) {
	if r.held, err = r.base.Reader(ctx); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	there := err == nil
	if err = r.chooseAccess(ctx, paths); err != nil || !there || r.o.DryRun {
		return err
	}
	return r.open(ctx)
}

// open opens the store for writing, which makes it when absent, and learns the names in it.
func (r *run) open(ctx context.Context) (err error) {
	if r.store != nil {
		return nil
	}
	info := r.enc.Info()
	if r.store, err = r.base.Writer(ctx, &info.Encoder); err != nil {
		return err
	}
	if err := knowledge.SameEncoder(r.store, info.Encoder); err != nil {
		return err
	}
	if err := r.keepAccess(ctx); err != nil {
		return err
	}
	if err := r.repair(ctx); err != nil {
		return err
	}
	sources, err := r.store.Sources(ctx)
	if err == nil {
		r.names, err = newNames(ctx, r.store, r.o, sources)
	}
	return err
}

func (r *run) skip(k corpus.Skipped) {
	r.result.Skipped++
	if r.o.OnSkip != nil {
		r.o.OnSkip(k)
	}
}

func (r *run) add(ctx context.Context, doc *corpus.Document) error {
	r.cleaned(doc)
	switch {
	case doc.Line == 0 && !r.now.still(): // it is read again
		return nil
	case r.o.DryRun:
		r.preview(doc)
		return nil
	}
	if r.store == nil { // nothing is made for documents without a word
		if some, err := r.hasChunk(ctx, doc); err != nil || !some {
			return err
		}
	}
	r.handedIn(doc)
	if ok, err := r.name(ctx, doc); !ok || r.isThere(doc) {
		return err
	}
	if late, err := r.isOvertaken(ctx, doc); late || err != nil {
		return err
	}
	if err := r.restrict(ctx, doc); err != nil {
		return err
	}
	if err := r.lendCopy(ctx, doc); err != nil {
		return err
	}
	r.tellLanguage(doc)
	if err := r.tellEntities(ctx, doc); err != nil {
		return err
	}
	var before, chunks []corpus.Chunk // committed, and to be
	for c, err := range r.chunks(ctx, doc) {
		if err != nil {
			return fmt.Errorf("%s: %w", doc.Source, err)
		}
		if len(chunks) == r.o.CommitEvery { // there is more: the document goes in several commits
			err := r.commit(ctx, r.whole())
			if err == nil && before == nil {
				err = r.label(ctx, doc, chunks)
			}
			if err != nil {
				return err
			}
			part := store.Batch{Documents: []*corpus.Document{doc}, Chunks: chunks, Partial: true}
			if err := r.commit(ctx, part); err != nil {
				return err
			}
			before, chunks = append(before, chunks...), nil
		}
		chunks = append(chunks, c)
	}
	return r.put(ctx, doc, before, chunks)
}

// put commits the last chunks of a document together with other documents; before lists its chunks that were committed
// already.
func (r *run) put(ctx context.Context, doc *corpus.Document, before, chunks []corpus.Chunk) error {
	if code := doc.Meta.Text(languageKey); !r.enc.Info().Knows(code) {
		if r.result.Foreign == nil {
			r.result.Foreign = map[string]int{}
		}
		r.result.Foreign[code]++
	}
	if len(chunks) == 0 { // each was reported
		r.result.Empty++
		r.now.noWords = true
		return nil
	}
	r.result.EmptyPages += len(doc.Empty)
	if doc.Cut {
		r.result.Cut++
	}
	r.meet(doc)
	r.now.documents[doc.ID] = doc.Digest
	if before != nil {
		return r.commit(ctx, store.Batch{
			Documents: []*corpus.Document{doc}, Chunks: chunks, Known: before, Replace: true,
		})
	}
	if err := r.label(ctx, doc, chunks); err != nil {
		return err
	}
	isPending := func(d *corpus.Document) bool { return d.ID == doc.ID } // its file is being read again
	if len(r.pending.Chunks)+len(chunks) > r.o.CommitEvery || slices.ContainsFunc(r.pending.Documents, isPending) {
		if err := r.commit(ctx, r.whole()); err != nil {
			return err
		}
	}
	r.pending.Documents = append(r.pending.Documents, doc)
	r.pending.Chunks = append(r.pending.Chunks, chunks...)
	return nil
}

// hasChunk reports whether a document has a chunk. One without is reported and counted.
func (r *run) hasChunk(ctx context.Context, doc *corpus.Document) (bool, error) {
	var skipped []corpus.Skipped
	o := r.chunk
	o.Semantic = nil // it cuts the same words
	o.OnSkip = func(k corpus.Skipped) { skipped = append(skipped, k) }
	for _, err := range corpus.Chunks(ctx, doc, o) {
		if err != nil {
			return false, fmt.Errorf("%s: %w", doc.Source, err)
		}
		return true, nil // what was skipped before it is reported when the cut of the document is final
	}
	for _, k := range skipped {
		r.skip(k)
	}
	r.result.Empty++
	return false, nil
}

// name gives a document its id; ok is false when it is left out, or with an error.
func (r *run) name(ctx context.Context, doc *corpus.Document) (ok bool, err error) {
	if err := r.open(ctx); err != nil {
		return false, err
	}
	from, err := r.names.name(ctx, doc)
	var refused *refusedError
	switch {
	case errors.As(err, &refused) && !r.o.Strict:
		r.now.refused = true
		r.result.Refused++
		r.skip(corpus.Skipped{Source: doc.Source, Err: err})
		return false, nil
	case err != nil:
		return false, err
	case from != "":
		r.take = append(r.take, doc.ID)
		r.result.Taken++
		if r.o.OnTake != nil {
			r.o.OnTake(doc.ID, from)
		}
	}
	return true, nil
}
