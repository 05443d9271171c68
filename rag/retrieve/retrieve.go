// Package retrieve finds the contexts for a query. This version searches dense vectors exactly;
// the lexical and hybrid modes are refused with ErrMode until the postings exist.
package retrieve

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// Mode is how contexts are ranked.
type Mode string

// The modes. Auto takes the best one that this build has, which is Dense.
const (
	Auto   Mode = "auto"
	Dense  Mode = "dense"
	BM25   Mode = "bm25"
	Hybrid Mode = "hybrid"
)

// The errors of this package.
var (
	ErrMode = errors.New("retrieve: mode not available") // unknown, or not in this build
	ErrK    = errors.New("retrieve: k must be at least 1")
)

// ParseMode checks a mode's name.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Auto, Dense:
		return m, nil
	case BM25, Hybrid:
		return m, fmt.Errorf("%w: %q needs the lexical index, which this version does not build; use dense or auto",
			ErrMode, s)
	}
	return "", fmt.Errorf("%w: %q (known: auto, dense, bm25, hybrid)", ErrMode, s)
}

// Options of a search. The zero value takes DefaultK contexts in the best mode that there is.
type Options struct {
	K    int // contexts per query
	Mode Mode
	// Sentences finds in each context the sentence that is nearest to the query. It costs the embedding of all their
	// sentences, so it is for contexts that are going to be read.
	Sentences bool
}

// DefaultK is how many contexts a query gets.
const DefaultK = 4

// WithDefaults are the options with their defaults filled in.
func (o Options) WithDefaults() Options {
	if o.K == 0 {
		o.K = DefaultK
	}
	if o.Mode == "" {
		o.Mode = Auto
	}
	return o
}

// Result is a context and its score, better first.
type Result struct {
	ID    string  `json:"id"`
	Score float64 `json:"score"`
}

// Contexts is the searched set: row i of Vectors belongs to IDs[i].
type Contexts struct {
	Vectors engine.Vectors
	IDs     []string
}

// Search ranks the contexts for each query vector and returns the k best of each, in order of the
// queries: fewer where there are fewer contexts. It fails with ErrMode for a mode that ParseMode refuses
// and with ErrK for k < 1.
func Search(
	ctx context.Context, e engine.Interface, c Contexts, queries engine.Vectors, metric kernels.Metric, mode Mode,
	k int,
) ([][]Result, error) {
	if _, err := ParseMode(string(mode)); err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fmt.Errorf("%w, given %d", ErrK, k)
	}
	if len(c.IDs) != c.Vectors.Rows {
		return nil, fmt.Errorf("retrieve: %w: %d ids for %d contexts", kernels.ErrShape, len(c.IDs), c.Vectors.Rows)
	}
	hits, err := e.TopK(ctx, queries, c.Vectors, metric, k, nil)
	if err != nil {
		return nil, fmt.Errorf("retrieve: %w", err)
	}
	results := make([][]Result, len(hits))
	for i, row := range hits {
		results[i] = make([]Result, len(row))
		for j, h := range row {
			results[i][j] = Result{ID: c.IDs[h.Row], Score: h.Score}
		}
	}
	return results, nil
}
