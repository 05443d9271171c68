// Package corpus turns files and folders into documents and documents into chunks. Chunks follow headings and sentences
// and never exceed the encoder's limit. What is skipped is counted and reported.
package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Document is one source with its plain text. Section offsets are bytes of Text; Chunk positions are
// bytes of the source file, so that a citation can be opened in an editor. Headings are in Sections,
// not in Text (a heading that has nothing below it is text as well, so that it is not lost).
type Document struct {
	ID       string // stable: from the source's path relative to its root, or the JSON line's id
	Source   string // path as the user gave it, "path:line" for JSON lines
	Path     string // of the file: absolute, links followed; "" without a file
	Folder   string // the given folder, or the folder of the given file; in the form of Path. ID is relative to it
	Given    bool   // the file was given, not a folder
	Line     int    // of the file; 0 when the document is the whole file
	Title    string
	Topic    string
	Text     string // plain text, valid UTF-8, NFC, no NUL
	Sections []Section
	Digest   string    // "sha256:…" of the source bytes that were read
	Cut      bool      // the source has more text than LoadOptions.MaxTextBytes
	Meta     Meta      // further fields of a JSON line or of Markdown front matter
	Repaired int       // invalid byte sequences that became U+FFFD, and NULs that were removed
	Empty    []int     // pages of a PDF file without text, mostly pictures of text
	Cleaned  []Cleaned // what LoadOptions.Clean removed, in the order of the cleaners
	missing  []error   // parts of a book or an Office document that could not be read
	offsets  offsetMap // Text → source bytes; empty: the identity
	blocks   []block   // paragraphs, list items, table rows, code; nil: found by blank lines
	tables   []tableSpan
}

// maxMissing bounds the parts that are said to be missing.
const maxMissing = 1000

// lacks notes a part that could not be read.
func (d *Document) lacks(err error) {
	if len(d.missing) < maxMissing {
		d.missing = append(d.missing, err)
	}
}

// Section is a heading and the byte range of Text that belongs to it (its own text, not its children's).
type Section struct {
	Heading    []string // path of headings, outermost first
	Anchor     string   // id attribute or slug, for links; may be ""
	Start, End int
	source     int // first source byte of the heading
	line       int // of a source file, from 1: its first line, comments included; 0: not code
}

// entitle puts the title above the headings of each section, unless they say it or it says one of them: the options of
// a command are options of what its manual is called.
func (d *Document) entitle() {
	title := strings.Join(strings.Fields(d.Title), " ")
	if title == "" {
		return
	}
	if utf8.RuneCountInString(title) > maxHeading {
		title = cutRunes(title, maxHeading/2) + "…"
	}
	words := func(s string) string {
		return " " + strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsNumber(r)
		}), " ") + " "
	}
	of := words(title)
	said := func(heading string) bool {
		h := words(heading)
		return strings.Contains(of, h) || strings.Contains(h, of)
	}
	d.Sections = d.sections()
	for i, s := range d.Sections {
		if !slices.ContainsFunc(s.Heading, said) {
			d.Sections[i].Heading = append([]string{title}, s.Heading...)
		}
	}
}

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
func (c Chunk) Digest() string { return TextDigest(c.EmbedText()) }

// Skipped is a file or line that was not read, and why.
type Skipped struct {
	Source string
	Err    error
}

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

// TokenCounter counts tokens as the encoder does, special tokens included (embed.Encoder.CountTokens).
type TokenCounter func(text string) (int, error)

// ChunkOptions are the options of Split. Size and Overlap are in tokens of the encoder; Size includes special tokens.
type ChunkOptions struct {
	Size, Overlap int
	MaxTokens     int          // limit of the encoder, 0 = unknown; a larger Size is ErrChunkSize
	NoChunk       bool         // one chunk per document, whatever its length
	Count         TokenCounter // nil only with NoChunk
	Semantic      *Semantic    // cuts where the subject changes; nil fills chunks up
	// Reject returns why a chunk, given by its EmbedText, is dropped, nil to keep it; it is asked right after Count was
	// called for that text. May be nil.
	Reject func(text string) error
	OnSkip func(Skipped) // called for each chunk that was dropped (ErrNoWords, or Reject's error); may be nil
}

// The errors of this package.
var (
	ErrChunkSize  = errors.New("corpus: chunk size does not fit the encoder")
	ErrFormat     = errors.New("corpus: unreadable source")
	ErrNoDocument = errors.New("corpus: nothing to read")
	ErrUnknown    = errors.New("corpus: unknown file kind")
	ErrHidden     = errors.New("corpus: hidden file or folder")
	ErrIgnored    = errors.New("corpus: ignored")
	ErrStore      = errors.New("corpus: a store of Sluice")
	ErrTooLarge   = errors.New("corpus: larger than the limit")
	ErrGenerated  = errors.New("corpus: generated or minified code")
	ErrTime       = errors.New("corpus: takes longer than the limit")
	ErrNoWords    = errors.New("corpus: no words in it")
	ErrDuplicate  = errors.New("corpus: document id seen before")
	ErrCleaner    = errors.New("corpus: unknown way of cleaning")
)

// TextDigest returns the SHA-256 of text in hex.
func TextDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Preset parses a chunking of the form "size/overlap" in tokens, such as "256/2" and "512/10".
func Preset(name string) (size, overlap int, err error) {
	a, b, ok := strings.Cut(name, "/")
	size, err1 := strconv.Atoi(a)
	overlap, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || size < 1 || overlap < 0 || overlap > size/2 {
		return 0, 0,
			fmt.Errorf("%w: chunking %q is not SIZE/OVERLAP with an overlap of at most half the size, such as 256/2 "+
				"or 512/10", ErrChunkSize, name)
	}
	return size, overlap, nil
}
