package retrieve

import (
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// Result is a context and its score, better first.
type Result struct {
	ID    string  `json:"id"`
	Score float64 `json:"score"`
	Parts *Parts  `json:"parts,omitempty"` // with Options.Explain
	Row   int     `json:"-"`               // of Contexts
}

// Parts are what a result's score was made of; what played no part is left out.
type Parts struct {
	Dense            *float64 `json:"dense,omitempty"` // in Taken.Metric
	DenseNormalised  *float64 `json:"dense_normalised,omitempty"`
	DenseRank        int      `json:"dense_rank,omitempty"`
	Sparse           *float64 `json:"sparse,omitempty"` // of Taken.Sparse
	SparseNormalised *float64 `json:"sparse_normalised,omitempty"`
	SparseRank       int      `json:"sparse_rank,omitempty"`
	Cover            *float64 `json:"cover,omitempty"`
	Share            *float64 `json:"share,omitempty"` // BM25 over the highest that the query allows
	Weight           *float64 `json:"weight,omitempty"`
	Rule             string   `json:"rule,omitempty"`     // how the parts make the score
	Fused            *float64 `json:"fused,omitempty"`    // the score before the reranker
	Reranker         *float64 `json:"reranker,omitempty"` // probability of the cross-encoder
	Relevance        *float64 `json:"relevance,omitempty"`
	// Similarity is the cosine with the nearest of the results before, of which MMR has taken it away from Relevance.
	Similarity *float64 `json:"similarity,omitempty"`
	Terms      []Term   `json:"terms,omitempty"` // words of the query that the context has
}

// Taken says how a list was made.
type Taken struct {
	Mode    Mode   `json:"mode"`    // that was asked for
	Ranking string `json:"ranking"` // what it came to: dense, bm25, tfidf, hybrid, cosine+cover+share
	Reason  string `json:"reason,omitempty"`
	Metric  string `json:"metric,omitempty"` // of the vectors
	Sparse  Kind   `json:"sparse,omitempty"`
	Fusion  Fusion `json:"fusion,omitempty"`
	// Weight is the share of the dense score; absent where nothing is weighted.
	Weight   *float64 `json:"weight,omitempty"`
	TopN     int      `json:"top_n,omitempty"`
	K1       *float64 `json:"k1,omitempty"`
	B        *float64 `json:"b,omitempty"`
	Where    string   `json:"where,omitempty"`
	Contexts int      `json:"contexts"` // that were searched: those that the filter selects
	Reranked int      `json:"reranked,omitempty"`
	MMR      float64  `json:"mmr,omitempty"`
	Terms    []Term   `json:"terms,omitempty"` // words of the query, with Options.Explain
	Route    *Route   `json:"route,omitempty"` // of a routed search

	Ascending bool `json:"ascending,omitempty"` // the smaller score is the better one: distances
}

// Route says which contexts a routed search went by.
type Route struct {
	By       string   `json:"by"`                 // router, or given
	Domains  []Domain `json:"domains,omitempty"`  // the most probable first, as far as they matter
	Searched []string `json:"searched,omitempty"` // domains; absent: all contexts
	// All: all contexts were searched, for Reason. Else contexts of no domain were searched as well.
	All         bool    `json:"all"`
	Reason      string  `json:"reason,omitempty"`
	Familiarity float64 `json:"familiarity,omitempty"` // of the query to the router
	// that the router took for the queries it was asked about together
	Milliseconds float64 `json:"ms"`
}

// Domain is a domain of a query.
type Domain struct {
	Name        string  `json:"name"`
	Probability float64 `json:"probability"`
}

// List are the results of a query, better first, and how they came about.
type List struct {
	Taken   Taken    `json:"taken"`
	Results []Result `json:"results"`
}

// Contexts is the searched set: row i of Vectors belongs to IDs[i].
type Contexts struct {
	Vectors engine.Vectors // may belong to a prepared set
	IDs     []string

	// The following fields are optional.
	Data    engine.Vectors     // the same rows as plain vectors, if Vectors belong to a prepared set
	Deleted func(row int) bool // reports whether a row is deleted
	Live    int                // number of rows that are not deleted, if Deleted is set
	Rows    []int              // the only rows that are searched, ascending and without deleted ones; see Selected
	// Selected restricts searches to Rows, even if Rows is empty.
	Selected bool
	Allowed  func(row int) bool // reports whether a row is in Rows; optional
	Narrowed bool               // Vectors hold only Rows (engine.Only)
	Parts    []Part             // contiguous copies of the vectors of Rows; optional
	Words    Lexicon
}

// Part is a subset of the contexts, such as a domain, with a copy of their vectors.
type Part struct {
	Vectors engine.Vectors // may be those of a prepared set
	Rows    []int          // of the contexts, ascending
}

// Queries holds texts and their vectors: row i of Vectors belongs to Texts[i]. Vectors may be empty for searches by
// words alone, and Texts for searches by vectors alone.
type Queries struct {
	Texts   []string
	Vectors engine.Vectors
}

func (q Queries) len() int { return max(len(q.Texts), q.Vectors.Rows) }

func (q Queries) vector(i int) []float32 { return row(q.Vectors, i) }

// row is row i of plain vectors.
func row(v engine.Vectors, i int) []float32 {
	stride := v.Stride
	if stride == 0 {
		stride = v.Dim
	}
	return v.Data[i*stride : i*stride+v.Dim]
}

// plain are the contexts as plain vectors.
func (c Contexts) plain() engine.Vectors {
	if c.Data.Data != nil {
		return c.Data
	}
	v := c.Vectors
	v.Set = nil
	return v
}

// count is how many contexts are searched.
func (c Contexts) count() int {
	switch {
	case c.Selected:
		return len(c.Rows)
	case c.Deleted != nil:
		return c.Live
	}
	return c.Vectors.Rows
}

// each yields the searched rows in order until it is told to stop.
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

// allowed is the set of searched rows as Words.TopK takes it; nil where the index and the contexts have the same.
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

// results are hits as a list has them; score turns the score of a hit into that of the list.
func (c Contexts) results(hits []kernels.Hit, score func(float64) float64) []Result {
	list := make([]Result, len(hits))
	for i, h := range hits {
		list[i] = Result{ID: c.IDs[h.Row], Score: score(h.Score), Row: h.Row}
	}
	return list
}
