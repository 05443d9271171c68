package retrieve

import (
	"context"
	"crypto/sha256"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Result is a context with its score.
type Result struct {
	ID    string  `json:"id"`
	Score float64 `json:"score"`
	Parts *Parts  `json:"parts,omitempty"` // with Options.Explain
	Row   int     `json:"-"`               // of Contexts
	// Copies are the ids of the other contexts of the same text that were found: copies share one place.
	Copies []string `json:"copies,omitempty"`
}

// Parts holds the components of a result's score. Components that were not used are absent.
type Parts struct {
	Dense            *float64 `json:"dense,omitempty"` // in Taken.Metric
	DenseNormalised  *float64 `json:"dense_normalised,omitempty"`
	DenseRank        int      `json:"dense_rank,omitempty"`
	Sparse           *float64 `json:"sparse,omitempty"` // of Taken.Sparse
	SparseNormalised *float64 `json:"sparse_normalised,omitempty"`
	SparseRank       int      `json:"sparse_rank,omitempty"`
	Cover            *float64 `json:"cover,omitempty"`
	Share            *float64 `json:"share,omitempty"` // BM25 divided by its maximum for the query
	Weight           *float64 `json:"weight,omitempty"`
	Rule             string   `json:"rule,omitempty"`     // how the parts combine to the score
	Fused            *float64 `json:"fused,omitempty"`    // the score before the reranker
	Reranker         *float64 `json:"reranker,omitempty"` // probability of the cross-encoder
	Relevance        *float64 `json:"relevance,omitempty"`
	// Similarity is the cosine with the nearest higher-ranked result, which MMR subtracts from Relevance with a weight.
	Similarity *float64        `json:"similarity,omitempty"`
	Terms      []postings.Term `json:"terms,omitempty"` // words of the query that the context contains
}

// Taken describes how a list was ranked.
type Taken struct {
	Mode    Mode          `json:"mode"`    // the requested mode
	Ranking string        `json:"ranking"` // the ranking that was used: dense, bm25, tfidf, hybrid, cosine+cover+share
	Reason  string        `json:"reason,omitempty"`
	Metric  string        `json:"metric,omitempty"` // of the vectors
	Sparse  postings.Kind `json:"sparse,omitempty"`
	Fusion  Fusion        `json:"fusion,omitempty"`
	// Weight is the share of the dense score; absent if the ranking uses no weight.
	Weight   *float64        `json:"weight,omitempty"`
	TopN     int             `json:"top_n,omitempty"`
	K1       *float64        `json:"k1,omitempty"`
	B        *float64        `json:"b,omitempty"`
	Where    string          `json:"where,omitempty"`
	Contexts int             `json:"contexts"` // number of searched contexts, after the filter
	Reranked int             `json:"reranked,omitempty"`
	MMR      float64         `json:"mmr,omitempty"`
	Terms    []postings.Term `json:"terms,omitempty"` // words of the query, with Options.Explain
	Route    *Route          `json:"route,omitempty"` // of a routed search

	Ascending bool `json:"ascending,omitempty"` // smaller scores are better (distances)
}

// Route describes which contexts a routed search covered.
type Route struct {
	By       string   `json:"by"`                 // router, or given
	Domains  []Domain `json:"domains,omitempty"`  // the most probable first, as far as they matter
	Searched []string `json:"searched,omitempty"` // domains; absent: all contexts
	// All is set if all contexts were searched, for Reason. Otherwise the contexts without a domain were searched
	// besides the domains.
	All         bool    `json:"all"`
	Reason      string  `json:"reason,omitempty"`
	Familiarity float64 `json:"familiarity,omitempty"` // of the query to the router
	// time of the router for the batch of queries
	Milliseconds float64 `json:"ms"`
}

// Domain is a domain of a query.
type Domain struct {
	Name        string  `json:"name"`
	Probability float64 `json:"probability"`
}

// List holds the results of a query, best first, and how they were ranked.
type List struct {
	Taken   Taken    `json:"taken"`
	Results []Result `json:"results"`
}

// Contexts is the searched set: row i of Vectors belongs to IDs[i].
type Contexts struct {
	Vectors engine.Vectors // may belong to a prepared set
	IDs     []string

	// The following fields are optional.
	Data    engine.Vectors      // the same rows as plain vectors, if Vectors belong to a prepared set
	Digests [][sha256.Size]byte // of the texts: rows of the same digest are copies; nil: no copies are known
	// Bodies returns the texts of contexts without what stands above them: those with the same body are copies, too.
	// "" is compared with nothing.
	Bodies  func(ctx context.Context, ids []string) ([]string, error)
	Deleted func(row int) bool // reports whether a row is deleted
	Live    int                // number of rows that are not deleted, if Deleted is set
	Rows    []int              // the only rows that are searched, ascending and without deleted ones; see Selected
	// Selected restricts searches to Rows, even if Rows is empty.
	Selected bool
	Allowed  func(row int) bool // reports whether a row is in Rows; optional
	Narrowed bool               // Vectors hold only Rows (engine.Only)
	Parts    []Part             // contiguous copies of the vectors of Rows; optional
	Words    *postings.Index
}

// Part is a subset of the contexts, such as a domain, with a copy of their vectors.
type Part struct {
	Vectors engine.Vectors // may belong to a prepared set
	Rows    []int          // of the contexts, ascending
}

// Queries holds texts and their vectors: row i of Vectors belongs to Texts[i]. Vectors may be empty for searches by
// words alone, and Texts for searches by vectors alone.
type Queries struct {
	Texts   []string
	Vectors engine.Vectors
}

func (q Queries) len() int { return max(len(q.Texts), q.Vectors.Rows) }

// plain returns the contexts as plain vectors.
func (c Contexts) plain() engine.Vectors {
	if c.Data.Data != nil {
		return c.Data
	}
	v := c.Vectors
	v.Set = nil
	return v
}

// count returns the number of searched contexts.
func (c Contexts) count() int {
	switch {
	case c.Selected:
		return len(c.Rows)
	case c.Deleted != nil:
		return c.Live
	}
	return c.Vectors.Rows
}

// each yields the searched rows in ascending order.
func (c Contexts) each(yield func(row int) bool) {
	if c.Selected {
		for _, r := range c.Rows {
			if !yield(r) {
				return
			}
		}
		return
	}
	for r := range c.Vectors.Rows {
		if (c.Deleted == nil || !c.Deleted(r)) && !yield(r) {
			return
		}
	}
}

// allowed returns the predicate of searched rows for Words.TopK, nil if all rows of the index are searched.
func (c Contexts) allowed() func(row int) bool {
	if !c.Selected || c.Allowed != nil {
		return c.Allowed
	}
	bits := make([]uint64, (c.Vectors.Rows+63)/64)
	for _, r := range c.Rows {
		bits[r/64] |= 1 << (r % 64)
	}
	return func(row int) bool { return bits[row/64]>>(row%64)&1 != 0 }
}

// results converts hits into results. score converts the score of a hit into the score of the list.
func (c Contexts) results(hits []kernels.Hit, score func(float64) float64) []Result {
	list := make([]Result, len(hits))
	for i, h := range hits {
		list[i] = Result{ID: c.IDs[h.Row], Score: score(h.Score), Row: h.Row}
	}
	return list
}
