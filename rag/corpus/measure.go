package corpus

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// unit is what chunks are packed from: a sentence, a line of code, a row of a table, or a piece of one that is too
// long.
type unit struct {
	span
	tokens int   // without special tokens; for a piece of a row, with the names of its columns
	cost   uint8 // of beginning a chunk with it: cutFree, or more where that separates related units
	code   bool
	table  int32 // as in block.table
	row    int   // 1 + the start of the row that it is a piece of; 0: not a piece of a row
	cell   int   // for a piece of a row, the cell's index
}

// part is a section with its units that have been measured.
type part struct {
	Section
	units   []unit // the next ones
	tokens  int    // sum over all units measured so far
	isTiny  bool   // tokens counts the whole section, which is tiny
	heading string // as in the chunks
	base    int    // tokens of an empty text below the heading
	cuts    []int  // ascending places from the units on where chunks begin because the subject changes
	lead    lead   // of the chunks that begin within a table
	next    func() (unit, error, bool)
	stop    func()
}

// measure reads units until those from the index from on have the given number of tokens, or none are left.
func (p *part) measure(from, tokens int) error {
	for _, u := range p.units[min(from, len(p.units)):] {
		tokens -= u.tokens
	}
	for tokens > 0 || len(p.units) <= from {
		u, err, ok := p.next()
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		p.units = append(p.units, u)
		p.tokens += u.tokens
		tokens -= u.tokens
	}
	return nil
}

// isCut reports whether the subject changes at a place.
func (p *part) isCut(at int) bool {
	_, found := slices.BinarySearch(p.cuts, at)
	return found
}

// nextCut returns the index of the first unit behind the one at i that must begin a chunk, because the subject changes
// or because a row that is split by cells begins or ends there; or the number of units.
func (p *part) nextCut(i int) int {
	for j := i + 1; j < len(p.units); j++ {
		if p.units[j].row != p.units[i].row || len(p.cuts) > 0 && p.isCut(p.units[j].start) {
			return j
		}
	}
	return len(p.units)
}

// sections returns the document's sections in order and without overlap; text outside of them is in sections without a
// heading.
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

// blocksOf yields the blocks of [start, end), which cover it.
func (d *Document) blocksOf(start, end int) iter.Seq[block] {
	if d.blocks == nil {
		return plainBlocks(d.Text, span{start, end})
	}
	return func(yield func(block) bool) {
		i, _ := slices.BinarySearchFunc(d.blocks, start, func(b block, at int) int { return b.end - at - 1 })
		for ; i < len(d.blocks) && d.blocks[i].start < end; i++ {
			b := d.blocks[i]
			b.start, b.end = max(b.start, start), min(b.end, end)
			if !yield(b) {
				return
			}
		}
	}
}

// parts yields the sections that have text, with enough units measured to recognise a tiny section; stop ends each.
func (s *splitter) parts() iter.Seq2[*part, error] {
	return func(yield func(*part, error) bool) {
		for _, sec := range s.d.sections() {
			p := &part{Section: sec, stop: func() {}}
			var err error
			if p.heading, p.base, err = s.fitHeading(sec.Heading); err == nil {
				p.cuts = s.cuts(sec, s.o.Size-p.base)
				p.next, p.stop = iter.Pull2(s.units(p))
				err = p.measure(0, s.o.Size/tinyShare)
			}
			p.isTiny = p.tokens < s.o.Size/tinyShare
			if err != nil || len(p.units) == 0 {
				p.stop()
			}
			if err == nil && len(p.units) == 0 {
				continue
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// fitHeading joins a path of headings, shortened to half of a chunk: outer headings are dropped first, then the end of
// the last one, each replaced by "…". It returns the tokens of an empty text below it.
func (s *splitter) fitHeading(headings []string) (string, int, error) {
	limit := s.special + (s.o.Size-s.special)/2
	for cut := ""; len(headings) > 0; {
		joined := cut + strings.Join(headings, pathSeparator)
		n, err := s.count(joined)
		if err != nil {
			return "", 0, err
		}
		if n <= limit && len(joined) <= limit*BytesPerToken {
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

// measure appends the unit of sp, or its pieces if it does not fit into room tokens: lines, if it has several.
func (s *splitter) measure(out []unit, sp span, room int) ([]unit, error) {
	if sp.end-sp.start <= s.o.Size*BytesPerToken/4 {
		n, err := s.count(s.d.Text[sp.start:sp.end])
		if err != nil {
			return nil, err
		}
		if n -= s.special; n <= room {
			return append(out, unit{span: sp, tokens: n}), nil
		}
	}
	if !strings.Contains(s.d.Text[sp.start:sp.end], "\n") {
		return s.halve(out, sp, room)
	}
	at := sp.start // mostly a list without markers; its lines are counted once, halves would be several times
	for line := range strings.Lines(s.d.Text[sp.start:sp.end]) {
		l := (span{at, at + len(line)}).trim(s.d.Text)
		if at += len(line); l.start == l.end {
			continue
		}
		var err error
		if out, err = s.measure(out, l, room); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// halve appends pieces of sp of at most a quarter of room, which pack well.
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
		if len(text) <= s.o.Size*BytesPerToken/4 {
			n, err := s.count(text)
			if err != nil {
				return nil, err
			}
			_, size := utf8.DecodeRuneInString(text)
			if n -= s.special; n <= max(room/4, 1) || n <= room && size == len(text) {
				out = append(out, unit{span: half, tokens: n})
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
