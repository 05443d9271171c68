// Package chunk splits documents into chunks of whole sentences that an encoder can read.
package chunk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// pathSeparator joins the headings of a path.
const pathSeparator = " › "

// tinyShare defines tiny sections: those below 1/tinyShare of Size.
const tinyShare = 8

// ErrSize is a size of chunks that does not fit the encoder.
var ErrSize = errors.New("corpus: chunk size does not fit the encoder")

// errStopped ends the chunks whose consumer has stopped.
var errStopped = errors.New("stop")

// BytesPerToken bounds a chunk to Size × BytesPerToken bytes. Real text stays far below it, but encoders read a word of
// many letters (base64, a run of dots) as one unknown token, whatever its length.
const BytesPerToken = 32

// Split cuts a document into chunks such that Count(EmbedText) ≤ Size for each.
//
// A chunk is a run of whole sentences (lines, in code) of one section. The next chunk of the section repeats the end of
// the one before: as many whole sentences as fit into Overlap tokens. A sentence that does not fit a chunk is halved at
// words until it does, a word at characters. A last chunk that would be tiny takes sentences from its predecessor until
// the two are about even.
//
// Neighbouring tiny sections (below Size/8 tokens) that are siblings, or a parent and its children, become
// one chunk under their common parent as long as they fit together; their own headings then stand in
// its text. Every character of Text that is not white space is in a chunk, unless the chunk has no
// words: those are dropped and reported to OnSkip.
//
// Tokens are counted once per sentence, heading and chunk; sums plan, the count of the whole decides.
func Split(d *doc.Document, o Options) ([]Chunk, error) {
	var out []Chunk
	for c, err := range Each(context.Background(), d, o) {
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Each yields what Split returns, each chunk as soon as its text has been measured, so that the memory beside the
// text stays flat and the first chunks of a paragraph of any length come at once. It ends with an error, that of ctx
// included.
func Each(ctx context.Context, d *doc.Document, o Options) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		s, err := newSplitter(ctx, d, o, yield)
		if err == nil && o.NoChunk {
			err = s.whole()
		} else if err == nil {
			err = s.split()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Chunk{}, err)
		}
	}
}

// split cuts the document, section by section. Tiny sections are held back until their neighbours are known.
func (s *splitter) split() error {
	var parts []*part
	defer func() {
		for _, p := range parts {
			p.stop()
		}
	}()
	next, stop := iter.Pull2(s.parts())
	defer stop()
	for more := true; more || len(parts) > 0; {
		for more && (len(parts) == 0 || parts[len(parts)-1].isTiny && len(parts) <= s.o.Size) {
			p, err, ok := next()
			if err != nil {
				return err
			}
			if more = ok; ok {
				parts = append(parts, p)
			}
		}
		if len(parts) == 0 {
			return nil
		}
		n, err := s.merge(parts)
		if err != nil {
			return err
		}
		if n == 0 {
			n = 1
			if err := s.pack(parts[0]); err != nil {
				return err
			}
		}
		for _, p := range parts[:n] {
			p.stop()
		}
		parts = parts[n:]
	}
	return nil
}

// splitter is the state of one Chunks.
type splitter struct {
	ctx     context.Context
	d       *doc.Document
	o       Options
	special int            // tokens of an empty text
	seen    map[string]int // occurrences of a chunk's text so far
	yield   func(Chunk, error) bool

	compared *compared // nil without ChunkOptions.Semantic
}

func newSplitter(
	ctx context.Context, d *doc.Document, o Options, yield func(Chunk, error) bool,
) (*splitter, error) {
	s := &splitter{ctx: ctx, d: d, o: o, seen: make(map[string]int), yield: yield}
	if o.Semantic != nil {
		if err := o.Semantic.check(o); err != nil {
			return nil, err
		}
	}
	switch {
	case o.NoChunk:
		return s, nil
	case o.Count == nil:
		return nil, fmt.Errorf("%w: no token counter", ErrSize)
	case o.MaxTokens > 0 && o.Size > o.MaxTokens:
		return nil, fmt.Errorf("%w: size %d, but the encoder reads %d tokens; with the name NAME:%d a local one reads "+
			"longer texts in windows", ErrSize, o.Size, o.MaxTokens, o.Size)
	case o.Overlap < 0 || o.Overlap > o.Size/2:
		return nil, fmt.Errorf("%w: an overlap of %d; at most half the size of %d", ErrSize, o.Overlap, o.Size)
	}
	var err error
	if s.special, err = o.Count(""); err != nil {
		return nil, fmt.Errorf("corpus: count tokens: %w", err)
	}
	if o.Size <= s.special {
		return nil, fmt.Errorf("%w: size %d, but an empty text has %d tokens already", ErrSize, o.Size, s.special)
	}
	if o.Semantic != nil {
		s.compared, err = s.compare()
	}
	return s, err
}

func (s *splitter) count(text string) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.o.Count(text)
	if err != nil {
		return 0, fmt.Errorf("corpus: count tokens of %s: %w", s.d.ID, err)
	}
	return n, nil
}

// merge makes one chunk of the tiny neighbours at the beginning of parts. It returns their number, 0 if the first
// section stands alone.
func (s *splitter) merge(parts []*part) (int, error) {
	if !parts[0].isTiny {
		return 0, nil
	}
	var parent []string
	n, sum := 1, parts[0].base+parts[0].tokens
	for ; n < len(parts) && parts[n].isTiny; n++ {
		own, up := parts[n].Heading, parentOf(parts[n].Heading)
		first := parts[0].Heading
		if n == 1 && len(own) > 0 && (slices.Equal(first, up) || len(first) > 0 && slices.Equal(parentOf(first), up)) {
			parent = up
		} else if n == 1 || len(own) == 0 || !slices.Equal(up, parent) {
			break
		}
		if sum += parts[n].base + parts[n].tokens - s.special; sum > s.o.Size {
			break
		}
	}
	for ; n > 1; n-- {
		heading, _, err := s.fitHeading(parent)
		if err != nil {
			return 0, err
		}
		sections := make([]doc.Section, n)
		for i := range sections {
			sections[i] = parts[i].Section
		}
		c := joined(s.d, sections, heading, len(parent))
		if c.Tokens, err = s.count(c.EmbedText()); err != nil {
			return 0, err
		}
		if c.Tokens <= s.o.Size {
			return n, s.emit(c)
		}
	}
	return 0, nil
}

func parentOf(headings []string) []string { return headings[:max(len(headings)-1, 0)] }

// joined renders sections as one text, each below its own heading, unless that is one of the first depth elements of
// its path, which the chunk's heading has.
func joined(d *doc.Document, sections []doc.Section, heading string, depth int) Chunk {
	var text strings.Builder
	first, last := sections[0], sections[len(sections)-1]
	start, end := d.Offsets.Span(doc.Span{Start: first.Start, End: first.End}.Trim(d.Text).Start,
		doc.Span{End: last.End}.Trim(d.Text).End)
	if len(first.Heading) > depth && d.Blocks != nil {
		start = min(start, first.Source)
	}
	for _, s := range sections {
		body := doc.Span{Start: s.Start, End: s.End}.Trim(d.Text)
		line := ""
		if len(s.Heading) > depth {
			line = s.Heading[len(s.Heading)-1]
		}
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		text.WriteString(line)
		if own := d.Text[body.Start:body.End]; own != "" && own != line { // a heading without text is its own text
			if line != "" {
				text.WriteByte('\n')
			}
			text.WriteString(own)
		}
	}
	return Chunk{Heading: heading, Anchor: first.Anchor, Start: start, End: end, Text: text.String()}
}

// emit fills in what all chunks of the document share and yields c, unless it has no words.
func (s *splitter) emit(c Chunk) error {
	if s.drops(c) {
		return nil
	}
	n := s.seen[c.Text]
	s.seen[c.Text]++
	return s.give(c, chunkID(s.d.ID, c.Text, n))
}

func (s *splitter) give(c Chunk, id string) error {
	c.ID, c.Document, c.Source, c.Topic = id, s.d.ID, s.d.Source, s.d.Topic
	if !s.yield(c, nil) {
		return errStopped
	}
	return nil
}

// drops reports whether c has nothing to find it by, and calls OnSkip if so.
func (s *splitter) drops(c Chunk) bool {
	var why error
	if !doc.HasWord(c.Text) {
		why = doc.ErrNoWords
	} else if s.o.Reject != nil {
		why = s.o.Reject(c.EmbedText())
	}
	if why != nil && s.o.OnSkip != nil {
		s.o.OnSkip(doc.Skipped{Source: fmt.Sprintf("%s, bytes %d to %d", s.d.Source, c.Start, c.End), Err: why})
	}
	return why != nil
}

// whole makes one chunk of the whole document.
func (s *splitter) whole() error {
	sections := s.d.Sectioned()
	if len(sections) == 0 {
		sections = []doc.Section{{}}
	}
	var c Chunk
	if len(sections) == 1 {
		h := sections[0].Heading
		c = joined(s.d, sections, strings.Join(h, pathSeparator), len(h))
	} else {
		c = joined(s.d, sections, "", 0)
	}
	if s.o.Count != nil {
		var err error
		if c.Tokens, err = s.count(c.EmbedText()); err != nil {
			return err
		}
	}
	if s.drops(c) {
		return nil
	}
	return s.give(c, s.d.ID)
}

// chunkID returns a readable prefix from the document's id and 64 bits of a digest of the document's id, the text, and
// its number of earlier occurrences in the document.
func chunkID(document, text string, occurrence int) string {
	sum := sha256.Sum256([]byte(document + "\x00" + text + "\x00" + strconv.Itoa(occurrence)))
	base := strings.TrimSuffix(path.Base(document), path.Ext(document))
	name := strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf && doc.IsAlnum(byte(r)) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case unicode.IsSpace(r) || r == '.':
			return '_'
		}
		return -1
	}, base)
	return doc.CutRunes(name, 24) + "-" + hex.EncodeToString(sum[:8])
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
