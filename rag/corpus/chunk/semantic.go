package chunk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Semantic makes Chunks cut a document where its subject changes: between two consecutive sentences whose similarity is
// below a percentile of the similarities of all consecutive sentences of the document. Only pairs within a section
// count, because headings separate chunks anyway (tiny sections are joined as Split does). A block of code counts as
// one sentence.
//
// A piece of fewer than MinTokens tokens is joined with the more similar neighbour in its section. A piece that does
// not fit a chunk is cut at its lowest similarity among the places that fill a chunk by at least half; only its chunks
// overlap, and a chunk behind a change of subject repeats nothing. A sentence that does not fit a chunk is cut as Split
// does.
type Semantic struct {
	Percentile float64 // 0 … 100
	MinTokens  int     // at most half of Size; 0 is an eighth of Size
	Buffer     int     // neighbours on each side that are compared with a sentence, at most MaxBuffer
	// Similar returns the similarity of each text with the next one: len(texts)-1 values, none of them NaN. The
	// similarity of a pair must not depend on the other texts.
	Similar func(ctx context.Context, texts []string) ([]float64, error)
	// Progress is called with the byte of the source up to which sentences have been compared; may be nil.
	Progress func(end int)
}

// MaxBuffer is the largest Semantic.Buffer.
const MaxBuffer = 16

const (
	comparedAtOnce = 256     // sentences in one call of Similar
	comparedBytes  = 2 << 10 // of a sentence: more than encoders read
	unknownTokens  = 1 << 20 // of a sentence too long to be counted, which fits no chunk
)

// ErrSemantic is an invalid option of Semantic, or an invalid result of Similar.
var ErrSemantic = errors.New("corpus: semantic chunks")

func (m *Semantic) check(o Options) error {
	switch {
	case o.NoChunk:
		return fmt.Errorf("%w: a document that is one chunk is not cut", ErrSemantic)
	case m.Similar == nil:
		return fmt.Errorf("%w: nothing compares sentences", ErrSemantic)
	case math.IsNaN(m.Percentile) || m.Percentile < 0 || m.Percentile > 100:
		return fmt.Errorf("%w: percentile %g is not within 0 and 100", ErrSemantic, m.Percentile)
	case m.MinTokens < 0 || m.MinTokens > o.Size/2:
		return fmt.Errorf("%w: at least %d tokens, which is not within 0 and half the size of %d", ErrSemantic,
			m.MinTokens, o.Size)
	case m.Buffer < 0 || m.Buffer > MaxBuffer:
		return fmt.Errorf("%w: %d neighbours, which is not within 0 and %d", ErrSemantic, m.Buffer, MaxBuffer)
	}
	return nil
}

// compared holds the sentences of a document in order, one entry for each.
type compared struct {
	starts    []int
	tokens    []int32   // without special tokens
	links     []float64 // similarity with the previous sentence; NaN for the first of a section
	threshold float64   // links below it are cut
}

// compare compares all sentences of the document. It keeps 24 bytes for each, and comparedAtOnce texts.
func (s *splitter) compare() (*compared, error) {
	c := &compared{}
	var section []doc.Span
	for _, sec := range s.d.Sectioned() {
		section = section[:0]
		for it := range items(s.d, sec) {
			section = append(section, it.Span)
		}
		if err := s.compareSection(c, section); err != nil {
			return nil, err
		}
	}
	sorted := slices.DeleteFunc(slices.Clone(c.links), math.IsNaN)
	slices.Sort(sorted)
	c.threshold = ref.Quantile7(sorted, s.o.Semantic.Percentile/100)
	return c, nil
}

// compareSection appends the sentences of a section.
func (s *splitter) compareSection(c *compared, section []doc.Span) error {
	for i, t := range section {
		n := unknownTokens
		if t.End-t.Start <= s.o.Size*BytesPerToken/4 {
			var err error
			if n, err = s.count(s.d.Text[t.Start:t.End]); err != nil {
				return err
			}
			n -= s.special
		}
		c.starts, c.tokens = append(c.starts, t.Start), append(c.tokens, int32(n))
		if i == 0 {
			c.links = append(c.links, math.NaN())
		}
	}
	for from := 0; from < len(section)-1; from += comparedAtOnce - 1 {
		to := min(from+comparedAtOnce, len(section))
		texts := make([]string, to-from)
		for i := range texts {
			texts[i] = s.withNeighbours(section, from+i)
		}
		links, err := s.o.Semantic.Similar(s.ctx, texts)
		if err != nil {
			return fmt.Errorf("corpus: compare the sentences of %s: %w", s.d.ID, err)
		}
		if len(links) != len(texts)-1 || slices.ContainsFunc(links, math.IsNaN) {
			return fmt.Errorf("%w: %d similarities of %d sentences, or one that is no number", ErrSemantic, len(links),
				len(texts))
		}
		c.links = append(c.links, links...)
		if s.o.Semantic.Progress != nil {
			s.o.Semantic.Progress(s.d.Offsets.End(section[to-1].End))
		}
	}
	return nil
}

// withNeighbours returns sentence i of a section with its neighbours within Buffer.
func (s *splitter) withNeighbours(section []doc.Span, i int) string {
	head := func(t doc.Span) string {
		text := s.d.Text[t.Start:t.End]
		if len(text) <= comparedBytes {
			return text
		}
		n := comparedBytes
		for !utf8.RuneStart(text[n]) {
			n--
		}
		return text[:n]
	}
	b := s.o.Semantic.Buffer
	if b == 0 {
		return head(section[i])
	}
	var near []string
	for _, t := range section[max(i-b, 0):min(i+b+1, len(section))] {
		near = append(near, head(t))
	}
	return strings.Join(near, " ")
}

// cuts returns where the chunks of a section begin, except the first. room is the size of a chunk without its heading,
// in tokens.
func (s *splitter) cuts(sec doc.Section, room int) []int {
	c := s.compared
	if c == nil {
		return nil
	}
	from, _ := slices.BinarySearch(c.starts, sec.Start)
	to, _ := slices.BinarySearch(c.starts, sec.End)
	least := s.o.Semantic.MinTokens
	least = cmp.Or(least, s.o.Size/tinyShare)
	least = min(least, room/2)
	pieces := c.join(c.pieces(from, to), least, room)
	var out []int
	for i, p := range pieces {
		if i > 0 {
			out = append(out, c.starts[p.from])
		}
		for _, k := range c.divide(p, least, room) {
			out = append(out, c.starts[k])
		}
	}
	return out
}

// piece is a run of sentences from … to-1.
type piece struct{ from, to, tokens int }

// pieces returns the runs of the sentences from … to-1 between links below the threshold.
func (c *compared) pieces(from, to int) []piece {
	var out []piece
	for i := from; i < to; i++ {
		if i == from || c.links[i] < c.threshold {
			out = append(out, piece{from: i})
		}
		p := &out[len(out)-1]
		p.to, p.tokens = i+1, p.tokens+int(c.tokens[i])
	}
	return out
}

// join joins pieces below least tokens with the more similar neighbour, or with the only one that fits into a chunk
// with it.
func (c *compared) join(pieces []piece, least, room int) []piece {
	var out []piece
	for i, p := range pieces {
		last := len(out) - 1
		if p.tokens >= least || len(pieces) == 1 {
			out = append(out, p)
			continue
		}
		left, right := last >= 0, i+1 < len(pieces)
		if left && right {
			fitsLeft, fitsRight := out[last].tokens+p.tokens <= room, pieces[i+1].tokens+p.tokens <= room
			nearer := c.links[p.from] >= c.links[p.to]
			left = fitsLeft && (nearer || !fitsRight) || !fitsRight && nearer
		}
		switch {
		case left:
			out[last].to, out[last].tokens = p.to, out[last].tokens+p.tokens
		case right:
			pieces[i+1].from, pieces[i+1].tokens = p.from, pieces[i+1].tokens+p.tokens
		default: // one piece is left
			out = append(out, p)
		}
	}
	return out
}

// divide returns the sentences at which a piece above room tokens is cut.
func (c *compared) divide(p piece, least, room int) (cuts []int) {
	for p.tokens > room {
		best, last, sum := -1, -1, 0
		for k := p.from + 1; k < p.to; k++ {
			if sum += int(c.tokens[k-1]); sum > room {
				break
			}
			last = k
			if sum >= max(least, room/2) && p.tokens-sum >= least && (best < 0 || c.links[k] <= c.links[best]) {
				best = k
			}
		}
		if best < 0 {
			best = last // the last that fits
		}
		cut := best > 0
		if !cut { // a sentence that fits no chunk: it is cut by tokens, and its rest continues the chunk
			best = p.from + 1
		}
		for ; p.from < best; p.from++ {
			p.tokens -= int(c.tokens[p.from])
		}
		if p.from == p.to {
			break
		}
		if cut {
			cuts = append(cuts, best)
		}
	}
	return cuts
}
