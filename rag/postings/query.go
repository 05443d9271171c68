package postings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Kind is what a score is.
type Kind string

// The kinds of scores.
const (
	// BM25 is Σ idf·tf·(k1+1) / (tf + k1·(1 − b + b·length/mean length)) over the query's words, with repeats, and
	// idf = ln(1 + (n − df + ½)/(df + ½)) (Robertson & Zaragoza, The Probabilistic Relevance Framework, 2009; the idf
	// is Lucene's, which is never negative).
	BM25 Kind = "bm25"
	// TFIDF is the cosine of the vectors of tf·idf, idf = 1 + ln((1 + n)/(1 + df)), as scikit-learn has it.
	TFIDF Kind = "tfidf"
	// Cover is the share of the query's words, each once and weighted by BM25's idf, that the text has: 0 … 1.
	Cover Kind = "cover"
)

// Scoring says how words count. The zero value of K1 and B is DefaultK1 and DefaultB; NoLength is B = 0.
type Scoring struct {
	Kind     Kind
	K1, B    float64
	NoLength bool
	Language string // of the query (ISO 639-1); "" takes the index's own languages
	Content  bool   // leave out words that only ask, as "what" and "do", where there are others
}

// The defaults of BM25.
const (
	DefaultK1 = 1.5
	DefaultB  = .75
)

// scoring sets the defaults. An unknown kind, parameters out of range, and a kind of score that needs more than the
// statistics of Among are ErrKind.
func (x *Index) scoring(s Scoring) (Scoring, error) {
	s.K1 = cmp.Or(s.K1, DefaultK1)
	if s.B == 0 && !s.NoLength {
		s.B = DefaultB
	}
	if s.Kind != BM25 && s.Kind != TFIDF && s.Kind != Cover {
		return s, fmt.Errorf("%w: %q (known: %s, %s, %s)", ErrKind, s.Kind, BM25, TFIDF, Cover)
	}
	if !(s.K1 > 0 && s.K1 <= 1000) || !(s.B >= 0 && s.B <= 1) {
		return s,
			fmt.Errorf("%w: k1 must be above 0 and at most 1000, b within 0 and 1, given %g and %g", ErrKind, s.K1, s.B)
	}
	if x.among != nil && s.Kind != Cover {
		return s, fmt.Errorf("%w: %q in a part of a base; %s is known there", ErrKind, s.Kind, Cover)
	}
	return s, nil
}

// Term is a word of a query as the index has it.
type Term struct {
	Text string  `json:"term"`
	DF   int     `json:"df"`  // rows that have it
	IDF  float64 `json:"idf"` // as the scoring weighs it
}

// Query is a text that was analysed for an index. It is immutable.
type Query struct {
	x       *Index
	scoring Scoring
	text    *analysed
	words   []Term     // all, each once, in order
	terms   []weighted // those that rows have, by bound, descending: scores are summed in this order
	ideal   float64
	offset  float64 // BM25: of the length norm
	slope   float64 // BM25: of the length norm, for each term of the text
	norms   []float64
}

// weighted is a term that some row has, with what it counts.
type weighted struct {
	text   string
	lists  []list
	weight float64
	bound  float64 // no row gets more from it
}

// maxQueryTerms bounds the different terms of a query: the first ones count. A question has a few dozen.
const maxQueryTerms = 1024

// Query analyses a text: by the language that the scoring names, else by the languages that the index's rows are in.
// An unknown kind and parameters out of range are ErrKind.
func (x *Index) Query(text string, s Scoring) (*Query, error) {
	s, err := x.scoring(s)
	if err != nil {
		return nil, err
	}
	q := &Query{x: x, scoring: s}
	if q.count(text); s.Content && len(q.words) == 0 {
		q.scoring.Content = false
		q.count(text)
	}
	q.text.lists = make([][]list, len(q.words))
	for i := range q.words {
		w := &q.words[i]
		q.text.lists[i] = x.lists(w.Text)
		w.DF = x.having(w.Text, q.text.lists[i])
	}
	q.score()
	return q, nil
}

// As is the query by another scoring, without its text being analysed again: language and content stay as they are. An
// unknown kind and parameters out of range are ErrKind.
func (q *Query) As(s Scoring) (*Query, error) {
	s, err := q.x.scoring(s)
	if err != nil {
		return nil, err
	}
	s.Language, s.Content = q.scoring.Language, q.scoring.Content
	other := &Query{x: q.x, scoring: s, text: q.text, words: slices.Clone(q.words)}
	other.score()
	return other, nil
}

// score finds what the words count.
func (q *Query) score() {
	a, s, n := q.text, q.scoring, float64(q.x.live)
	for i := range q.words {
		w := &q.words[i]
		df := float64(w.DF)
		if w.IDF = math.Log(1 + (n-df+.5)/(df+.5)); s.Kind == TFIDF {
			w.IDF = 1 + math.Log((1+n)/(1+df))
		}
		if w.DF > 0 {
			q.terms = append(q.terms, weighted{text: w.Text, lists: a.lists[i]})
		}
	}
	if q.ideal = 1; s.Kind == BM25 {
		q.ideal = (s.K1 + 1) * a.sum(q.words, func(i int) float64 { return a.counts[i] * q.words[i].IDF })
	}
	q.weigh(a.counts, a.sum(q.words, func(i int) float64 { return q.words[i].IDF }))
}

// analysed is a query's text as terms.
type analysed struct {
	counts []float64 // how often each term comes
	word   []int     // the word that each term is of, by its place: in several languages it has several stems
	lists  [][]list  // of each term
	words  int
	number map[string]met
}

// met is a term's number, and the first language that made the term of a word.
type met struct{ term, language int }

// sum adds up the words' values.
func (a *analysed) sum(terms []Term, value func(term int) float64) (sum float64) {
	for _, v := range a.values(terms, value) {
		sum += v
	}
	return sum
}

// values has for each word the largest value of its terms that rows have, or of all its terms where rows have none.
func (a *analysed) values(terms []Term, value func(term int) float64) []float64 {
	largest, found := make([]float64, a.words), make([]bool, a.words)
	for term, w := range a.word {
		switch has := terms[term].DF > 0; {
		case has && !found[w]:
			largest[w], found[w] = value(term), true
		case has == found[w]:
			largest[w] = max(largest[w], value(term))
		}
	}
	return largest
}

// count finds the query's terms, each once. Names that no row has count nothing: their parts are words.
func (q *Query) count(text string) {
	a := &analysed{}
	q.text = a
	a.number = map[string]met{}
	for l, language := range q.languages() {
		at, analyzer := 0, q.x.analyzers.get(language)
		analyzer.each(text, func(term string) {
			m, ok := a.number[term]
			switch {
			case q.scoring.Content && analyzer.asks[term]:
				return
			case ok && m.language == l:
				a.counts[m.term]++
			case !ok && len(a.number) < maxQueryTerms:
				a.number[term] = met{len(q.words), l}
				q.words = append(q.words, Term{Text: term})
				a.counts, a.word = append(a.counts, 1), append(a.word, at)
			}
			at++
		})
		a.words = max(a.words, at)
	}
	exact(text, true, func(term string) {
		m, ok := a.number[term]
		switch {
		case ok:
			a.counts[m.term]++
		case len(a.number) < maxQueryTerms && q.x.having(term, q.x.lists(term)) > 0:
			a.number[term] = met{len(q.words), 0}
			q.words = append(q.words, Term{Text: term})
			a.counts, a.word = append(a.counts, 1), append(a.word, a.words)
			a.words++
		}
	})
}

// languages are what the query's text is analysed by.
func (q *Query) languages() []string {
	switch {
	case q.scoring.Language != "":
		return []string{q.scoring.Language}
	case len(q.x.languages) == 0:
		return []string{""}
	}
	return q.x.languages
}

// weigh gives the terms their weights and bounds.
func (q *Query) weigh(counts []float64, mass float64) {
	s, n := q.scoring, 0
	norm := 0.0
	for i, w := range q.words {
		norm += counts[i] * w.IDF * counts[i] * w.IDF
	}
	norm = math.Sqrt(norm)
	if s.Kind == TFIDF {
		q.norms = q.x.tfidfNorms()
	}
	q.offset, q.slope = s.K1*(1-s.B), s.K1*s.B/q.x.mean
	for i := range q.words {
		w := &q.words[i]
		if w.DF == 0 {
			continue
		}
		t := &q.terms[n]
		switch s.Kind {
		case BM25:
			t.weight = counts[i] * w.IDF * (s.K1 + 1)
		case TFIDF:
			t.weight = counts[i] * w.IDF * w.IDF / norm
		case Cover:
			t.weight = w.IDF / mass
		}
		t.bound = q.x.bound(w.Text, q, t)
		n++
	}
	slices.SortStableFunc(q.terms, func(a, b weighted) int { return cmp.Compare(b.bound, a.bound) })
}

// Terms are the query's terms, also those that no row has, in order.
func (q *Query) Terms() []Term { return q.words }

// Ideal is what no text's score reaches: of BM25 the sum over the query's words, with those that no row has, of
// idf·(k1 + 1); of the others 1. It is 0 for a query without words.
func (q *Query) Ideal() float64 { return q.ideal }

// part is what a term counts in a row: tf times in a text of length terms.
func (q *Query) part(t *weighted, tf uint16, length uint32, row int) float64 {
	switch q.scoring.Kind {
	case BM25:
		f := float64(tf)
		return t.weight * f / (f + q.offset + q.slope*float64(length))
	case TFIDF:
		return t.weight * float64(tf) / q.norms[row]
	}
	return t.weight
}

// Score is a row's score: 0 where it has none of the query's words.
func (q *Query) Score(row int) (score float64) {
	for i := range q.terms {
		t := &q.terms[i]
		for _, l := range t.lists {
			if at := row - l.seg.first; at >= 0 && at < l.seg.rows() {
				if j, ok := slices.BinarySearch(l.at, uint32(at)); ok {
					score += q.part(t, l.tf[j], l.seg.length[at], row)
				}
			}
		}
	}
	return score
}

// Any reports whether a row that is allowed (nil: any) and not deleted has one of the query's words.
func (q *Query) Any(allowed func(row int) bool) bool {
	for i := range q.terms {
		for _, l := range q.terms[i].lists {
			for _, at := range l.at {
				row := l.seg.first + int(at)
				if (allowed == nil || allowed(row)) && !(q.x.gone && q.x.deleted(row)) {
					return true
				}
			}
		}
	}
	return false
}

// Has reports whether a row has a term of Terms.
func (q *Query) Has(term string, row int) bool {
	for _, l := range q.x.lists(term) {
		if at := row - l.seg.first; at >= 0 && at < l.seg.rows() {
			if _, ok := slices.BinarySearch(l.at, uint32(at)); ok {
				return true
			}
		}
	}
	return false
}

// boundKey names a list with what its bound depends on.
type boundKey struct {
	term  string
	kind  Kind
	k1, b float64
}

// bound is the largest part of a term's list.
func (x *Index) bound(term string, q *Query, t *weighted) float64 {
	if q.scoring.Kind == Cover {
		return t.weight
	}
	key := q.key(term)
	x.mu.Lock()
	share, ok := x.bounds[key]
	x.mu.Unlock()
	if !ok {
		unit := &weighted{weight: 1}
		for _, l := range t.lists {
			for j, at := range l.at {
				if row := l.seg.first + int(at); !x.gone || !x.deleted(row) {
					share = max(share, q.part(unit, l.tf[j], l.seg.length[at], row))
				}
			}
		}
		x.mu.Lock()
		if x.bounds == nil || len(x.bounds) > maxBounds {
			x.bounds = map[boundKey]float64{}
		}
		x.bounds[key] = share
		x.mu.Unlock()
	}
	return t.weight * share * (1 + 1e-12)
}

func (q *Query) key(term string) boundKey {
	return boundKey{term, q.scoring.Kind, q.scoring.K1, q.scoring.B}
}

// maxBounds are kept; they are found again in one pass over the list.
const maxBounds = 1 << 16

// tfidfNorms are the lengths of the rows' vectors of tf·idf.
func (x *Index) tfidfNorms() []float64 {
	x.mu.Lock()
	norms := x.norms
	x.mu.Unlock()
	if norms != nil {
		return norms
	}
	norms = make([]float64, x.Rows())
	df := map[string]int{}
	if x.gone || len(x.segments) > 1 {
		for _, s := range x.segments {
			for i := range s.terms() {
				if term := s.term(i); df[term] == 0 {
					df[term] = x.having(term, x.lists(term))
				}
			}
		}
	}
	for _, s := range x.segments {
		for i := range s.terms() {
			l := s.list(i)
			n, ok := df[s.term(i)]
			if !ok {
				n = len(l.at)
			}
			idf := 1 + math.Log((1+float64(x.live))/(1+float64(n)))
			for j, at := range l.at {
				v := float64(l.tf[j]) * idf
				norms[s.first+int(at)] += v * v
			}
		}
	}
	for i, v := range norms {
		norms[i] = math.Sqrt(v)
	}
	x.mu.Lock()
	x.norms = norms
	x.mu.Unlock()
	return norms
}

// In reports for each of the query's words, in order, whether a text has it, by the analysis that the query had.
func (q *Query) In(text string) []bool {
	in := make([]bool, q.text.words)
	for _, language := range q.languages() {
		q.x.analyzers.get(language).each(text, func(t string) {
			if m, ok := q.text.number[t]; ok {
				in[q.text.word[m.term]] = true
			}
		})
	}
	exact(text, false, func(t string) {
		if m, ok := q.text.number[t]; ok {
			in[q.text.word[m.term]] = true
		}
	})
	return in
}

// Share is the idf of the words that In marks, as a share of that of all words; 0 for a query without words. For a text
// of the index, by a query of kind Cover in one language, it is its Score.
func (q *Query) Share(in []bool) float64 {
	sum, mass := 0., 0.
	for i, v := range q.text.values(q.words, func(i int) float64 { return q.words[i].IDF }) {
		if mass += v; in[i] {
			sum += v
		}
	}
	if mass == 0 {
		return 0
	}
	return sum / mass
}
