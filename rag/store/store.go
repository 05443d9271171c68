// Package store keeps documents, chunks and their vectors durably: immutable vector segments and one
// SQLite database that is the only truth about what exists. What Commit has returned survives a kill
// at any moment (pwrite, fdatasync, then the SQLite commit in WAL mode with synchronous=FULL).
package store

import (
	"context"
	"errors"
	"iter"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// Encoder identifies whose vectors a store holds; another one is refused with ErrEncoder.
type Encoder struct {
	Name, Digest, TokenizerDigest string
	Dim                           int
}

// Options of Open.
type Options struct {
	Create   bool           // make the folder and database when absent; else ErrNotFound
	ReadOnly bool           // any number of readers beside one writer
	Encoder  *Encoder       // nil accepts whatever the store holds (reading, listing)
	Metric   kernels.Metric // recorded at creation
}

// Batch is what one Commit makes durable: documents with their chunks and one vector per chunk.
// A chunk id that exists with the same text is left as it is; with another text it is replaced;
// a document's chunks that are no longer listed are deleted when Replace is set.
type Batch struct {
	Documents []*corpus.Document
	Chunks    []corpus.Chunk
	Vectors   []float32 // len(Chunks) × Dim
	Replace   bool
}

// DocumentInfo is a line of `docs list`.
type DocumentInfo struct {
	ID, Source, Title, Topic, Digest string
	Chunks                           int
	Tokens                           int
	Added                            string // RFC 3339
}

// View is a consistent picture of the live chunks: Vectors.Row(i) belongs to IDs[i]. It stays valid
// until Close, also while a writer adds or deletes.
type View struct {
	Vectors engine.Vectors
	IDs     []string
	Groups  []int32 // one number per topic; documents without a topic are a group of their own
	Digest  string  // "sha256:…" over (id, text digest) in order: identifies the corpus
	release func() error
}

// Close releases the view's mappings.
func (v *View) Close() error {
	if v.release == nil {
		return nil
	}
	r := v.release
	v.release = nil
	return r()
}

// Interface is what the rest of Sluice needs of a store; *Store implements it.
type Interface interface {
	Commit(ctx context.Context, b Batch) (committed []string, err error)
	View(ctx context.Context) (*View, error)
	Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) // in the order of ids; ErrNotFound names the missing one
	AllChunks(ctx context.Context) iter.Seq2[corpus.Chunk, error]     // in row order
	Has(ctx context.Context, ids []string) (map[string]string, error) // chunk id → text digest, for those that exist
	Documents(ctx context.Context) ([]DocumentInfo, error)
	DeleteDocuments(ctx context.Context, ids []string) (chunks int, err error)
	// SetMeta and Meta keep small values (calibration in force, settings) under a key.
	SetMeta(ctx context.Context, key string, value []byte) error
	Meta(ctx context.Context, key string) ([]byte, error) // ErrNotFound
	Encoder() Encoder
	Dir() string
	Close() error
}

// The errors of this package, wrapped with the folder and what to do.
var (
	ErrNotFound  = errors.New("store: not found")
	ErrLocked    = errors.New("store: another process is writing to it")
	ErrEncoder   = errors.New("store: made with another encoder")
	ErrCorrupt   = errors.New("store: damaged")
	ErrDimension = errors.New("store: wrong dimension")
	ErrReadOnly  = errors.New("store: opened read-only")
	ErrVersion   = errors.New("store: made by a newer version")
)
