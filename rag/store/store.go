// Package store keeps documents, chunks and their vectors durably: append-only vector segments and one
// SQLite database that is the only truth about what exists. What Commit has returned survives a kill
// at any moment and a power cut (pwrite, fdatasync, then the SQLite commit in WAL mode with
// synchronous=FULL); what it has not returned is invisible or, if only the answer got lost, complete.
//
// A store is a folder:
//
//	sluice.db             SQLite, WAL: encoder, documents, chunks, texts, small values (schema.go)
//	segments/000000.vec   4 KiB header (segment.go), then rows of dim little-endian float32
//	segments/000001.vec   …
//	lock                  flock of the one writer, with its process id; readers do not touch it
//
// The vector of row r lies in segment r / segment_rows at byte 4096 + (r mod segment_rows)·4·dim.
// A row is live if and only if the database has a chunk of that number: deleting a chunk deletes its
// line, so the table itself is the bitmap of live rows. Bytes of a segment after the last row that the
// database counts are leftovers of a writer that was killed; the next Commit writes over them.
//
// One data flow: Batch → validate → pwrite + fdatasync → SQLite transaction → ids (Commit);
// database snapshot + mapped segments → View.
package store

import (
	"errors"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// Options of Open.
type Options struct {
	Create   bool // make the folder and database when absent; else ErrNotFound
	ReadOnly bool // any number of readers beside one writer; nothing is created
	// whose vectors the store holds; another one is ErrEncoder. nil accepts whatever the store holds (reading, listing)
	Encoder *identity.Encoder
	Metric  kernels.Metric // recorded at creation; later opens keep the recorded one (Store.Metric)
}

// Batch is what one Commit makes durable: documents with their chunks and one vector per chunk.
// A chunk id that exists with the same text and heading keeps its vector (the given one is not used; only its
// place in the source is brought up to date); with another text it is replaced; a document's chunks
// that are no longer listed are deleted when Replace is set. Every chunk's document is in the batch
// or in the store already.
type Batch struct {
	Documents []*corpus.Document
	Chunks    []corpus.Chunk
	Vectors   []float32 // len(Chunks) × Dim
	// Known are chunks that the store holds with this very text (see Has): they need no vector, count
	// as listed for Replace and get their place brought up to date. One that is not held is ErrNotFound.
	Known   []corpus.Chunk
	Replace bool
}

// DocumentInfo is a line of `docs list`.
type DocumentInfo struct {
	ID, Source, Title, Topic, Digest string
	Chunks                           int
	Tokens                           int
	Added                            string            // RFC 3339, when this content was first committed
	Meta                             map[string]string // corpus.Document.Meta
}

// View is a snapshot of the live chunks: Vectors.Row(i) belongs to IDs[i], and Chunks has their texts. It stays valid
// until Close, also while a writer, of any process, adds, replaces or deletes, and after the store's own Close. Its
// slices are shared and may be read-only memory: do not write to them, nor use Vectors after Close.
type View struct {
	Vectors     engine.Vectors
	IDs         []string
	Rows        []int64  // of the vectors in the store: what RowVectors takes, ascending
	TextDigests []string // corpus.Chunk.Digest of each chunk
	Groups      []int32  // one number per topic; documents without a topic are a group of their own
	Digest      string   // "sha256:…" over (id, chunk digest) in order: identifies the corpus
	texts       *reader
	release     func() error
}

// The errors of this package, wrapped with the folder and what to do. A full disk is syscall.ENOSPC,
// a NaN or infinity in a vector kernels.ErrNonFinite.
var (
	ErrNotFound  = errors.New("store: not found")
	ErrLocked    = errors.New("store: another process is writing to it")
	ErrEncoder   = errors.New("store: made with another encoder")
	ErrCorrupt   = errors.New("store: damaged")
	ErrDimension = errors.New("store: wrong dimension")
	ErrReadOnly  = errors.New("store: opened read-only")
	ErrVersion   = errors.New("store: made by a newer version")
	ErrInput     = errors.New("store: unusable input")
	ErrClosed    = errors.New("store: closed")
)
