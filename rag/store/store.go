// Package store keeps documents, chunks and their vectors durably: append-only vector segments and one
// SQLite database that is the only truth about what exists. What Commit has returned survives a kill
// at any moment and a power cut (pwrite, fdatasync, then the SQLite commit in WAL mode with
// synchronous=FULL); what it has not returned is invisible or, if only the answer got lost, complete.
//
// A store is a folder:
//
//	sluice.db             SQLite, WAL: encoder, documents, chunks, texts, labels, small values (schema.go)
//	segments/000000.vec   4 KiB header (segment.go), then rows of dim little-endian float32
//	segments/000001.vec   …
//	index/                what could be made again: rows (rowsfile.go), and what knowledge keeps there
//	uploads/              what was handed in to a server and is not ingested yet; uploads.lock says to which one
//	lock                  flock of whoever writes, with the process id; readers do not touch it
//
// The vector of row r lies in segment r / segment_rows at byte 4096 + (r mod segment_rows)·4·dim.
// A row is live if and only if the database has a chunk of that number: deleting a chunk deletes its line and leaves
// its number in the table of deleted rows; no vector is moved or copied. Bytes of a segment after the last row that the
// database counts are leftovers of a writer that was killed; the next Commit writes over them. Every 256 rows have a
// CRC-32C in the database.
//
// One data flow: Batch → validate → pwrite + fdatasync → SQLite transaction → ids (Commit);
// database snapshot + mapped segments → View.
package store

import (
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/embed/identity"
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
	// Groups restrict a reader to the documents that everybody or one of these groups may read, as if the store held
	// nothing else. They need ReadOnly. nil reads everything, an empty list only what everybody may read.
	Groups []string
	// Shared is the database that keeps the store, of which the folder is a replica; nil: the folder is the store.
	Shared *Shared
	like   *settings // whose id, date and rows per segment a new store gets; nil: its own
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
	// Partial says that the documents go on in a later batch: until one without it they are shown as incomplete.
	Partial bool
	// Take are ids of documents that may be replaced by those of another source. Without that it is ErrConflict, unless
	// the content is the same.
	Take []string
	// Labels are set for the chunks that it names by their ids, instead of those that they had; nil sets none. A chunk
	// whose text stays keeps its labels otherwise.
	Labels map[string][]Label
	// HandedIn is when the documents were handed in; nil: now. What has changed one of them later stays, and Commit is
	// an OvertakenError.
	HandedIn *Moment
	// Files are states of files that this batch brings up to date, with it or not at all.
	Files []FileState

	added map[string]string // when documents were first committed, by their ids; of an export
}

// Label is something that is said in a chunk, such as the name of a person. A chunk has it once.
type Label struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// DocumentInfo is a line of `docs list`.
type DocumentInfo struct {
	ID, Source, Title, Topic, Digest string
	Chunks                           int
	Tokens                           int
	Added                            string // RFC 3339, when this content was first committed
	Meta                             corpus.Meta
	Path                             string // absolute path of the file; "" if unknown
	Line                             bool   // the document is one line of the file
	Collection                       string // collection whose root contains the file, or ""
	Partial                          bool   // an ingest was interrupted before all chunks were stored
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
	ErrVersion   = errors.New("store: made by another version of sluice")
	ErrInput     = errors.New("store: unusable input")
	ErrClosed    = errors.New("store: closed")
	ErrConflict  = errors.New("store: refused")
	// ErrUncertain is the failure of a COMMIT itself. In a folder the next change undoes it, but if the process ends
	// before, SQLite may find the change in its log and make it after all. In a database it was made, or was not.
	ErrUncertain = errors.New("store: it is not known whether a change was made")
	// ErrNoStore is an ErrNotFound: the folder holds no store.
	ErrNoStore = fmt.Errorf("%w: no store", ErrNotFound)
)
