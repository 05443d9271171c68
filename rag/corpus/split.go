package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pathSeparator joins the headings of a path.
const pathSeparator = " › "

// tinyShare: a section below 1/tinyShare of Size is tiny.
const tinyShare = 8

// bytesPerToken bounds a chunk in bytes: Size × bytesPerToken. No text comes near it, but encoders read
// a word of many letters (base64, a run of dots) as one unknown token, whatever its length.
const bytesPerToken = 32

// Split cuts a document into chunks such that Count(EmbedText) ≤ Size for each.
//
// A chunk is a run of whole sentences (lines, in code) of one section. The next chunk of the section
// repeats the end of the one before: as many whole sentences as fit into Overlap tokens, else words.
// A sentence that does not fit a chunk is halved at words until it does, a word at characters. A
// last chunk that would be tiny takes sentences from its predecessor until the two are about even.
//
// Neighbouring tiny sections (below Size/8 tokens) that are siblings, or a parent and its children, become
// one chunk under their common parent as long as they fit together; their own headings then stand in
// its text. Every character of Text that is not white space is in a chunk, unless the chunk has no
// words: those are dropped and reported to OnSkip.
//
// Tokens are counted once per sentence, heading and chunk; sums plan, the count of the whole decides.
func Split(d *Document, o ChunkOptions) ([]Chunk, error) {
	if o.NoChunk {
		return noChunk(d, o)
	}
	s, err := newSplitter(d, o)
	if err != nil {
		return nil, err
	}
	parts, err := s.parts()
	if err != nil {
		return nil, err
	}
	for len(parts) > 0 {
		n, err := s.merge(parts)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			n = 1
			if err := s.pack(parts[0]); err != nil {
				return nil, err
			}
		}
		parts = parts[n:]
	}
	return s.out, nil
}

// splitter is the state of one Split.
type splitter struct {
	d       *Document
	o       ChunkOptions
	special int            // tokens of an empty text
	seen    map[string]int // occurrences of a chunk's text so far
	out     []Chunk
}

// unit is what is packed: a sentence, a line of code, or a piece of one that is too long.
type unit struct {
	span
	tokens int // without the special ones
}

// part is a section with its units.
type part struct {
	Section
	units   []unit
	tokens  int    // sum of the units'
	heading string // as it will stand in the chunks
	base    int    // tokens of an empty text below the heading
}

func newSplitter(d *Document, o ChunkOptions) (*splitter, error) {
	switch {
	case o.Count == nil:
		return nil, fmt.Errorf("%w: no token counter", ErrChunkSize)
	case o.MaxTokens > 0 && o.Size > o.MaxTokens:
		return nil, fmt.Errorf("%w: size %d, but the encoder reads %d tokens", ErrChunkSize, o.Size, o.MaxTokens)
	case o.Overlap < 0 || o.Overlap > o.Size/2:
		return nil, fmt.Errorf("%w: an overlap of %d; at most half the size of %d", ErrChunkSize, o.Overlap, o.Size)
	}
	special, err := o.Count("")
	if err != nil {
		return nil, fmt.Errorf("corpus: count tokens: %w", err)
	}
	if o.Size <= special {
		return nil, fmt.Errorf("%w: size %d, but an empty text has %d tokens already", ErrChunkSize, o.Size, special)
	}
	return &splitter{d: d, o: o, special: special, seen: make(map[string]int)}, nil
}

func (s *splitter) count(text string) (int, error) {
	n, err := s.o.Count(text)
	if err != nil {
		return 0, fmt.Errorf("corpus: count tokens of %s: %w", s.d.ID, err)
	}
	return n, nil
}

// sections returns the document's sections in order and without overlap; text outside of them gets
// sections without a heading.
func (d *Document) sections() []Section {
	var out []Section
	at := 0
	gap := func(to int) {
		if strings.TrimSpace(d.Text[at:to]) != "" {
			out = append(out, Section{Start: at, End: to, source: d.offsets.start(at)})
		}
	}
	for _, s := range d.Sections {
		s.Start = min(max(s.Start, at), len(d.Text))
		s.End = min(max(s.End, s.Start), len(d.Text))
		gap(s.Start)
		out = append(out, s)
		at = s.End
	}
	gap(len(d.Text))
	return out
}

// blocksOf returns the blocks within [start, end), which covers them.
func (d *Document) blocksOf(start, end int) []block {
	if d.blocks == nil {
		return plainBlocks(d.Text, span{start, end})
	}
	i, _ := slices.BinarySearchFunc(d.blocks, start, func(b block, at int) int { return b.end - at - 1 })
	var out []block
	for ; i < len(d.blocks) && d.blocks[i].start < end; i++ {
		b := d.blocks[i]
		out = append(out, block{max(b.start, start), min(b.end, end), b.code})
	}
	return out
}

// parts measures the sections that have text.
func (s *splitter) parts() ([]part, error) {
	var out []part
	for _, sec := range s.d.sections() {
		if strings.TrimSpace(s.d.Text[sec.Start:sec.End]) == "" {
			continue
		}
		p := part{Section: sec}
		var err error
		if p.heading, p.base, err = s.fitHeading(sec.Heading); err != nil {
			return nil, err
		}
		for _, b := range s.d.blocksOf(sec.Start, sec.End) {
			for _, sentence := range sentences(s.d.Text, span{b.start, b.end}, b.code) {
				if p.units, err = s.measure(p.units, sentence, s.o.Size-p.base); err != nil {
					return nil, err
				}
			}
		}
		for _, u := range p.units {
			p.tokens += u.tokens
		}
		if len(p.units) > 0 {
			out = append(out, p)
		}
	}
	return out, nil
}

// fitHeading joins a path of headings, shortened to half of what a chunk holds: outer headings go
// first, then the end of the last one, and "…" stands for them. It returns the tokens of an empty
// text below it.
func (s *splitter) fitHeading(headings []string) (string, int, error) {
	limit := s.special + (s.o.Size-s.special)/2
	for cut := ""; len(headings) > 0; {
		joined := cut + strings.Join(headings, pathSeparator)
		n, err := s.count(joined)
		if err != nil {
			return "", 0, err
		}
		if n <= limit && len(joined) <= limit*bytesPerToken {
			return joined, n, nil
		}
		if len(headings) > 1 {
			headings, cut = headings[1:], "…"+pathSeparator
			continue
		}
		half := utf8.RuneCountInString(headings[0]) / 2
		if half == 0 {
			break
		}
		headings, cut = []string{strings.TrimSpace(cutRunes(headings[0], half)) + "…"}, ""
		if half == 1 {
			break
		}
	}
	return "", s.special, nil
}

// measure appends the unit of sp, or its pieces if it does not fit into room tokens.
func (s *splitter) measure(out []unit, sp span, room int) ([]unit, error) {
	if sp.end-sp.start <= s.o.Size*bytesPerToken/4 {
		n, err := s.count(s.d.Text[sp.start:sp.end])
		if err != nil {
			return nil, err
		}
		if n -= s.special; n <= room {
			return append(out, unit{sp, n}), nil
		}
	}
	return s.halve(out, sp, room)
}

// halve appends pieces of sp of at most a quarter of room, so that they pack well.
func (s *splitter) halve(out []unit, sp span, room int) ([]unit, error) {
	text := s.d.Text[sp.start:sp.end]
	if _, size := utf8.DecodeRuneInString(text); size == len(text) {
		return nil,
			fmt.Errorf("%w: size %d leaves %d tokens for text, which %q exceeds", ErrChunkSize, s.o.Size, room, text)
	}
	cut := cutPoint(s.d.Text, sp, (sp.start+sp.end)/2)
	for _, half := range []span{{sp.start, cut}, {cut, sp.end}} {
		if half = half.trim(s.d.Text); half.start == half.end {
			continue
		}
		text := s.d.Text[half.start:half.end]
		if len(text) <= s.o.Size*bytesPerToken/4 {
			n, err := s.count(text)
			if err != nil {
				return nil, err
			}
			_, size := utf8.DecodeRuneInString(text)
			if n -= s.special; n <= max(room/4, 1) || n <= room && size == len(text) {
				out = append(out, unit{half, n})
				continue
			}
		}
		var err error
		if out, err = s.halve(out, half, room); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// merge makes one chunk of the tiny neighbours that parts begins with. It returns how many there
// were, 0 if the first section stands alone.
func (s *splitter) merge(parts []part) (int, error) {
	tiny := s.o.Size / tinyShare
	if parts[0].tokens >= tiny {
		return 0, nil
	}
	var parent []string
	n, sum := 1, parts[0].base+parts[0].tokens
	for ; n < len(parts) && parts[n].tokens < tiny; n++ {
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
		sections := make([]Section, n)
		for i := range sections {
			sections[i] = parts[i].Section
		}
		c := s.d.joined(sections, heading, len(parent))
		if c.Tokens, err = s.count(c.EmbedText()); err != nil {
			return 0, err
		}
		if c.Tokens <= s.o.Size {
			s.emit(c)
			return n, nil
		}
	}
	return 0, nil
}

func parentOf(headings []string) []string { return headings[:max(len(headings)-1, 0)] }

// joined renders sections as one text, each below its own heading unless the chunk's heading, which
// stands for the first depth elements of their paths, says it.
func (d *Document) joined(sections []Section, heading string, depth int) Chunk {
	var text strings.Builder
	start := -1
	for _, s := range sections {
		body := span{s.Start, s.End}.trim(d.Text)
		if start < 0 {
			start = d.offsets.start(body.start)
			if len(s.Heading) > depth && d.blocks != nil {
				start = s.source
			}
		}
		line := ""
		if len(s.Heading) > depth {
			line = s.Heading[len(s.Heading)-1]
		}
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		text.WriteString(line)
		if own := d.Text[body.start:body.end]; own != "" && own != line { // a heading without text is its own text
			if line != "" {
				text.WriteByte('\n')
			}
			text.WriteString(own)
		}
	}
	last := span{0, sections[len(sections)-1].End}.trim(d.Text)
	return Chunk{Heading: heading, Anchor: sections[0].Anchor, Start: start, End: d.offsets.end(last.end),
		Text: text.String()}
}

// pack cuts a section into chunks.
func (s *splitter) pack(p part) error {
	u := p.units
	for i, prev, prevStart := 0, 0, 0; i < len(u); {
		start, carried, err := s.overlap(u[prev:i], prevStart, min(s.o.Overlap, s.o.Size-p.base-u[i].tokens))
		if err != nil {
			return err
		}
		if start < 0 {
			start = u[i].start
		}
		j := s.fill(u, i, start, s.o.Size-p.base-carried)
		var c Chunk
		for {
			c = Chunk{Heading: p.heading, Anchor: p.Anchor, Text: s.d.Text[start:u[j-1].end]}
			if c.Tokens, err = s.count(c.EmbedText()); err != nil {
				return err
			}
			if c.Tokens <= s.o.Size {
				break
			}
			switch { // the whole has more tokens than its parts
			case start < u[i].start:
				start = u[i].start
			case j > i+1:
				j--
			default:
				pieces, err := s.halve(nil, u[i].span, s.o.Size-p.base)
				if err != nil {
					return err
				}
				u = slices.Replace(u, i, i+1, pieces...)
			}
		}
		c.Start, c.End = s.d.offsets.start(start), s.d.offsets.end(u[j-1].end)
		s.emit(c)
		prev, prevStart, i = i, start, j
	}
	return nil
}

// fill returns the end of the units from i on that fit into room tokens: at least one. If what
// remains were a tiny chunk, the units are shared out evenly.
func (s *splitter) fill(u []unit, i, start, room int) int {
	j, sum := i+1, u[i].tokens
	for j < len(u) && sum+u[j].tokens <= room && u[j].end-start <= s.o.Size*bytesPerToken {
		sum += u[j].tokens
		j++
	}
	rest, k := 0, j
	for ; k < len(u) && rest < s.o.Size/tinyShare; k++ {
		rest += u[k].tokens
	}
	if j == len(u) || rest >= s.o.Size/tinyShare {
		return j
	}
	for j > i+1 && rest+u[j-1].tokens <= sum-u[j-1].tokens {
		j--
		rest += u[j].tokens
		sum -= u[j].tokens
	}
	return j
}

// overlap returns where the repetition of a chunk begins that started at from and ended with the units
// u, and its tokens: the last whole units that fit into limit, else the last words; never the whole
// chunk. There is none when start is negative.
func (s *splitter) overlap(u []unit, from, limit int) (start, tokens int, err error) {
	start = -1
	for k := len(u) - 1; k >= 0 && u[k].start > from && tokens+u[k].tokens <= limit; k-- {
		start, tokens = u[k].start, tokens+u[k].tokens
	}
	if start >= 0 || len(u) == 0 || limit <= 0 {
		return start, tokens, nil
	}
	last := s.d.Text[u[len(u)-1].start:u[len(u)-1].end]
	words := wordStarts(last, limit)
	for len(words) > 0 {
		n, err := s.count(last[words[0]:])
		if err != nil {
			return 0, 0, err
		}
		if n -= s.special; n <= limit {
			return u[len(u)-1].start + words[0], n, nil
		}
		words = words[min(max((n-limit)/2, 1), len(words)):]
	}
	return -1, 0, nil
}

// wordStarts returns where the last n words of s begin, the first word of s excepted.
func wordStarts(s string, n int) []int {
	var out []int
	for end := len(s); len(out) < n; {
		i := strings.LastIndexFunc(s[:end], unicode.IsSpace)
		if i < 0 {
			break
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if i+size < end {
			out = append(out, i+size)
		}
		end = i
	}
	slices.Reverse(out)
	return out
}

// emit fills in what all chunks of the document share and keeps c, unless it has no words.
func (s *splitter) emit(c Chunk) {
	if !hasWord(c.Text) {
		report(s.o, s.d, c)
		return
	}
	n := s.seen[c.Text]
	s.seen[c.Text]++
	s.out = append(s.out, s.d.chunk(c, chunkID(s.d.ID, c.Text, n)))
}

func (d *Document) chunk(c Chunk, id string) Chunk {
	c.ID, c.Document, c.Source, c.Topic = id, d.ID, d.Source, d.Topic
	return c
}

func report(o ChunkOptions, d *Document, c Chunk) {
	if o.OnSkip != nil {
		o.OnSkip(Skipped{fmt.Sprintf("%s, bytes %d to %d", d.Source, c.Start, c.End), ErrNoWords})
	}
}

// noChunk makes one chunk of the whole document.
func noChunk(d *Document, o ChunkOptions) ([]Chunk, error) {
	sections := d.sections()
	if len(sections) == 0 {
		sections = []Section{{}}
	}
	var c Chunk
	if len(sections) == 1 {
		h := sections[0].Heading
		c = d.joined(sections, strings.Join(h, pathSeparator), len(h))
	} else {
		c = d.joined(sections, "", 0)
	}
	if !hasWord(c.Text) {
		report(o, d, c)
		return nil, nil
	}
	if o.Count != nil {
		var err error
		if c.Tokens, err = o.Count(c.EmbedText()); err != nil {
			return nil, fmt.Errorf("corpus: count tokens of %s: %w", d.ID, err)
		}
	}
	return []Chunk{d.chunk(c, d.ID)}, nil
}

// chunkID is a readable prefix from the document's id and 64 bits of a digest of what makes the
// chunk: the document's id, the text, and how often it occurred before in the document.
func chunkID(document, text string, occurrence int) string {
	sum := sha256.Sum256([]byte(document + "\x00" + text + "\x00" + strconv.Itoa(occurrence)))
	base := strings.TrimSuffix(path.Base(document), path.Ext(document))
	name := strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf && isAlnum(byte(r)) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case unicode.IsSpace(r) || r == '.':
			return '_'
		}
		return -1
	}, base)
	return cutRunes(name, 24) + "-" + hex.EncodeToString(sum[:8])
}
