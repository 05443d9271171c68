package retrieve

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/internal/settings"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Mode selects how contexts are ranked.
type Mode string

// The modes. With w for Options.Weight:
const (
	// Auto ranks by w·cosine + (1 − w)·(¾·cover + ½·share): cover is the share of the query's idf mass whose words the
	// context contains, and share is its BM25 score divided by the maximum for the query. Auto falls back to Dense if
	// no context contains a word of the query or the store has no index of words, and to Hybrid if vectors are compared
	// by ip or Options.Metric is not cosine. List.Taken records the choice.
	Auto   Mode = "auto"
	Dense  Mode = "dense"  // Options.Metric of the vectors
	BM25   Mode = "bm25"   // Okapi BM25 of the words; contexts without a word of the query are not found
	TFIDF  Mode = "tfidf"  // cosine of the tf-idf weights of the words; contexts without a word are not found
	Hybrid Mode = "hybrid" // Options.Fusion of Dense and BM25
	// PseudoQuery compares the query with the pseudo-queries of a calibration, Source.Questions, instead of the
	// contexts. A context gets the score of the nearest question about it. A context without questions is not found.
	// Heydari et al. (Context Awareness Gate) propose it in place of HyDE.
	PseudoQuery Mode = "pseudo-query"
)

// Fusion selects how Hybrid merges two rankings.
type Fusion string

// The fusions. Normalised scores range from 0 (worst) to 1 (best), also for distances.
const (
	// MinMax is (1 − w)·sparse + w·dense, normalised by the worst and the best of all contexts (Keibel, Datenanalyse im
	// Unternehmen, without his cut).
	MinMax Fusion = "min-max"
	// MinMaxTopN is MinMax over the Options.TopN best of each search, as in Keibel: a context missing from a list has
	// the score 0 in it.
	MinMaxTopN Fusion = "min-max-top-n"
	// RRF is reciprocal rank fusion of the Options.TopN best of each search: the sum of 1/(60 + rank) (Cormack, Clarke,
	// Büttcher, SIGIR 2009). It uses no weight.
	RRF Fusion = "rrf"
)

// Expansion selects the text that is joined to a passage found.
type Expansion string

// The expansions.
const (
	NoExpansion Expansion = "none"
	// Neighbours joins the Options.Neighbours chunks on either side in the document.
	Neighbours Expansion = "neighbours"
	// Parent joins the whole section of the document that contains the chunk.
	Parent Expansion = "parent"
)

// The errors of this package.
var (
	ErrOption = errors.New("retrieve: bad option")
	ErrFilter = errors.New("retrieve: bad filter")
	// ErrNoWords: the mode needs an index of words, and the contexts have none.
	ErrNoWords = errors.New("retrieve: there is no index of words")
	// ErrNoQuestions: the mode needs the vectors of pseudo-queries, and the calibration has not kept them.
	ErrNoQuestions = fmt.Errorf("%w: there are no pseudo-queries to search", ErrOption)
)

// StoreMetric is an Options.Metric: that of the store.
const StoreMetric = "store"

const (
	defaultTopN    = 10  // of MinMaxTopN
	defaultRRFTopN = 100 // of RRF
	rrfConstant    = 60

	minCandidates = 20 // that MMR selects from
)

// Options configures a search. Start with DefaultOptions: the zero value is invalid. The settings file, the flags, HTTP
// requests and experiments are derived from the tags (internal/settings). MMR is maximal marginal relevance (Carbonell
// and Goldstein, SIGIR 1998).
type Options struct {
	K          int       `json:"k" bounds:"1,1000000" request:"1000" doc:"contexts per query"`
	Mode       Mode      `json:"mode" oneof:"auto dense bm25 tfidf hybrid pseudo-query" doc:"how contexts are ranked: auto takes the best measured ranking that the store allows, by vectors and words; dense goes by vectors, bm25 and tfidf by words, hybrid by both, pseudo-query by the vectors of the questions of a calibration with --keep-questions"`
	Metric     string    `json:"metric" oneof:"store cosine ip l2" doc:"how vectors are compared in a search: store is as the store was made"`
	Weight     float64   `json:"weight" bounds:"0,1" doc:"share of the vectors in auto and hybrid; the rest is that of the words"`
	Fusion     Fusion    `json:"fusion" oneof:"min-max min-max-top-n rrf" doc:"how hybrid makes one score of two: normalised between the worst and the best of all contexts, or of the top n of each search, or by ranks (rrf)"`
	TopN       int       `json:"top_n" bounds:"0,1000000" request:"100000" doc:"length of the lists that min-max-top-n and rrf fuse; 0 takes 10 for the one, 100 for the other, at least k"`
	K1         float64   `json:"k1" bounds:"0,1000" doc:"BM25: how much repeated words count"`
	B          float64   `json:"b" bounds:"0,1" doc:"BM25: how much long contexts are discounted; 0 is not at all"`
	Route      []string  `json:"route" doc:"domains that are searched: auto (those of the query, by the store's router if it has one), off (all), or their names, with commas between them"`
	Rerank     int       `json:"rerank" bounds:"0,1000000" request:"1000" doc:"the best so many contexts are put in order by the reranker (the setting reranker names it); 0: none"`
	MMR        float64   `json:"mmr" bounds:"0,1" doc:"maximal marginal relevance: share of relevance against difference from the contexts before; 0 is off"`
	Expand     Expansion `json:"expand" oneof:"none neighbours parent" doc:"what is joined to a context that was found: the chunks around it in its document, or the section that it was cut from"`
	Neighbours int       `json:"neighbours" bounds:"1,32" doc:"chunks on either side that 'neighbours' joins"`
	Sentences  bool      `json:"sentences" doc:"show with each source that is cited its sentence that is nearest to the question; 'ask' of one question does so anyway; costs the embedding of the sources' sentences"`

	Where   Filter `json:"where"`   // selects the contexts that are searched, before they are scored
	Explain bool   `json:"explain"` // Result.Parts and Taken.Terms are filled in
}

// DefaultOptions returns the default search options.
func DefaultOptions() Options {
	return Options{K: 4, Mode: Auto, Metric: StoreMetric, Weight: .5, Fusion: MinMax, K1: 1.5, B: .75,
		Route: []string{"auto"}, Expand: NoExpansion, Neighbours: 1}
}

// Check validates options. The error is ErrOption or ErrFilter, and states the value and what is allowed.
func (o Options) Check() error {
	if err := settings.Check(o); err != nil {
		return fmt.Errorf("%w: %w", ErrOption, err)
	}
	return o.Where.Check()
}

// Vectors reports whether a search with these options needs the queries' vectors.
func (o Options) Vectors() bool {
	return o.Mode != BM25 && o.Mode != TFIDF
}

// candidates returns the number of contexts that are ranked before the reranker and MMR select among them.
func (o Options) candidates() int {
	n := max(o.K, o.Rerank)
	if o.MMR > 0 && o.Rerank == 0 {
		n = max(4*o.K, minCandidates)
	}
	return n
}

// scoring returns the parameters for scoring words. The cover of the default ranking leaves out words that only ask.
// BM25 and tf-idf stay the published formulas.
func (o Options) scoring(kind postings.Kind) postings.Scoring {
	return postings.Scoring{Kind: kind, K1: max(o.K1, math.SmallestNonzeroFloat64), B: o.B, NoLength: o.B == 0,
		Content: kind == postings.Cover}
}

// topN returns the length of the lists that are fused.
func (o Options) topN() int {
	switch {
	case o.TopN > 0:
		return o.TopN
	case o.Fusion == RRF:
		return max(defaultRRFTopN, o.K)
	}
	return max(defaultTopN, o.K)
}

// metric returns Metric, or the metric of the store.
func (o Options) metric(store kernels.Metric) kernels.Metric {
	if m, err := kernels.ParseMetric(o.Metric); err == nil { // StoreMetric, or an error of Check
		return m
	}
	return store
}
