// Package chunk splits documents into chunks of whole sentences that an encoder can read.
package chunk

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

// Chunk is a passage: the unit that is embedded, gated, retrieved and cited.
type Chunk struct {
	// stable: same document id, text and occurrence give the same id; with NoChunk the document's id
	ID       string `json:"id"`
	Document string `json:"document"`
	Source   string `json:"source"`
	Heading  string `json:"heading,omitempty"` // path joined by " › ", "…" where it had to be shortened
	Anchor   string `json:"anchor,omitempty"`
	Topic    string `json:"topic,omitempty"`
	Start    int    `json:"start"` // byte range in the source file
	End      int    `json:"end"`
	Text     string `json:"text"`
	Tokens   int    `json:"tokens"` // of EmbedText, as the encoder counts, special tokens included
}

// EmbedText returns what the encoder reads: the heading path on a line of its own, then the text.
// Split keeps its size limit for this string.
func (c Chunk) EmbedText() string {
	if c.Heading == "" {
		return c.Text
	}
	return c.Heading + "\n" + c.Text
}

// Digest returns the SHA-256 in hex of EmbedText: chunks of the same digest have the same vector.
func (c Chunk) Digest() string { return doc.TextDigest(c.EmbedText()) }

// TokenCounter counts tokens as the encoder does, special tokens included (embed.Encoder.CountTokens).
type TokenCounter func(text string) (int, error)

// Options are the options of Split. Size and Overlap are in tokens of the encoder; Size includes special tokens.
type Options struct {
	Size, Overlap int
	MaxTokens     int          // limit of the encoder, 0 = unknown; a larger Size is ErrChunkSize
	NoChunk       bool         // one chunk per document, whatever its length
	Count         TokenCounter // nil only with NoChunk
	Semantic      *Semantic    // cuts where the subject changes; nil fills chunks up
	// Reject returns why a chunk, given by its EmbedText, is dropped, nil to keep it; it is asked right after Count was
	// called for that text. May be nil.
	Reject func(text string) error
	OnSkip func(doc.Skipped) // called for each chunk that was dropped (ErrNoWords, or Reject's error); may be nil
}

// Preset parses a chunking of the form "size/overlap" in tokens, such as "256/2" and "512/10".
func Preset(name string) (size, overlap int, err error) {
	a, b, ok := strings.Cut(name, "/")
	size, err1 := strconv.Atoi(a)
	overlap, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || size < 1 || overlap < 0 || overlap > size/2 {
		return 0, 0,
			fmt.Errorf("%w: chunking %q is not SIZE/OVERLAP with an overlap of at most half the size, such as 256/2 "+
				"or 512/10", ErrSize, name)
	}
	return size, overlap, nil
}
