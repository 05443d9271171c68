package postings

import (
	"cmp"
	"slices"
	"strings"
)

// Statistics are what the covers of a base's rows depend on besides the rows themselves. Those of disjoint sets of rows
// add up, so that many machines can score a base of which each has a part (Index.Among).
type Statistics struct {
	Live      int            `json:"live"`      // rows that are not deleted
	Length    int64          `json:"length"`    // terms of their texts
	Languages map[string]int `json:"languages"` // rows by language (ISO 639-1, "" is not known)
	Terms     map[string]int `json:"terms"`     // rows that have a term
}

// Statistics counts the index's live rows, by some of the terms.
func (x *Index) Statistics(terms []string) Statistics {
	s := Statistics{Languages: map[string]int{}, Terms: map[string]int{}}
	for _, g := range x.segments {
		for i, length := range g.length {
			if !x.deleted(g.first + i) {
				s.Live++
				s.Length += int64(length)
				s.Languages[g.languages[g.language[i]]]++
			}
		}
	}
	for _, t := range terms {
		if n := x.having(t, x.lists(t)); n > 0 {
			s.Terms[t] = n
		}
	}
	return s
}

// Plus returns the statistics of both sets of rows.
func (s Statistics) Plus(o Statistics) Statistics {
	out := Statistics{Live: s.Live + o.Live, Length: s.Length + o.Length, Languages: map[string]int{},
		Terms: map[string]int{}}
	for _, x := range []Statistics{s, o} {
		for language, n := range x.Languages {
			out.Languages[language] += n
		}
		for term, n := range x.Terms {
			out.Terms[term] += n
		}
	}
	return out
}

// Common returns the languages of at least 2 % of the rows each, the most frequent first.
func (s Statistics) Common() (list []string) {
	for language, n := range s.Languages {
		if float64(n) >= languageShare*float64(s.Live) {
			list = append(list, language)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(s.Languages[b]-s.Languages[a], strings.Compare(a, b))
	})
	return list
}

// TermsOf returns the terms that the words of texts may be, in the common languages of a base, ascending: those whose
// rows must be counted before such texts are asked of an index by Among.
func (s Statistics) TermsOf(texts ...string) []string {
	languages, a := s.Common(), &analyzers{of: map[string]*Analyzer{}}
	if len(languages) == 0 {
		languages = []string{""}
	}
	var terms []string
	for _, text := range texts {
		take := func(term string) { terms = append(terms, term) }
		for _, language := range languages {
			a.get(language).each(text, take)
		}
		exact(text, true, take)
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// Among returns the index as a part of a base with these statistics: a cover has the bits that it has in the index of
// the whole base. Queries of other kinds are ErrKind, because they depend on more.
func (x *Index) Among(s Statistics) *Index {
	n := &Index{segments: x.segments, deleted: x.deleted, gone: x.gone, analyzers: x.analyzers, kernels: x.kernels,
		among: &s}
	n.take(s)
	return n
}

// take sets what a query takes from all rows.
func (x *Index) take(s Statistics) {
	x.live, x.languages, x.mean = s.Live, s.Common(), 1
	if s.Length > 0 {
		x.mean = float64(s.Length) / float64(s.Live)
	}
}

// Pick returns the index of some live rows alone, which ascend: row i of it is rows[i].
func (x *Index) Pick(rows []int) *Index {
	var of []*segment
	for _, g := range x.segments {
		from, _ := slices.BinarySearch(rows, g.first)
		to, _ := slices.BinarySearch(rows, g.first+g.rows())
		if from < to {
			of = append(of, g.pick(rows[from:to], from))
		}
	}
	return x.of(of)
}

// Join returns the index of the rows of several, one behind the other.
func Join(list ...*Index) *Index {
	x, first := New(), 0
	var of []*segment
	for _, part := range list {
		for _, g := range part.segments {
			moved := *g
			moved.first = first + g.first
			of = append(of, &moved)
		}
		first += part.Rows()
	}
	return x.of(of)
}

// of returns an index of segments that follow each other, in which no row is deleted.
func (x *Index) of(list []*segment) *Index {
	n := &Index{deleted: func(int) bool { return false }, analyzers: x.analyzers, kernels: x.kernels}
	if len(list) > 0 {
		n.segments = []*segment{merge(list)}
	}
	n.count()
	return n
}

// pick returns the segment of some of the rows, which ascend; the first one is then row first.
func (s *segment) pick(rows []int, first int) *segment {
	n := &segment{first: first, languages: s.languages}
	to := make([]int32, s.rows()) // 0: not picked
	for i, row := range rows {
		at := row - s.first
		to[at] = int32(i) + 1
		n.length, n.language = append(n.length, s.length[at]), append(n.language, s.language[at])
	}
	w := newWriter(n, 0, 0)
	for i := range s.terms() {
		l, begun := s.list(i), false
		for k, at := range l.at {
			if to[at] == 0 {
				continue
			}
			if !begun {
				w.begin(s.term(i))
				begun = true
			}
			n.at, n.tf = append(n.at, uint32(to[at]-1)), append(n.tf, l.tf[k])
		}
	}
	w.end()
	return n
}
