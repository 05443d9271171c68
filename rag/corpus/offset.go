package corpus

import (
	"fmt"
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// offsetMap maps byte offsets of a text to byte offsets of its source, as segments sorted by text offset. The empty map
// is the identity.
type offsetMap []offsetSegment

// offsetSegment covers the text from its own start to the next segment's. It is a run of units of
// tu text bytes each that come from su source bytes: 1 and 1 for copied text, 1 and 2 for ASCII in
// UTF-16, 1 and 5 for "&amp;", n and 0 for an inserted separator.
type offsetSegment struct{ text, source, tu, su int }

// at returns the index of the segment that holds text offset t.
func (m offsetMap) at(t int) int {
	return sort.Search(len(m), func(i int) bool { return m[i].text > t }) - 1
}

// start returns the source offset where the text byte t begins.
func (m offsetMap) start(t int) int {
	if len(m) == 0 {
		return t
	}
	i := m.at(t)
	if i < 0 {
		return m[0].source
	}
	s := m[i]
	return s.source + (t-s.text)/s.tu*s.su
}

// end returns the source offset behind the text byte t-1: the exclusive end of a range that ends at t.
func (m offsetMap) end(t int) int {
	if len(m) == 0 {
		return t
	}
	i := m.at(t - 1)
	if i < 0 {
		return m[0].source
	}
	s := m[i]
	return s.source + (t-s.text+s.tu-1)/s.tu*s.su
}

// span returns the range of the source that holds a range of the text. The cells of a drawn table stand side by side,
// so their texts are in another order than their lines.
func (m offsetMap) span(from, to int) (start, end int) {
	start, end = m.start(from), m.end(to)
	for i := m.at(from); i >= 0 && i < len(m) && m[i].text < to; i++ {
		next := to
		if i+1 < len(m) {
			next = min(to, m[i+1].text)
		}
		start, end = min(start, m.start(max(from, m[i].text))), max(end, m.end(next))
	}
	return start, end
}

// textWriter builds a text with its offset map.
type textWriter struct {
	text strings.Builder // its String returns the text without a copy
	m    offsetMap
	// the source is not text (a ZIP file): offsets are of the text itself, and the map stays empty
	isSource bool
	used     int // bytes of memory, for a text that is its own source
}

// maxConverted bounds the memory of a text converted from a source that is not text, its blocks and headings included.
// A file of a few kB can expand to any amount, by compression or by cells that repeat a text.
const maxConverted = 128 << 20

// take counts bytes of memory. Beyond the limit it ends the parsing.
func (w *textWriter) take(n int) {
	if !w.isSource {
		return
	}
	if w.used += n; w.used > maxConverted {
		panic(aborted{fmt.Errorf("%w of %d bytes: what is made of it, its text and headings", ErrTooLarge,
			maxConverted)})
	}
}

func (w *textWriter) segment(source, tu, su int) {
	if !w.isSource {
		w.m.add(w.text.Len(), source, tu, su)
	}
}

// add maps units of tu text bytes, from a text offset on, to su source bytes each.
func (m *offsetMap) add(text, source, tu, su int) {
	if n := len(*m); n > 0 {
		l := (*m)[n-1]
		units := (text - l.text) / l.tu
		if l.tu == tu && l.su == su && l.source+units*su == source {
			return
		}
	}
	*m = append(*m, offsetSegment{text, source, tu, su})
}

// copy appends s, whose bytes are the source bytes from source on.
func (w *textWriter) copy(s string, source int) {
	if s != "" {
		w.take(len(s))
		w.segment(source, 1, 1)
		w.text.WriteString(s)
	}
}

// atom appends s, which stands for n source bytes as a whole.
func (w *textWriter) atom(s string, source, n int) {
	if s != "" {
		w.take(len(s))
		w.segment(source, len(s), n)
		w.text.WriteString(s)
	}
}

// done returns the text and its map; the identity is the empty map.
func (w *textWriter) done() (string, offsetMap) {
	if len(w.m) == 1 && w.m[0] == (offsetSegment{0, 0, 1, 1}) {
		w.m = nil
	}
	return w.text.String(), w.m
}

// compose chains two maps: outer maps text to middle, inner maps middle to source. No unit of outer
// may begin or end inside a unit of inner (both are made of whole characters). n is the text's length.
func compose(outer, inner offsetMap, n int) offsetMap {
	if len(inner) == 0 {
		return outer
	}
	if len(outer) == 0 {
		return inner
	}
	var out offsetMap
	for i, s := range outer {
		end := n
		if i+1 < len(outer) {
			end = outer[i+1].text
		}
		if s.tu != 1 || s.su != 1 {
			for t, mid := s.text, s.source; t < end; t, mid = t+s.tu, mid+s.su {
				from := inner.start(mid)
				to := from
				if s.su > 0 {
					to = inner.end(mid + s.su)
				}
				out = append(out, offsetSegment{t, from, s.tu, to - from})
			}
			continue
		}
		mid := s.source
		for j := max(inner.at(mid), 0); j < len(inner) && inner[j].text < mid+end-s.text; j++ {
			in := inner[j]
			from := max(in.text, mid)
			out = append(out, offsetSegment{s.text + from - mid, in.source + (from-in.text)/in.tu*in.su, in.tu, in.su})
		}
	}
	return out
}

// nfc brings text to Unicode normalisation form C. It returns the map from the new text to the old
// one (empty when nothing changed).
func nfc(text string, p *pulse) (string, offsetMap) {
	if norm.NFC.IsNormalString(text) {
		return text, nil
	}
	var w textWriter
	w.text.Grow(len(text))
	var it norm.Iter
	it.InitString(norm.NFC, text)
	for !it.Done() {
		p.beat()
		from := it.Pos()
		s := string(it.Next())
		if old := text[from:it.Pos()]; s == old {
			w.copy(s, from)
		} else {
			w.atom(s, from, len(old))
		}
	}
	return w.done()
}

// forward maps an offset of the source of a gapless map (as made by nfc) to the text; n is the text's length.
func (m offsetMap) forward(source, n int) int {
	if len(m) == 0 {
		return source
	}
	i := sort.Search(len(m), func(i int) bool { return m[i].source > source }) - 1
	if i < 0 {
		return 0
	}
	s := m[i]
	return min(s.text+(source-s.source+s.su-1)/s.su*s.tu, n)
}
