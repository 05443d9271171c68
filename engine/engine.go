// Package engine computes over sets of vectors: matrices, top-k, the calibration distributions and
// the gate's threshold decision. It cuts the work into tiles, runs them on goroutines within the
// process's CPU budget (engine/cores) and returns results that are exact: bit-equal to the naive
// algorithm on canonical scores (docs/adr: exactness), whatever the tiling, threads or instruction set.
// What is bounded instead says so, and carries its bound.
package engine

import (
	"context"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
)

// Vectors is a view of Rows vectors of Dim float32 each; row i is Data[i*Stride : i*Stride+Dim].
// A Stride of 0 means Dim. The engine never writes to Data. No rows are an empty set, whose other
// fields are not looked at; every operation has a natural result for it. Values that are NaN or
// infinite are refused (kernels.ErrNonFinite, naming row and column).
type Vectors struct {
	Data              []float32
	Rows, Dim, Stride int
}

// Bias adds Value ≥ 0 to the closeness of context Row (kernels.Metric.Biased). A list of them is
// sorted by Row, each row at most once; rows not listed have bias 0.
type Bias struct {
	Row   int
	Value float64
}

// Hit is a row of the searched set and its canonical (biased) score.
type Hit struct {
	Row   int
	Score float64
}

// Options of an Engine. The zero value is a sensible default.
type Options struct {
	Threads  int                     // goroutines at most; 0 = what Cores grants
	MemLimit int64                   // bytes of scratch memory; 0 = 1 GiB. Less than one tile is kernels.ErrMemoryLimit
	ISA      string                  // "", "scalar", "avx2", "avx512"; "" = $SLUICE_ISA, else the best of the machine
	TileRows int                     // rows per tile, 0 = chosen
	Progress func(done, total int64) // called from one goroutine at a time, in pairs; may be nil
	Cores    *cores.Budget           // the process's CPU budget; nil = one of its own, of cores.Available()
}

// DistributionInput is what calibration compares: contexts C, pseudo-queries Q, for each
// pseudo-query the row of its own context, and for each context a group (topic, document).
type DistributionInput struct {
	Contexts, Queries Vectors
	Owner             []int32 // len Queries.Rows; row of Contexts
	Group             []int32 // len Contexts.Rows, or nil when all are in one group
	Metric            kernels.Metric
	Negatives         Negatives
	Quantiles         []float64 // in [0,1]; type 7 (Hyndman & Fan 1996), computed for each distribution
	// Bins > 0 asks for a histogram of D− with that many equal bins between its exact minimum and
	// maximum (for plots), and for a Separation as narrow as its cells.
	Bins int

	// DType is the number format of the bounded pass; nil = chosen by the engine: bf16x3 where the
	// instruction set has it, else f32. One that it lacks is kernels.ErrISA. It changes the speed and
	// the bounds, never an exact result.
	DType *kernels.DType
	// Interval takes the quantiles of D− as [Low, High] straight from the bounded pass, without canonical
	// scores: narrower than 1/4096 of the range of scores with f32 and bf16x3.
	Interval bool
	// Checkpoint, if not empty, is a file that finished tasks are appended to. Called again with the
	// same input, Distribution goes on where it was stopped, with the same result; after success the
	// file is removed. A file of another input is ErrCheckpoint and left alone.
	Checkpoint string
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
	N                    int64
	Min, Max, Mean, Std  float64
	MeanError, StdError  float64
	Quantiles            []float64 // parallel to DistributionInput.Quantiles
	Low, High            []float64 // with Interval: bounds of each quantile, which is then their middle; else nil
	MinQuery, MinContext int32
	MaxQuery, MaxContext int32
}

// Distribution is the result of Engine.Distribution.
type Distribution struct {
	Positive []float64 // D+: score of each pseudo-query with its own context, in query order
	// Best and BestOther are the maximum distribution: each pseudo-query's best score over all
	// contexts, and over the contexts of other groups than its own context's (over other contexts
	// when Group is nil). BestRow and BestOtherRow name the context, the lowest on ties; −1 where
	// there is none, with the metric's Worst() as score.
	Best, BestOther                       []float64
	BestRow, BestOtherRow                 []int32
	PositiveSummary, NegativeSummary, Max Summary
	// NegativeHistogram counts D− in Bins equal bins from NegativeSummary.Min to Max; nil if Bins is 0.
	// A score closer to an edge than the pass's bound may be counted on the other side of it.
	NegativeHistogram []int64
	// Separation is the probability that a positive is closer than a negative (P(D+ > D−); for L2,
	// P(D+ < D−)) over all pairs, ties counted half: the Mann–Whitney statistic, within SeparationError.
	// 0 if either is empty. Without Bins it comes from the counts between quantiles, and is coarse.
	Separation, SeparationError float64
	// DType is what D− was counted in: a kernels.DType, or "f64" where every score was canonical.
	DType string
	// Kept pairs lay in a bracket around a quantile or an extreme; Rechecked ones got canonical scores.
	// They tell of the work done, and unlike the rest vary with the memory limit.
	Kept, Rechecked int64
}

// Interface is what the rest of Sluice uses of an engine; *Engine implements it.
type Interface interface {
	// Matrix writes S[i*B.Rows+j] = score(A_i, B_j), rounded to float32, to out (len A.Rows*B.Rows).
	// A product beyond float32 becomes ±Inf. After an error, out holds nothing of use.
	Matrix(ctx context.Context, out []float32, a, b Vectors, metric kernels.Metric) error
	// TopK returns for each row of q the k ≥ 1 best rows of c, better first, then lower row. bias is
	// nil or has one sorted list per query. Fewer than k rows give fewer hits.
	TopK(ctx context.Context, q, c Vectors, metric kernels.Metric, k int, bias [][]Bias) ([][]Hit, error)
	// Distribution computes D+, D− and the maximum distribution; it never holds all pairs.
	Distribution(ctx context.Context, in DistributionInput) (*Distribution, error)
	// Max returns the best row of c for one query; ok is false when c is empty.
	Max(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias []Bias) (best Hit, ok bool, err error)
	// AnyAbove tells whether any row's biased score is strictly better than tau, with a witness: any
	// such row (this version takes the lowest). It stops at the witness, so what lies behind it is
	// neither read nor checked. Without one the witness is {−1, Worst()}.
	AnyAbove(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias []Bias, tau float64) (witness Hit, above bool, err error)
}
