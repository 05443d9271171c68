package retrieve

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
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
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Auto, Dense, BM25, TFIDF, Hybrid} }

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

// Fusions returns all fusions.
func Fusions() []Fusion { return []Fusion{MinMax, MinMaxTopN, RRF} }

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

// Expansions returns all expansions.
func Expansions() []Expansion { return []Expansion{NoExpansion, Neighbours, Parent} }

// The errors of this package.
var (
	ErrMode   = errors.New("retrieve: unknown mode")
	ErrK      = errors.New("retrieve: k must be at least 1")
	ErrOption = errors.New("retrieve: bad option")
	ErrFilter = errors.New("retrieve: bad filter")
	// ErrNoWords: the mode needs an index of words, and the contexts have none.
	ErrNoWords = errors.New("retrieve: there is no index of words")
)

// The defaults of Options.
const (
	DefaultK          = 4
	DefaultWeight     = .5
	DefaultK1         = 1.5
	DefaultB          = .75
	DefaultTopN       = 10  // of MinMaxTopN
	DefaultRRFTopN    = 100 // of RRF
	DefaultNeighbours = 1
	rrfConstant       = 60

	// MaxK, MaxTopN and MaxRerank bound the memory of lists, 16 bytes for each entry and query. With MaxNeighbours on
	// either side, a passage exceeds the context window of most models.
	MaxK, MaxTopN, MaxRerank = 1_000_000, 1_000_000, 1_000_000
	MaxNeighbours            = 32

	minCandidates = 20 // that MMR selects from
)

// Options configures a search. The zero value returns DefaultK contexts in the mode Auto.
type Options struct {
	K    int // contexts per query; 0 is DefaultK
	Mode Mode
	// Metric compares vectors: cosine, ip or l2; "" is the store's own.
	Metric string
	// Weight is the share of the dense score in Hybrid and Auto, up to 1. 0 means DefaultWeight, and a negative value
	// means a share of 0.
	Weight float64
	Fusion Fusion // "" is MinMax
	TopN   int    // length of the lists that MinMaxTopN and RRF fuse; 0 takes DefaultTopN or DefaultRRFTopN, at least K
	// K1 and B are the parameters of BM25. 0 means 1.5 and 0.75, and a negative value means 0.
	K1, B float64

	Where Filter // selects the contexts that are searched, before they are scored
	// Route lists the domains that are searched. nil searches all contexts. {"auto"} searches the domains that the
	// store's router assigns to the query, if the store has a router.
	Route  []string
	Rerank int // number of best results that the reranker scores, at least K; 0: no reranking
	// MMR is the weight λ of relevance, up to 1; 1-λ weighs the difference from the results ranked before (maximal
	// marginal relevance, Carbonell and Goldstein, SIGIR 1998); 0 is off.
	MMR float64

	Expand     Expansion // "" is NoExpansion
	Neighbours int       // 0 is DefaultNeighbours

	Explain bool // Result.Parts and Taken.Terms are filled in
	// Sentences finds the sentence of each result that is nearest to the query. This embeds all sentences of the
	// results, so it is meant for results that people read.
	Sentences bool
}

// WithDefaults returns the options with zero values replaced by defaults.
func (o Options) WithDefaults() Options {
	for _, x := range []struct {
		at      *float64
		initial float64
	}{{&o.Weight, DefaultWeight}, {&o.K1, DefaultK1}, {&o.B, DefaultB}} {
		if *x.at == 0 {
			*x.at = x.initial
		}
	}
	if o.K == 0 {
		o.K = DefaultK
	}
	if o.Mode == "" {
		o.Mode = Auto
	}
	if o.Fusion == "" {
		o.Fusion = MinMax
	}
	if o.TopN == 0 {
		o.TopN = max(DefaultTopN, o.K)
		if o.Fusion == RRF {
			o.TopN = max(DefaultRRFTopN, o.K)
		}
	}
	if o.Expand == "" {
		o.Expand = NoExpansion
	}
	if o.Neighbours == 0 {
		o.Neighbours = DefaultNeighbours
	}
	return o
}

// Check validates options after WithDefaults. The error is ErrMode, ErrK, ErrFilter, or ErrOption for everything else,
// and states the value and what is allowed.
func (o Options) Check() error {
	if _, err := ParseMode(string(o.Mode)); err != nil {
		return err
	}
	if o.K < 1 || o.K > MaxK {
		return fmt.Errorf("%w and at most %d, given %d", ErrK, MaxK, o.K)
	}
	if err := errors.Join(oneOf("fusion", o.Fusion, Fusions()),
		oneOf("expansion", o.Expand, Expansions())); err != nil {
		return err
	}
	if o.Metric != "" {
		if _, err := kernels.ParseMetric(o.Metric); err != nil {
			return fmt.Errorf("%w: %w", ErrOption, err)
		}
	}
	for _, x := range []struct {
		name       string
		value, max float64
	}{{"weight", o.Weight, 1}, {"k1", o.K1, 1000}, {"b", o.B, 1}, {"mmr", o.MMR, 1}} {
		if math.IsNaN(x.value) || x.value > x.max {
			return fmt.Errorf("%w: %s is at most %g, given %g", ErrOption, x.name, x.max, x.value)
		}
	}
	for _, x := range []struct {
		name            string
		value, min, max int
	}{{"top n", o.TopN, 1, MaxTopN}, {"rerank", o.Rerank, 0, MaxRerank},
		{"neighbours", o.Neighbours, 1, MaxNeighbours}} {
		if x.value < x.min || x.value > x.max {
			return fmt.Errorf("%w: %s is from %d to %d, given %d", ErrOption, x.name, x.min, x.max, x.value)
		}
	}
	if o.MMR < 0 {
		return fmt.Errorf("%w: mmr is from 0 to 1, given %g", ErrOption, o.MMR)
	}
	return o.Where.Check()
}

// ParseMode parses the name of a mode. The error is ErrMode if it is unknown.
func ParseMode(s string) (Mode, error) {
	for _, m := range Modes() {
		if string(m) == s {
			return m, nil
		}
	}
	return "", fmt.Errorf("%w: %q (known: %s)", ErrMode, s, Join(Modes(), ", "))
}

// oneOf returns ErrOption if value is not in list.
func oneOf[T ~string](what string, value T, list []T) error {
	for _, x := range list {
		if x == value {
			return nil
		}
	}
	return fmt.Errorf("%w: %s %q (known: %s)", ErrOption, what, string(value), Join(list, ", "))
}

// Join is strings.Join for names.
func Join[T ~string](list []T, separator string) string {
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = string(x)
	}
	return strings.Join(names, separator)
}

// Vectors reports whether a search with these options needs the queries' vectors.
func (o Options) Vectors() bool {
	o = o.WithDefaults()
	return o.Mode != BM25 && o.Mode != TFIDF
}

// weight returns Weight as a share in [0, 1].
func (o Options) weight() float64 { return max(o.Weight, 0) }

// candidates returns the number of contexts that are ranked before the reranker and MMR select among them.
func (o Options) candidates() int {
	n := max(o.K, o.Rerank)
	if o.MMR > 0 && o.Rerank == 0 {
		n = max(4*o.K, minCandidates)
	}
	return n
}

// scoring returns the parameters for scoring words.
func (o Options) scoring(kind Kind) Scoring { return Scoring{kind, max(o.K1, 0), max(o.B, 0)} }
