package retrieve

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/postings"
)

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// two are vectors of two dimensions.
func two(rows ...float32) engine.Vectors {
	return engine.Vectors{Data: rows, Rows: len(rows) / 2, Dim: 2}
}

// texts are the texts of contexts: words are what stands between spaces.
type texts []string

// index is the inverted index of the texts.
func (x texts) index(t interface{ Fatal(...any) }) *postings.Index {
	source := func(_ context.Context, from, to int) (list []postings.Document, _ error) {
		for _, text := range x[from:to] {
			list = append(list, postings.Document{Text: text})
		}
		return list, nil
	}
	index, err := postings.New().With(context.Background(), len(x), source, func(int) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// score computes a text's score for a query from the texts themselves.
func (x texts) score(kind postings.Kind, query string, row int) (score float64) {
	words, asked, all := strings.Fields(x[row]), strings.Fields(query), strings.Fields(strings.Join(x, " "))
	length := float64(len(words)*len(x)) / float64(len(all))
	if kind == postings.TFIDF {
		dot, own, other := 0., 0., 0.
		for _, w := range distinct(append(all, asked...)) {
			a, b := count(words, w)*x.tfidf(w), count(asked, w)*x.tfidf(w)
			dot, own, other = dot+a*b, own+a*a, other+b*b
		}
		return dot / max(math.Sqrt(own*other), 1e-300)
	}
	if kind == postings.Cover {
		asked = distinct(asked)
	}
	mass := 0.
	for _, w := range asked {
		tf := count(words, w)
		mass += x.idf(w)
		switch {
		case tf == 0:
		case kind == postings.Cover:
			score += x.idf(w)
		default:
			score += x.idf(w) * tf * 2.5 / (tf + 1.5*(.25+.75*length))
		}
	}
	if kind == postings.Cover && mass > 0 {
		score /= mass
	}
	return score
}

// ideal is what no BM25 score of a query reaches.
func (x texts) ideal(query string) (sum float64) {
	for w := range strings.FieldsSeq(query) {
		sum += 2.5 * x.idf(w)
	}
	return sum
}

func (x texts) idf(word string) float64 {
	df := x.rows(word)
	return math.Log(1 + (float64(len(x))-df+.5)/(df+.5))
}

func (x texts) tfidf(word string) float64 { return 1 + math.Log(float64(1+len(x))/(1+x.rows(word))) }

// rows counts the texts that have a word.
func (x texts) rows(word string) (n float64) {
	for _, text := range x {
		n += min(count(strings.Fields(text), word), 1)
	}
	return n
}

func count(words []string, word string) (n float64) {
	for _, w := range words {
		if w == word {
			n++
		}
	}
	return n
}

func distinct(words []string) []string {
	words = slices.Clone(words)
	slices.Sort(words)
	return slices.Compact(words)
}
