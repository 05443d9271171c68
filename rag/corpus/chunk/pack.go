package chunk

import (
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// pack cuts a section into chunks.
func (s *splitter) pack(p *part) error {
	// The tokens that a chunk can hold, and those that show whether the rest would be tiny. Halving a unit can at worst
	// double its tokens.
	ahead := 2*s.o.Size + s.o.Size/tinyShare
	for i, prev, prevStart := 0, 0, 0; ; {
		if err := p.measure(i, ahead); err != nil {
			return err
		}
		if i == len(p.units) {
			return nil
		}
		start, j, c, err := s.next(p, prev, i, prevStart)
		if err != nil {
			return err
		}
		c.Start, c.End = s.d.Offsets.Span(start, p.units[j-1].End)
		if err := s.emit(c); err != nil {
			return err
		}
		prevStart = start
		p.units = slices.Delete(p.units, 0, i) // i … j is now the previous chunk
		prev, i = 0, j-i
	}
}

// next makes the chunk of the units from i on. The chunk before it begins with unit prev at offset prevStart. It
// returns the start of the chunk and the index behind its units.
func (s *splitter) next(p *part, prev, i, prevStart int) (start, j int, c Chunk, err error) {
	u := p.units
	start, first, carried := -1, i, 0
	if !p.isCut(u[i].Start) && u[i].row == 0 {
		start, first, carried = s.overlap(u[prev:i], prevStart, min(s.o.Overlap, s.o.Size-p.base-u[i].tokens))
		first += prev
	}
	if start < 0 {
		start, first = u[i].Start, i
	}
	l, err := s.leadOf(p, u[first])
	if err != nil {
		return 0, 0, c, err
	}
	j = s.fill(u[:p.nextCut(i)], i, start, s.o.Size-p.base-carried-l.tokens)
	for {
		if u[i].row != 0 {
			l = s.pieceLead(p, u[i], u[j-1])
		}
		c = s.chunk(p, l, doc.Span{Start: start, End: u[j-1].End})
		if c.Tokens, err = s.count(c.EmbedText()); err != nil {
			return 0, 0, c, err
		}
		if c.Tokens <= s.o.Size {
			p.units = u
			return start, j, c, nil
		}
		switch { // the whole has more tokens than the sum of its units
		case start < u[i].Start:
			start = u[i].Start
			if l, err = s.leadOf(p, u[i]); err != nil {
				return 0, 0, c, err
			}
		case j > i+1:
			j--
		case l.text != "" || l.heading != p.heading:
			c = s.chunk(p, lead{heading: p.heading}, u[i].Span)
			if c.Tokens, err = s.count(c.EmbedText()); err != nil || c.Tokens <= s.o.Size {
				p.units = u
				return start, j, c, err
			}
			fallthrough
		default:
			pieces, err := s.halve(nil, u[i].Span, s.o.Size-p.base)
			if err != nil {
				return 0, 0, c, err
			}
			for k := range pieces {
				pieces[k].code, pieces[k].table, pieces[k].row, pieces[k].cell = u[i].code, u[i].table, u[i].row,
					u[i].cell
				pieces[k].cost = cutCloser
			}
			pieces[0].cost = u[i].cost
			u = slices.Replace(u, i, i+1, pieces...)
		}
	}
}

// chunk returns the text of a span of a section, below its lead.
func (s *splitter) chunk(p *part, l lead, text doc.Span) Chunk {
	c := Chunk{Heading: l.heading, Anchor: p.Anchor, Text: s.d.Text[text.Start:text.End]}
	if l.text != "" {
		c.Text = l.text + "\n" + c.Text
	}
	if p.Line > 0 {
		c.Anchor = doc.LineAnchor(p.Line + strings.Count(s.d.Text[p.Start:text.Start], "\n"))
	}
	return c
}

// fill returns the end of the units from i on that fit into room tokens: at least one. If the remaining units would
// make a tiny chunk, they are shared out evenly. Among the ends that fill at least half of the room, it takes the one
// with the lowest cost.
func (s *splitter) fill(u []unit, i, start, room int) int {
	j, sum := i+1, u[i].tokens
	for j < len(u) && sum+u[j].tokens <= room && u[j].End-start <= s.o.Size*BytesPerToken {
		sum += u[j].tokens
		j++
	}
	rest, k := 0, j
	for ; k < len(u) && rest < s.o.Size/tinyShare; k++ {
		rest += u[k].tokens
	}
	if j == len(u) {
		return j
	}
	if rest >= s.o.Size/tinyShare {
		return s.better(u, i, j, sum, room)
	}
	full, all := j, sum
	for j > i+1 && rest+u[j-1].tokens <= sum-u[j-1].tokens {
		j--
		rest += u[j].tokens
		sum -= u[j].tokens
	}
	if s.isWhole(u, i, j, room) {
		j, sum = full, all
	}
	return s.better(u, i, j, sum, room)
}

// isWhole reports whether j is within a table that begins at or behind i and fits a chunk.
func (s *splitter) isWhole(u []unit, i, j, room int) bool {
	t := u[j].table
	if t == 0 || u[j-1].table != t {
		return false
	}
	k := j
	for k > i && u[k-1].table == t {
		k--
	}
	tokens := 0
	for n := k; n < len(u) && u[n].table == t && tokens <= room; n++ {
		tokens += u[n].tokens
	}
	return u[k].Start <= s.d.Tables[t-1].Start && tokens <= room
}

// better returns the end j of a chunk of the units from i on, which have sum tokens, or an earlier end of a lower cost:
// a table that fits a chunk stays whole, rows that name columns stay with the next row, and code is cut preferably
// where a function ends or a line is blank.
func (s *splitter) better(u []unit, i, j, sum, room int) int {
	if t := u[j].table; t != 0 && u[j-1].table == t {
		k := j
		for k > i && u[k-1].table == t {
			k--
		}
		if k > i && (u[j].cost == cutNowhere || s.isWhole(u, i, j, room)) {
			return k
		}
		return j
	}
	best, least := j, min(room/2, sum*3/4)
	for k := j - 1; k > i && u[best].cost > cutFree; k-- {
		if sum -= u[k].tokens; sum < least || u[k].table != 0 {
			break
		}
		if u[k].cost < u[best].cost {
			best = k
		}
	}
	return best
}

// overlap returns where the overlap with a chunk begins that started at from and ended with the units u, the index of
// its first unit, and its tokens: the last whole units that fit into limit, never the whole chunk. A negative start
// means no overlap.
func (s *splitter) overlap(u []unit, from, limit int) (start, first, tokens int) {
	start = -1
	sum := 0
	for k := len(u) - 1; k >= 0 && u[k].Start > from && u[k].row == 0 && u[k].cost != cutNowhere; k-- {
		if sum += u[k].tokens; sum > limit {
			break
		}
		if u[k].cost < cutLine {
			start, first, tokens = u[k].Start, k, sum
		}
	}
	return start, first, tokens
}
