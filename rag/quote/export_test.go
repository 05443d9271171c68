package quote

import (
	"context"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Rank returns the candidates of all passages, best first.
func Rank(ctx context.Context, o Options, question engine.Vectors, w *postings.Query, passages []string) ([]Quote,
	error) {
	all, _, err := o.rank(ctx, question, w, passages)
	list := make([]Quote, len(all))
	for i, c := range all {
		list[i] = c.Quote
	}
	return list, err
}

// HasKind reports whether a question asks for a time or a number that the sentence has.
func HasKind(question, sentence string) bool { return kindOf(question).has(sentence) }
