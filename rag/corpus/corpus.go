// Package corpus turns files into documents and documents into chunks: text, Markdown, HTML and
// JSON lines, folders of them; chunks follow headings and sentences and never exceed what the
// encoder reads. What is skipped is counted and said.
package corpus

import (
	"context"
	"errors"
	"iter"
)

// Document is one source with its plain text. Section offsets are bytes of Text; Chunk positions are
// bytes of the source file, so that a citation can be opened in an editor.
type Document struct {
	ID       string // stable: from the source's path relative to its root, or the JSON line's id
	Source   string // path as the user gave it, "path:line" for JSON lines
	Title    string
	Topic    string
	Text     string // plain text, valid UTF-8, NFC, no NUL
	Sections []Section
	Digest   string            // "sha256:…" of the source bytes
	Meta     map[string]string // further string fields of a JSON line
	offsets  offsetMap         // Text → source bytes
}

// Section is a heading and the byte range of Text that belongs to it (its own text, not its children's).
type Section struct {
	Heading    []string // path of headings, outermost first
	Anchor     string   // id attribute or slug, for links; may be ""
	Start, End int
}

// Chunk is a context: what is embedded, gated, retrieved and cited.
type Chunk struct {
	ID         string `json:"id"` // stable: same document id, text and position in it give the same id; with NoChunk the JSON line's id
	Document   string `json:"document"`
	Source     string `json:"source"`
	Heading    string `json:"heading,omitempty"` // path joined by " › "
	Anchor     string `json:"anchor,omitempty"`
	Topic      string `json:"topic,omitempty"`
	Start, End int    // byte range in the source file
	Text       string `json:"text"`
	Tokens     int    `json:"tokens"` // as the encoder counts, special tokens included
}

// Skipped is a file or line that was not read, and why.
type Skipped struct {
	Source string
	Err    error
}

// LoadOptions of Load.
type LoadOptions struct {
	MaxFileBytes int64         // 0 = 256 MiB
	Strict       bool          // a bad line or file ends the iteration with its error instead of a skip
	OnSkip       func(Skipped) // called for each; may be nil
}

// Loader yields the documents below paths (files or folders, walked in name order; hidden files and
// unknown kinds are skipped and reported). The sequence stops at the first error when Strict.
type Loader interface {
	Load(ctx context.Context, paths []string, o LoadOptions) iter.Seq2[*Document, error]
}

// TokenCounter counts tokens as the encoder does, special tokens included (embed.Encoder.CountTokens).
type TokenCounter func(text string) (int, error)

// ChunkOptions: Size and Overlap are tokens of the encoder. Size counts special tokens.
type ChunkOptions struct {
	Size, Overlap int
	MaxTokens     int  // what the encoder reads; a Size above it is ErrChunkSize
	NoChunk       bool // one chunk per document, whatever its length
	Count         TokenCounter
}

// The errors of this package.
var (
	ErrChunkSize  = errors.New("corpus: chunk size does not fit the encoder")
	ErrFormat     = errors.New("corpus: unreadable source")
	ErrNoDocument = errors.New("corpus: nothing to read")
	ErrUnknown    = errors.New("corpus: unknown file kind")
)

// offsetMap maps byte offsets of Document.Text to byte offsets of the source, as sorted segments.
type offsetMap []offsetSegment

type offsetSegment struct{ text, source int }
