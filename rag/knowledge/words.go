package knowledge

import (
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// lexicon returns an inverted index as searches go by it.
func lexicon(x *postings.Index) retrieve.Lexicon {
	return func(text string, s retrieve.Scoring) (retrieve.Words, error) {
		// The cover of the default ranking leaves out words that only ask. BM25 and tf-idf stay the published formulas.
		q, err := x.Query(text,
			postings.Scoring{Kind: postings.Kind(s.Kind), K1: max(s.K1, math.SmallestNonzeroFloat64),
				B: s.B, NoLength: s.B == 0, Content: s.Kind == retrieve.KindCover})
		if err != nil {
			return nil, err
		}
		return lexical{q}, nil
	}
}

// lexical is a query of an inverted index as retrieve.Words.
type lexical struct{ *postings.Query }

// Biases implements retrieve.Words.
func (w lexical) Biases(weight float64, more ...retrieve.Weighted) kernels.Biases {
	parts := []postings.Part{{Query: w.Query, Weight: weight}}
	for _, x := range more {
		parts = append(parts, postings.Part{Query: x.Words.(lexical).Query, Weight: x.Weight})
	}
	return postings.Sum(parts...)
}

// Terms implements retrieve.Words.
func (w lexical) Terms() []retrieve.Term {
	var terms []retrieve.Term
	for _, t := range w.Query.Terms() {
		terms = append(terms, retrieve.Term{Text: t.Text, DF: t.Rows, IDF: t.IDF})
	}
	return terms
}

// Has implements retrieve.Words.
func (w lexical) Has(t retrieve.Term, row int) bool { return w.Query.Has(t.Text, row) }
