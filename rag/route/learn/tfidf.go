package learn

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Vectoriser turns texts into TF-IDF weights as scikit-learn's TfidfVectorizer does with its defaults: lower case,
// words of two or more letters, digits or underscores, idf ln((1+n)/(1+df)) + 1, rows of Euclidean length 1. Its
// methods may be called from any goroutine.
type Vectoriser struct {
	Ngrams int       // 1: words; 2: pairs of neighbouring words as well
	Terms  []string  // ascending by their bytes
	IDF    []float64 // of each term
	index  map[string]int32
}

// MaxNgrams is the largest Vectoriser.Ngrams.
const MaxNgrams = 3

// NewVectoriser makes one of its terms, as it was written to a file: ErrFeatures when they are not ascending or an idf
// is not a number ≥ 1.
func NewVectoriser(ngrams int, terms []string, idf []float64) (*Vectoriser, error) {
	if ngrams < 1 || ngrams > MaxNgrams || len(terms) != len(idf) {
		return nil, fmt.Errorf("%w: n-grams of %d words, %d terms, %d weights", ErrFeatures, ngrams, len(terms),
			len(idf))
	}
	v := &Vectoriser{Ngrams: ngrams, Terms: terms, IDF: idf, index: make(map[string]int32, len(terms))}
	for i, t := range terms {
		if t == "" || i > 0 && terms[i-1] >= t || !(idf[i] >= 1 && idf[i] < 1e3) {
			return nil, fmt.Errorf("%w: term %d, %.40q, is not in order, or its idf %v is not one", ErrFeatures, i, t,
				idf[i])
		}
		v.index[t] = int32(i)
	}
	return v, nil
}

// Words returns the lower-cased words of a text in order, with repeats: runs of two or more letters, digits (all of
// Unicode's N) and underscores.
func Words(text string) []string {
	text = lower(text)
	var words []string
	start, runes := -1, 0
	for i, r := range text {
		if isWord(r) {
			if start < 0 {
				start, runes = i, 0
			}
			runes++
			continue
		}
		if start >= 0 && runes > 1 {
			words = append(words, text[start:i])
		}
		start = -1
	}
	if start >= 0 && runes > 1 {
		words = append(words, text[start:])
	}
	return words
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_' || 'A' <= r && r <= 'Z'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
}

// lower is Python's str.lower: Unicode's full mapping, with the final sigma, in no language.
func lower(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return cases.Lower(language.Und).String(text)
		}
	}
	return strings.ToLower(text)
}

// terms returns the words of a text and what n-grams of them are asked for.
func terms(text string, ngrams int) []string {
	words := Words(text)
	all := words
	for n := 2; n <= ngrams; n++ {
		for i := 0; i+n <= len(words); i++ {
			all = append(all, strings.Join(words[i:i+n], " "))
		}
	}
	return all
}

// FitVectoriser learns the terms of texts and their idf. Of more than most terms those that occur most often are kept;
// 0 keeps all. Texts without any word are ErrFeatures.
func FitVectoriser(texts []string, ngrams, most int) (*Vectoriser, error) {
	if ngrams < 1 || ngrams > MaxNgrams {
		return nil, fmt.Errorf("%w: n-grams of %d words, 1 to %d are possible", ErrFeatures, ngrams, MaxNgrams)
	}
	type count struct{ documents, all, last int }
	counts := map[string]*count{}
	for i, text := range texts {
		for _, t := range terms(text, ngrams) {
			c := counts[t]
			if c == nil {
				c = &count{last: -1}
				counts[strings.Clone(t)] = c
			}
			c.all++
			if c.last != i {
				c.documents, c.last = c.documents+1, i
			}
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%w: %d texts have no word of two or more letters or digits", ErrFeatures, len(texts))
	}
	names := slices.Sorted(maps.Keys(counts))
	if most > 0 && len(names) > most {
		slices.SortStableFunc(names, func(a, b string) int { return counts[b].all - counts[a].all })
		names = names[:most]
		slices.Sort(names)
	}
	idf := make([]float64, len(names))
	for i, t := range names {
		idf[i] = math.Log(float64(1+len(texts))/float64(1+counts[t].documents)) + 1
	}
	return NewVectoriser(ngrams, names, idf)
}

// Features returns the weights of texts, with their dense columns (len(texts) × dim, or nil with dim 0) behind them. A
// nil Vectoriser gives the dense columns alone.
func (v *Vectoriser) Features(texts []string, dense []float32, dim int) (*Features, error) {
	f := &Features{Rows: len(texts), Dim: dim, Dense: dense}
	if v != nil {
		f.Terms, f.Starts = len(v.Terms), append(make([]int, 0, len(texts)+1), 0)
		for _, text := range texts {
			v.row(f, text)
		}
	}
	return f, f.check()
}

// row appends a text.
func (v *Vectoriser) row(f *Features, text string) {
	words := Words(text)
	columns, term := make([]int32, 0, v.Ngrams*len(words)), make([]byte, 0, 64)
	for n := 1; n <= v.Ngrams; n++ { // those of terms, without memory for each
		for i := 0; i+n <= len(words); i++ {
			term = append(term[:0], words[i]...)
			for _, word := range words[i+1 : i+n] {
				term = append(append(term, ' '), word...)
			}
			if c, ok := v.index[string(term)]; ok {
				columns = append(columns, c)
			}
		}
	}
	slices.Sort(columns)
	from := len(f.Value)
	var square float64
	for i := 0; i < len(columns); {
		c, n := columns[i], 0
		for ; i < len(columns) && columns[i] == c; i++ {
			n++
		}
		x := float64(n) * v.IDF[c]
		square += x * x
		f.Column, f.Value = append(f.Column, c), append(f.Value, x)
	}
	if length := math.Sqrt(square); length > 0 {
		for i := range f.Value[from:] {
			f.Value[from+i] /= length
		}
	}
	f.Starts = append(f.Starts, len(f.Value))
}
