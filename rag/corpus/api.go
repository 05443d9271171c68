package corpus

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/clean"
	"github.com/sluice-rag/sluice/rag/corpus/internal/build"
	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
	"github.com/sluice-rag/sluice/rag/corpus/pdf"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
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
	BytesPerToken    = chunk.BytesPerToken
	MaxBuffer        = chunk.MaxBuffer
	CleanContents    = clean.Contents
	CleanIndex       = clean.Index
	CleanBoilerplate = clean.Boilerplate
)

// Chunks yields the chunks of a document ([chunk.Each]).
func Chunks(ctx context.Context, d *Document, o ChunkOptions) iter.Seq2[Chunk, error] {
	return chunk.Each(ctx, d, o)
}

// Split returns the chunks of a document ([chunk.Split]).
func Split(d *Document, o ChunkOptions) ([]Chunk, error) { return chunk.Split(d, o) }

// Preset parses a chunking such as "256/2" ([chunk.Preset]).
func Preset(name string) (size, overlap int, err error) { return chunk.Preset(name) }

// ParseCleaners reads the names of cleaners ([clean.Parse]).
func ParseCleaners(s string) ([]Cleaner, error) { return clean.Parse(s) }

// SentenceEnds returns the offsets behind each sentence of unmarked text ([sentence.Ends]).
func SentenceEnds(text string) []int { return sentence.Ends(text) }

// IsListItem reports whether line begins with a bullet or a number ([doc.IsListItem]).
func IsListItem(line string) bool { return doc.IsListItem(line) }

// HeaderRows returns how many of a table's first rows name its columns ([build.HeaderRows]).
func HeaderRows(rows [][]string) int { return build.HeaderRows(rows) }

// Groups returns the groups that a value of AccessKey names ([doc.Groups]).
func Groups(raw json.RawMessage) []string { return doc.Groups(raw) }

// TextDigest returns the SHA-256 of text in hex.
func TextDigest(text string) string { return doc.TextDigest(text) }
