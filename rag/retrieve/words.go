package retrieve

import (
	"context"

	"github.com/sluice-rag/sluice/kernels"
)

// Kind is how words are scored.
type Kind string

// The kinds: Okapi BM25, the cosine of tf-idf weights, and the share of the query's idf mass.
const (
	KindBM25  Kind = "bm25"
	KindTFIDF Kind = "tfidf"
	KindCover Kind = "cover"
)

// Scoring is a kind with the parameters of BM25, which are taken as they are.
type Scoring struct {
	Kind  Kind
	K1, B float64
}

// Term is a word of a query, as the index analyses it.
type Term struct {
	Text string  `json:"term"`
	DF   int     `json:"df"`  // contexts that have it
	IDF  float64 `json:"idf"` // as the scoring weighs it
}

// Words scores the contexts by the words of one query. Rows index Contexts. Scores are ≥ 0.
type Words interface {
	// TopK returns the k best rows with a score above 0 among the allowed rows (nil allows all), best first, ties by
	// ascending row.
	TopK(ctx context.Context, k int, allowed func(row int) bool) ([]kernels.Hit, error)
	// Any reports whether TopK would find a row.
	Any(allowed func(row int) bool) bool
	Score(row int) float64 // 0 if the row contains no word of the query
	// Biases returns biases that add weight × score to another score. more adds the scores of further Words of the same
	// index.
	Biases(weight float64, more ...Weighted) kernels.Biases
	Terms() []Term
	Has(t Term, row int) bool // reports whether the row contains a term of Terms
	// Ideal is a bound of the score, which a context comes close to that has all words of the query many times.
	Ideal() float64
}

// Weighted are words with what their score counts.
type Weighted struct {
	Words
	Weight float64
}

// Lexicon makes Words of a query's text.
type Lexicon func(text string, s Scoring) (Words, error)
