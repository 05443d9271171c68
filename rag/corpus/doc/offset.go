package doc

import (
	"fmt"
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Map maps byte offsets of a text to byte offsets of its source, as segments sorted by text offset. The empty map
// is the identity.
type Map []Segment

// Segment covers the text from its own start to the next segment's. It is a run of units of
// tu text bytes each that come from su source bytes: 1 and 1 for copied text, 1 and 2 for ASCII in
// UTF-16, 1 and 5 for "&amp;", n and 0 for an inserted separator.
type Segment struct{ Text, Source, PerText, PerSource int }

// At returns the index of the segment that holds text offset t.
func (m Map) At(t int) int {
	return sort.Search(len(m), func(i int) bool { return m[i].Text > t }) - 1
}

// Start returns the source offset where the text byte t begins.
func (m Map) Start(t int) int {
	if len(m) == 0 {
		return t
	}
	i := m.At(t)
	if i < 0 {
		return m[0].Source
	}
	s := m[i]
	return s.Source + (t-s.Text)/s.PerText*s.PerSource
}

// End returns the source offset behind the text byte t-1: the exclusive end of a range that ends at t.
func (m Map) End(t int) int {
	if len(m) == 0 {
		return t
	}
	i := m.At(t - 1)
	if i < 0 {
		return m[0].Source
	}
	s := m[i]
	return s.Source + (t-s.Text+s.PerText-1)/s.PerText*s.PerSource
}

// Span returns the range of the source that holds a range of the text. The cells of a drawn table stand side by side,
// so their texts are in another order than their lines.
func (m Map) Span(from, to int) (start, end int) {
	start, end = m.Start(from), m.End(to)
	for i := m.At(from); i >= 0 && i < len(m) && m[i].Text < to; i++ {
		next := to
		if i+1 < len(m) {
			next = min(to, m[i+1].Text)
		}
		start, end = min(start, m.Start(max(from, m[i].Text))), max(end, m.End(next))
	}
	return start, end
}

// Writer builds a text with its offset map.
type Writer struct {
	Text strings.Builder // its String returns the text without a copy
	m    Map
	// the source is not text (a ZIP file): offsets are of the text itself, and the map stays empty
	IsSource bool
	used     int // bytes of memory, for a text that is its own source
}

// maxConverted bounds the memory of a text converted from a source that is not text, its blocks and headings included.
// A file of a few kB can expand to any amount, by compression or by cells that repeat a text.
const maxConverted = 128 << 20

// Take counts bytes of memory. Beyond the limit it ends the parsing.
func (w *Writer) Take(n int) {
	if !w.IsSource {
		return
	}
	if w.used += n; w.used > maxConverted {
		Abort(fmt.Errorf("%w of %d bytes: what is made of it, its text and headings", ErrTooLarge, maxConverted))
	}
}

func (w *Writer) Segment(source, tu, su int) {
	if !w.IsSource {
		w.m.Add(w.Text.Len(), source, tu, su)
	}
}

// Add maps units of tu text bytes, from a text offset on, to su source bytes each.
func (m *Map) Add(text, source, tu, su int) {
	if n := len(*m); n > 0 {
		l := (*m)[n-1]
		units := (text - l.Text) / l.PerText
		if l.PerText == tu && l.PerSource == su && l.Source+units*su == source {
			return
		}
	}
	*m = append(*m, Segment{text, source, tu, su})
}

// Copy appends s, whose bytes are the source bytes from source on.
func (w *Writer) Copy(s string, source int) {
	if s != "" {
		w.Take(len(s))
		w.Segment(source, 1, 1)
		w.Text.WriteString(s)
	}
}

// Atom appends s, which stands for n source bytes as a whole.
func (w *Writer) Atom(s string, source, n int) {
	if s != "" {
		w.Take(len(s))
		w.Segment(source, len(s), n)
		w.Text.WriteString(s)
	}
}

// Done returns the text and its map; the identity is the empty map.
func (w *Writer) Done() (string, Map) {
	if len(w.m) == 1 && w.m[0] == (Segment{0, 0, 1, 1}) {
		w.m = nil
	}
	return w.Text.String(), w.m
}

// Compose chains two maps: outer maps text to middle, inner maps middle to source. No unit of outer
// may begin or end inside a unit of inner (both are made of whole characters). n is the text's length.
func Compose(outer, inner Map, n int) Map {
	if len(inner) == 0 {
		return outer
	}
	if len(outer) == 0 {
		return inner
	}
	var out Map
	for i, s := range outer {
		end := n
		if i+1 < len(outer) {
			end = outer[i+1].Text
		}
		if s.PerText != 1 || s.PerSource != 1 {
			for t, mid := s.Text, s.Source; t < end; t, mid = t+s.PerText, mid+s.PerSource {
				from := inner.Start(mid)
				to := from
				if s.PerSource > 0 {
					to = inner.End(mid + s.PerSource)
				}
				out = append(out, Segment{t, from, s.PerText, to - from})
			}
			continue
		}
		mid := s.Source
		for j := max(inner.At(mid), 0); j < len(inner) && inner[j].Text < mid+end-s.Text; j++ {
			in := inner[j]
			from := max(in.Text, mid)
			source := in.Source + (from-in.Text)/in.PerText*in.PerSource
			out = append(out, Segment{s.Text + from - mid, source, in.PerText, in.PerSource})
		}
	}
	return out
}

// nfc brings text to Unicode normalisation form C. It returns the map from the new text to the old
// one (empty when nothing changed).
func nfc(text string, p *Pulse) (string, Map) {
	if norm.NFC.IsNormalString(text) {
		return text, nil
	}
	var w Writer
	w.Text.Grow(len(text))
	var it norm.Iter
	it.InitString(norm.NFC, text)
	for !it.Done() {
		p.Beat()
		from := it.Pos()
		s := string(it.Next())
		if old := text[from:it.Pos()]; s == old {
			w.Copy(s, from)
		} else {
			w.Atom(s, from, len(old))
		}
	}
	return w.Done()
}

// forward maps an offset of the source of a gapless map (as made by nfc) to the text; n is the text's length.
func (m Map) forward(source, n int) int {
	if len(m) == 0 {
		return source
	}
	i := sort.Search(len(m), func(i int) bool { return m[i].Source > source }) - 1
	if i < 0 {
		return 0
	}
	s := m[i]
	return min(s.Text+(source-s.Source+s.PerSource-1)/s.PerSource*s.PerText, n)
}
