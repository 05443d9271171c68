package llm

import (
	"context"
	"errors"
	"iter"
)

var errStopped = errors.New("the consumer has stopped")

// Stream generates while the sequence is ranged over: it yields pieces of text as they are made, each with a nil error,
// then the error of Generate, if any. Leaving the loop ends the request. result, unless nil, is filled at the end.
func Stream(ctx context.Context, g Generator, req Request, result *Result) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		res, err := g.Generate(ctx, req, func(piece string) error {
			if !yield(piece, nil) {
				return errStopped
			}
			return nil
		})
		if result != nil {
			*result = res
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield("", err)
		}
	}
}
