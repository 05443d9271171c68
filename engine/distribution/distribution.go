// Package distribution holds what calibration compares and what comes out: the input of
// engine.Engine.Distribution, its result, and the choice of negatives.
package distribution

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/kernels"
)

// The errors of distributions in parts.
var (
	ErrPart       = errors.New("part of a distribution does not fit")
	ErrCheckpoint = errors.New("checkpoint does not fit")
)

// Input is what calibration compares: contexts C, pseudo-queries Q, for each
// pseudo-query the row of its own context, and for each context a group (topic, document).
type Input struct {
	Contexts, Queries kernels.Vectors
	Owner             []int32 // len Queries.Rows; row of Contexts
	Group             []int32 // len Contexts.Rows, or nil when all are in one group
	Metric            kernels.Metric
	Negatives         Negatives
	Quantiles         []float64 // in [0,1]; type 7 (Hyndman & Fan 1996), computed for each distribution
	// Bins > 0 asks for a histogram of D− with that many equal bins between its exact minimum and maximum (for plots),
	// and narrows Separation to the width of a cell.
	Bins int
	// Sample > 0 asks for the canonical scores of about that many pairs of D−, drawn evenly for each query, or of all
	// if there are no more (Result.Sample). The draw depends only on the numbers of queries and contexts.
	Sample int

	// DType is the number format of the bounded pass; nil = chosen by the engine: bf16x3 where the device has
	// it; else i16 where it is there and a sample says that its bound leaves at most 1 % of the pairs to canonical
	// scores, which also makes StdError about twenty times as large; else f32. One that the device lacks is
	// kernels.ErrISA. It changes the speed and the bounds, never an exact result.
	DType *kernels.DType
	// Interval takes the quantiles of D− as [Low, High] straight from the bounded pass, without canonical
	// scores: narrower than 1/4096 of the range of scores with f32 and bf16x3.
	Interval bool
	// Checkpoint, if not empty, is a file that finished tasks are appended to. Called again with the
	// same input, Distribution goes on where it was stopped, with the same result; after success the
	// file is removed. A file of another input is ErrCheckpoint and left alone.
	Checkpoint string

	// Bias, if not nil, is added to the closeness of every pair (kernels.Metric.Biased), so that another term, for
	// example a lexical one, is calibrated together with the similarity. It writes out[i*len(contexts)+j] ≥ 0 for
	// query row queries[i] and context row contexts[j]. It is called block by block, by several goroutines at once,
	// and must return the same value for a pair on every call. All scores are then canonical, which takes 2 to 3 times
	// as long as float32 tiles. Interval and parts are not available; partials are.
	Bias func(ctx context.Context, queries, contexts []int32, out []float32) error

	// ContextIDs and QueryIDs name the rows in parts; nil names them by row number. The ids must be distinct.
	ContextIDs, QueryIDs []uint64
}

// Block is the contexts [Contexts[0], Contexts[1]) × the queries [Queries[0], Queries[1]) of an input, or, where a
// list is not nil, the rows in it, each once.
type Block struct {
	Contexts, Queries      [2]int
	ContextRows, QueryRows []int32
}

// Brackets say which pairs a part keeps: those whose score may lie in a range around a quantile, or beyond Ends. They
// are chosen once, from a sample, and given to every part, whatever device counts it. Ranges are of scores, ascending
// and disjoint.
type Brackets struct {
	Metric    kernels.Metric `json:"metric"`
	Negatives NegativeKind   `json:"negatives"`
	Biased    bool           `json:"biased,omitempty"` // pairs have a bias (Input.Bias)
	Ranges    [][2]float64   `json:"ranges"`
	// Sure is set where Ranges are only likely to have the quantiles: ranges around them that have them for certain. A
	// pass that misses one returns brackets with the rest of these.
	Sure [][2]float64 `json:"sure,omitempty"`
	Ends [2]float64   `json:"ends"` // scores ≤ Ends[0] or ≥ Ends[1] are kept
	// Bins > 0 counts D− in so many equal bins between Low and High; scores beyond go to the first and the last.
	Bins int     `json:"bins,omitempty"`
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Sample is Input.Sample, of partials.
	Sample int `json:"sample,omitempty"`
	// Cells > 0: a Partial counts the pairs of each range in so many equal cells and keeps none of them. Its quantiles
	// are then intervals, which Partials of the Parts with these pairs narrow down to single scores.
	Cells int `json:"cells,omitempty"`
	// Share is how many of all pairs were kept of the sample that the brackets were chosen from.
	Share float64 `json:"-"`
}

// NegativeKind chooses which pairs (pseudo-query, foreign context) make up D−.
type NegativeKind uint8

const (
	// NegativesAll takes every context but the pseudo-query's own.
	NegativesAll NegativeKind = iota
	// NegativesCrossGroup takes contexts of other groups only.
	NegativesCrossGroup
	// NegativesSample draws PerQuery foreign contexts for each pseudo-query, without replacement, seeded
	// (ref.Foreign: the draw does not depend on tiling or threads); all of them if there are no more.
	NegativesSample
)

// Negatives is the choice of D−; PerQuery and Seed belong to NegativesSample.
type Negatives struct {
	Kind     NegativeKind
	PerQuery int
	Seed     uint64
}

// Summary describes one distribution of scores. Quantiles and extremes are exact; extremes are numerical,
// whatever the metric, and carry their pair (query row, context row), the lowest on ties. Mean and Std
// (of the population) are within MeanError and StdError of the true ones; errors of 0 mean float64 sums
// in ref.Summarise's order. Of an empty distribution N and all numbers are 0 and the rows −1.
type Summary struct {
	N                   int64
	Min, Max, Mean, Std float64
	MeanError, StdError float64
	Quantiles           []float64 // parallel to Input.Quantiles
	// Low and High bound each quantile, whose value is then the middle of the two. They are nil unless Interval or
	// Missed is set.
	Low, High            []float64
	MinQuery, MinContext int32
	MaxQuery, MaxContext int32
}

// Way tells how a distribution was computed.
type Way struct {
	Device  string // what it ran on
	Choice  string // which device the shape, what is prepared and the measured costs speak for, and why
	Regions int    // blocks of contexts × queries packed one after the other; 1: all at once, 0: no block was packed
	Passes  int    // over all pairs by bounded kernels
	Spilled int64  // bytes of kept pairs and scores that went through a temporary file
	Reason  string // why canonical scores, regions or more than one pass were needed, or ""
}

// Result is what Engine.Distribution returns.
type Result struct {
	Positive []float64 // D+: score of each pseudo-query with its own context, in query order
	// Best and BestOther are the maximum distribution: each pseudo-query's best score over all contexts, and over the
	// contexts of other groups than its own context's (over other contexts when Group is nil). BestRow and
	// BestOtherRow give the row of the context, the lowest on ties. If there is no such context, the row is −1 and the
	// score is the metric's Worst().
	Best, BestOther                       []float64
	BestRow, BestOtherRow                 []int32
	PositiveSummary, NegativeSummary, Max Summary
	// NegativeHistogram counts D− in Bins equal bins from NegativeSummary.Min to Max; nil if Bins is 0.
	// A score closer to an edge than the pass's bound may be counted on the other side of it.
	NegativeHistogram []int64
	// Sample are the scores that Input.Sample asked for, ascending.
	Sample []float64
	// Separation is the probability that a positive is closer than a negative (P(D+ > D−); for L2,
	// P(D+ < D−)) over all pairs, ties counted half: the Mann–Whitney statistic, within SeparationError.
	// 0 if either is empty. Without Bins it comes from the counts between quantiles, and is coarse.
	Separation, SeparationError float64
	// DType is what D− was counted in: a kernels.DType, or "f64" where every score was canonical.
	DType string
	// Missed are the quantiles of D− whose rank lies outside the brackets of merged parts: NegativeSummary has
	// Low and High for them, and their middle. Nil otherwise.
	Missed []float64
	// Way tells how the work was done. Like Kept and Rechecked it varies with the memory limit.
	Way Way
	// Kept pairs lay in a bracket around a quantile or an extreme; Rechecked ones got canonical scores.
	// They tell of the work done, and unlike the rest vary with the memory limit.
	Kept, Rechecked int64
}

// Check returns an error if a list does not fit the vectors or an option is out of range. It stops early when ctx
// ends.
func (in *Input) Check(ctx context.Context) error {
	n, m := in.Contexts.Rows, in.Queries.Rows
	if n > math.MaxInt32 || m > math.MaxInt32 {
		return fmt.Errorf("engine: %w: %d contexts, %d queries; at most %d each", kernels.ErrShape, n, m, math.MaxInt32)
	}
	if len(in.Owner) != m {
		return fmt.Errorf("engine: %w: %d owners for %d queries", kernels.ErrShape, len(in.Owner), m)
	}
	for q, c := range in.Owner {
		if q%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if c < 0 || int(c) >= n {
			return fmt.Errorf("engine: owner of query %d: %w: context %d of %d", q, kernels.ErrArgument, c, n)
		}
	}
	if in.ContextIDs != nil && len(in.ContextIDs) != n || in.QueryIDs != nil && len(in.QueryIDs) != m {
		return fmt.Errorf("engine: %w: %d context ids for %d contexts, %d query ids for %d queries",
			kernels.ErrShape, len(in.ContextIDs), n, len(in.QueryIDs), m)
	}
	if in.Group != nil && len(in.Group) != n {
		return fmt.Errorf("engine: %w: %d groups for %d contexts", kernels.ErrShape, len(in.Group), n)
	}
	for _, p := range in.Quantiles {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("engine: quantile: %w: %v is not in [0, 1]", kernels.ErrArgument, p)
		}
	}
	if in.Bias != nil && (in.DType != nil || in.Interval || in.Checkpoint != "") {
		return fmt.Errorf("engine: bias: %w: scores with a bias are canonical: no format, no intervals, no checkpoint",
			kernels.ErrArgument)
	}
	if in.Bins < 0 || in.Sample < 0 {
		return fmt.Errorf("engine: bins: %w: %d, and a sample of %d", kernels.ErrArgument, in.Bins, in.Sample)
	}
	switch in.Negatives.Kind {
	case NegativesAll, NegativesCrossGroup:
	case NegativesSample:
		if in.Negatives.PerQuery < 1 {
			return fmt.Errorf("engine: negatives per query: %w: %d, at least 1", kernels.ErrArgument,
				in.Negatives.PerQuery)
		}
	default:
		return fmt.Errorf("engine: negatives: %w: kind %d", kernels.ErrArgument, in.Negatives.Kind)
	}
	return nil
}

// ContextID returns the id of a context row.
func (in *Input) ContextID(row int32) uint64 {
	if in.ContextIDs == nil {
		return uint64(row)
	}
	return in.ContextIDs[row]
}

// QueryID returns the id of a query row.
func (in *Input) QueryID(row int32) uint64 {
	if in.QueryIDs == nil {
		return uint64(row)
	}
	return in.QueryIDs[row]
}

// Lists returns the rows of the block; a row outside the input is kernels.ErrArgument.
func (b Block) Lists(in Input) (contexts, queries []int32, err error) {
	list := func(what string, r [2]int, given []int32, n int) []int32 {
		if given != nil {
			if k := slices.IndexFunc(given, func(row int32) bool { return row < 0 || int(row) >= n }); k >= 0 {
				err = fmt.Errorf("engine: block: %w: %s %d of %d", kernels.ErrArgument, what, given[k], n)
			}
			rows := slices.Clone(given)
			slices.Sort(rows)
			if len(slices.Compact(slices.Clone(rows))) < len(rows) {
				err = fmt.Errorf("engine: block: %w: %s that are there twice", kernels.ErrArgument, what)
			}
			return rows
		}
		if r[0] < 0 || r[1] < r[0] || r[1] > n {
			err = fmt.Errorf("engine: block: %w: %s %d to %d of %d", kernels.ErrArgument, what, r[0], r[1], n)
			return nil
		}
		rows := make([]int32, r[1]-r[0])
		for i := range rows {
			rows[i] = int32(r[0] + i)
		}
		return rows
	}
	contexts = list("contexts", b.Contexts, b.ContextRows, in.Contexts.Rows)
	queries = list("queries", b.Queries, b.QueryRows, in.Queries.Rows)
	return contexts, queries, err
}

// Whole is an input that nobody needs to hold at once: contexts and queries are numbered from 0.
type Whole struct {
	Contexts int64  `json:"contexts"`
	Queries  int64  `json:"queries"`
	Digest   string `json:"digest,omitempty"` // of all vectors, owners and groups, as the caller likes
}
