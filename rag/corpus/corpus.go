// Package corpus turns files and folders into documents and documents into chunks. Chunks follow headings and sentences
// and never exceed the encoder's limit. What is skipped is counted and reported.
package corpus

import (
	"context"
	"errors"
	"iter"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/clean"
	"github.com/sluice-rag/sluice/rag/corpus/code"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/pdf"
)

// LoadOptions are the options of Load.
type LoadOptions struct {
	FileOptions
	MaxFileBytes int64 // 0 = 256 MiB
	// CacheDir is the folder that keeps the compiled reader of PDF files, as compiling takes seconds; "": not kept.
	CacheDir string
	// Pictures reads text in pictures: picture files, and pages of PDF files without text or, with AllPages, all of
	// them, whose text is then left out. nil: no text in pictures is read.
	Pictures     PictureReader
	AllPages     bool
	Clean        []Cleaner     // what is removed from the prose of documents, in the order of ParseCleaners
	MaxTextBytes int           // bound of a document's text; the rest is not read. 0 = unbounded
	Strict       bool          // a bad line or file ends the iteration with its error instead of a skip
	OnSkip       func(Skipped) // called for each; may be nil
}

// The errors of this package.
var (
	ErrFormat     = doc.ErrFormat
	ErrUnknown    = doc.ErrUnknown
	ErrTooLarge   = doc.ErrTooLarge
	ErrNoWords    = doc.ErrNoWords
	ErrGenerated  = code.ErrGenerated
	ErrPictures   = pdf.ErrPictures
	ErrCleaner    = clean.ErrUnknown
	ErrChunkSize  = chunk.ErrSize
	ErrSemantic   = chunk.ErrSemantic
	ErrNoDocument = errors.New("corpus: nothing to read")
	ErrHidden     = errors.New("corpus: hidden file or folder")
	ErrIgnored    = errors.New("corpus: ignored")
	ErrStore      = errors.New("corpus: a store of Sluice")
	ErrTime       = errors.New("corpus: takes longer than the limit")
	ErrDuplicate  = errors.New("corpus: document id seen before")
)

// What the packages below define and others use.
type (
	Document      = doc.Document
	Section       = doc.Section
	Meta          = doc.Meta
	Skipped       = doc.Skipped
	Cleaner       = doc.Cleaner
	Cleaned       = doc.Cleaned
	Chunk         = chunk.Chunk
	ChunkOptions  = chunk.Options
	Semantic      = chunk.Semantic
	TokenCounter  = chunk.TokenCounter
	PictureLine   = pdf.PictureLine
	PictureReader = pdf.PictureReader
)

// Constants of the packages below.
const (
	AccessKey        = doc.AccessKey
	OCRKey           = doc.OCRKey
	CleanContents    = clean.Contents
	CleanIndex       = clean.Index
	CleanBoilerplate = clean.Boilerplate
	CleanBullets     = clean.Bullets
	CleanDashes      = clean.Dashes
	CleanSpace       = clean.Space
)

// Chunks yields the chunks of a document ([chunk.Each]).
func Chunks(ctx context.Context, d *Document, o ChunkOptions) iter.Seq2[Chunk, error] {
	return chunk.Each(ctx, d, o)
}

// ParseCleaners reads the names of cleaners ([clean.Parse]).
func ParseCleaners(s string) ([]Cleaner, error) { return clean.Parse(s) }
