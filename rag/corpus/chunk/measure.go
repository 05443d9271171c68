package chunk

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
)

// unit is what chunks are packed from: a sentence, a line of code, a row of a table, or a piece of one that is too
// long.
type unit struct {
	doc.Span
	tokens int   // without special tokens; for a piece of a row, with the names of its columns
	cost   uint8 // of beginning a chunk with it: cutFree, or more where that separates related units
	code   bool
	table  int32 // as in doc.Block.Table
	row    int   // 1 + the start of the row that it is a piece of; 0: not a piece of a row
	cell   int   // for a piece of a row, the cell's index
}

// part is a section with its units that have been measured.
type part struct {
	doc.Section
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
		if p.units[j].row != p.units[i].row || len(p.cuts) > 0 && p.isCut(p.units[j].Start) {
			return j
		}
	}
	return len(p.units)
}

// parts yields the sections that have text, with enough units measured to recognise a tiny section; stop ends each.
func (s *splitter) parts() iter.Seq2[*part, error] {
	return func(yield func(*part, error) bool) {
		for _, sec := range s.d.Sectioned() {
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
		headings, cut = []string{strings.TrimSpace(doc.CutRunes(headings[0], half)) + "…"}, ""
		if half == 1 {
			break
		}
	}
	return "", s.special, nil
}

// measure appends the unit of sp, or its pieces if it does not fit into room tokens: lines, if it has several.
func (s *splitter) measure(out []unit, sp doc.Span, room int) ([]unit, error) {
	if sp.End-sp.Start <= s.o.Size*BytesPerToken/4 {
		n, err := s.count(s.d.Text[sp.Start:sp.End])
		if err != nil {
			return nil, err
		}
		if n -= s.special; n <= room {
			return append(out, unit{Span: sp, tokens: n}), nil
		}
	}
	if !strings.Contains(s.d.Text[sp.Start:sp.End], "\n") {
		return s.halve(out, sp, room)
	}
	at := sp.Start // mostly a list without markers; its lines are counted once, halves would be several times
	for line := range strings.Lines(s.d.Text[sp.Start:sp.End]) {
		l := (doc.Span{Start: at, End: at + len(line)}).Trim(s.d.Text)
		if at += len(line); l.Start == l.End {
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
func (s *splitter) halve(out []unit, sp doc.Span, room int) ([]unit, error) {
	text := s.d.Text[sp.Start:sp.End]
	if _, size := utf8.DecodeRuneInString(text); size == len(text) {
		return nil,
			fmt.Errorf("%w: size %d leaves %d tokens for text, which %q exceeds", ErrSize, s.o.Size, room, text)
	}
	cut := sentence.CutPoint(s.d.Text, sp, (sp.Start+sp.End)/2)
	for _, half := range []doc.Span{{Start: sp.Start, End: cut}, {Start: cut, End: sp.End}} {
		if half = half.Trim(s.d.Text); half.Start == half.End {
			continue
		}
		text := s.d.Text[half.Start:half.End]
		if len(text) <= s.o.Size*BytesPerToken/4 {
			n, err := s.count(text)
			if err != nil {
				return nil, err
			}
			_, size := utf8.DecodeRuneInString(text)
			if n -= s.special; n <= max(room/4, 1) || n <= room && size == len(text) {
				out = append(out, unit{Span: half, tokens: n})
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
