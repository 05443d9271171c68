package embed

import (
	"cmp"
	"context"
	"slices"
)

// Scores say how well documents answer a query, in the order of the documents.
type Scores struct {
	Logits []float32 // as the model puts them: any number, more is better
	Tokens []int     // of each pair, special tokens included, after truncation
	// Truncated are the pairs that were cut at MaxTokens. The longer text of a pair gives way first, so a query keeps
	// at least half of the tokens, rounded down; QueryTruncated are the pairs whose query lost some.
	Truncated, QueryTruncated int
	Repaired                  int // texts with NUL bytes or invalid UTF-8 that were replaced by U+FFFD
}

// Probability returns the sigmoid of document i's logit.
func (s *Scores) Probability(i int) float32 { return sigmoid(s.Logits[i], 1) }

// Ranked returns the documents, best first and of equals the lower index first; at most n of them, all where n is 0.
func (s *Scores) Ranked(n int) []int {
	out := make([]int, len(s.Logits))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(s.Logits[b], s.Logits[a]) })
	if n > 0 && len(out) > n {
		out = out[:n]
	}
	return out
}

// Scorer is what the rest of Sluice needs of a reranker; *Reranker implements it.
type Scorer interface {
	// Score reads the query together with each document. Texts may be empty.
	Score(ctx context.Context, query string, documents []string) (*Scores, error)
	Info() Info
}
