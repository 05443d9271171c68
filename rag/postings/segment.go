package postings

import (
	"math"
	"slices"
	"sort"
	"strings"
)

// segment holds the postings of consecutive rows. It does not change once it is made.
type segment struct {
	first     int      // row of its first text
	text      string   // all terms, one behind the other, in ascending order
	ends      []uint32 // of each term in text
	begins    []uint64 // of each term's list in at and tf, and the end of the last
	at        []uint32 // rows from first on, ascending within a list
	tf        []uint16 // how often the term is in the text; 65,535 stands for more
	length    []uint32 // terms of each row's text, with repeats
	language  []uint8  // of each row, as a number in languages
	languages []string // ISO 639-1, "" of texts whose language is not known
}

func (s *segment) rows() int  { return len(s.length) }
func (s *segment) terms() int { return len(s.ends) }

func (s *segment) term(i int) string {
	from := uint32(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.text[from:s.ends[i]]
}

// list is a term's postings in one segment.
type list struct {
	seg *segment
	at  []uint32
	tf  []uint16
}

func (s *segment) list(i int) list {
	from, to := s.begins[i], s.begins[i+1]
	return list{seg: s, at: s.at[from:to], tf: s.tf[from:to]}
}

// find returns the index of a term among the sorted terms.
func (s *segment) find(term string) (i int, ok bool) {
	return sort.Find(s.terms(), func(i int) int { return strings.Compare(term, s.term(i)) })
}

// posting is an entry of a list that is being made.
type posting struct {
	at uint32
	tf uint16
}

// builder collects the terms of consecutive rows.
type builder struct {
	seg    segment
	number map[string]int32 // of each term's list
	lists  [][]posting
	met    map[*Analyzer]map[string]int32 // number of the list of each word that was met, or stopWord
	langs  map[string]uint8
}

const stopWord = -1

func newBuilder(first int) *builder {
	return &builder{seg: segment{first: first}, number: map[string]int32{}, met: map[*Analyzer]map[string]int32{},
		langs: map[string]uint8{}}
}

// add appends the next row's text, and the words that its document is about.
func (b *builder) add(a *Analyzer, text, about string) {
	length := b.words(a, text)
	exact(text, false, func(term string) { b.count(b.list(term)) })
	if about != "" {
		b.words(a, about)
	}
	lang, ok := b.langs[a.language]
	if !ok && len(b.seg.languages) < math.MaxUint8 {
		lang = uint8(len(b.seg.languages))
		b.langs[a.language] = lang
		b.seg.languages = append(b.seg.languages, a.language)
	}
	b.seg.length, b.seg.language = append(b.seg.length, length), append(b.seg.language, lang)
}

// words counts the words of the next row's text.
func (b *builder) words(a *Analyzer, text string) (length uint32) {
	met := b.met[a]
	if met == nil {
		met = map[string]int32{}
		b.met[a] = met
	}
	words(text, func(w string, joined bool) {
		if joined {
			pairs(w, func(term string) {
				length++
				b.count(b.list(term))
			})
			return
		}
		n, ok := met[w]
		if !ok {
			if n = stopWord; a.term(w) != "" {
				n = b.list(a.term(w))
			}
			met[strings.Clone(w)] = n
		}
		if n != stopWord {
			length++
			b.count(n)
		}
	})
	return length
}

// list is the number of a term's list.
func (b *builder) list(term string) int32 {
	n, ok := b.number[term]
	if !ok {
		n = int32(len(b.lists))
		b.number[strings.Clone(term)] = n
		b.lists = append(b.lists, nil)
	}
	return n
}

// count counts a term of the next row's text.
func (b *builder) count(n int32) {
	l, row := b.lists[n], uint32(b.seg.rows())
	if len(l) == 0 || l[len(l)-1].at != row {
		b.lists[n] = append(l, posting{at: row, tf: 1})
	} else if last := &l[len(l)-1]; last.tf < math.MaxUint16 {
		last.tf++
	}
}

// finish is the segment of what was added.
func (b *builder) finish() *segment {
	s := &b.seg
	terms, total := make([]string, 0, len(b.lists)), 0
	for term, n := range b.number {
		terms = append(terms, term)
		total += len(b.lists[n])
	}
	slices.Sort(terms)
	w := newWriter(s, len(terms), total)
	for _, term := range terms {
		w.begin(term)
		for _, p := range b.lists[b.number[term]] {
			s.at, s.tf = append(s.at, p.at), append(s.tf, p.tf)
		}
	}
	w.end()
	return s
}

// segmentWriter appends terms with their lists to a segment.
type segmentWriter struct {
	s    *segment
	text strings.Builder
}

func newWriter(s *segment, terms, postings int) *segmentWriter {
	s.ends, s.begins = make([]uint32, 0, terms), make([]uint64, 0, terms+1)
	s.at, s.tf = make([]uint32, 0, postings), make([]uint16, 0, postings)
	return &segmentWriter{s: s}
}

func (w *segmentWriter) begin(term string) {
	w.text.WriteString(term)
	w.s.ends = append(w.s.ends, uint32(w.text.Len()))
	w.s.begins = append(w.s.begins, uint64(len(w.s.at)))
}

func (w *segmentWriter) end() {
	w.s.text = w.text.String()
	w.s.begins = append(w.s.begins, uint64(len(w.s.at)))
}

// merge is one segment of several ones that follow each other without gaps.
func merge(parts []*segment) *segment {
	if len(parts) == 1 {
		return parts[0]
	}
	s := &segment{first: parts[0].first}
	langs, total, terms := map[string]uint8{}, 0, 0
	for _, p := range parts {
		total, terms = total+len(p.at), max(terms, p.terms())
		s.length = append(s.length, p.length...)
		to := make([]uint8, len(p.languages))
		for i, name := range p.languages {
			n, ok := langs[name]
			if !ok && len(s.languages) < math.MaxUint8 {
				n = uint8(len(s.languages))
				langs[name] = n
				s.languages = append(s.languages, name)
			}
			to[i] = n
		}
		for _, l := range p.language {
			s.language = append(s.language, to[l])
		}
	}
	w, next := newWriter(s, terms, total), make([]int, len(parts))
	for {
		term, found := "", false
		for i, p := range parts {
			if next[i] < p.terms() {
				if t := p.term(next[i]); !found || t < term {
					term, found = t, true
				}
			}
		}
		if !found {
			break
		}
		w.begin(term)
		for i, p := range parts {
			if next[i] == p.terms() || p.term(next[i]) != term {
				continue
			}
			l, off := p.list(next[i]), uint32(p.first-s.first)
			for _, at := range l.at {
				s.at = append(s.at, at+off)
			}
			s.tf = append(s.tf, l.tf...)
			next[i]++
		}
	}
	w.end()
	return s
}
