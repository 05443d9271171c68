package engine

import (
	"context"

	"github.com/sluice-rag/sluice/engine/internal/index"
	"github.com/sluice-rag/sluice/kernels"
)

// IndexOptions say how an index is built. The zero value is a sensible default.
type IndexOptions struct {
	Clusters int    // groups of similar rows, searched nearest first; 0 = √rows, at most 1,024
	Seed     uint64 // of the samples that rotation and clusters are learned from; no result depends on it
}

// IndexStats describe an index.
type IndexStats struct {
	Rows, Deleted int // rows ever added, and how many of them are deleted
	Unclustered   int // rows appended after the clusters and the rotation were learned: valid, found later
	Plain         int // rows without codes, which every query reads in full
	Clusters      int // groups of similar rows
	Chunks        int // pieces of at most 1,024 rows that are read or skipped together
	Dim           int
	Bytes         int64  // of the index, without the caller's vectors
	Kernel        string // of the scan
	Reason        string // why there are no codes, or ""
}

// Decision is AnyAboveAll's answer for one query: whether any row is above, with a witness, else
// {−1, Worst()}; and how many rows needed their canonical score.
type Decision struct {
	Hit
	Above     bool
	Survivors int64
}

// Index answers Max, AnyAbove and TopK over a fixed or growing set of rows while reading a fraction
// of them: low-precision codes bound every score from above (from below for l2), what the bound
// cannot rule out gets its canonical score. So results are those of the Engine's operations of the
// same name, bit for bit; only AnyAbove's witness is any row above instead of the lowest.
//
// Rows are numbered in the order of adding, from 0; a deleted row's number is not used again. The
// index keeps the vectors it was given by reference: they must not change while it is in use. All
// methods may be called at the same time; a query sees the rows of the moment it began.
type Index struct{ x *index.Index }

// Index prepares c for searching. An empty c is fine: Append can come later, and the first rows that
// do come decide the clusters and the rotation.
func (e *Engine) Index(ctx context.Context, c Vectors, metric kernels.Metric, o IndexOptions) (*Index, error) {
	x, err := index.New(ctx, &e.r, c, metric, index.Options{Clusters: o.Clusters, Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	return &Index{x}, nil
}

// Rows is the number of rows ever added; valid row numbers are below it.
func (x *Index) Rows() int { return x.x.Rows() }

// Describe tells what the index holds and runs on.
func (x *Index) Describe() IndexStats { return IndexStats(x.x.Describe()) }

// Append adds rows behind the others, by reference. They keep all answers exact, but lie in chunks of
// their own and use the rotation learned before: when Unclustered is a large share of Rows, a new index
// is faster. Non-finite values are refused, and then nothing is added.
func (x *Index) Append(ctx context.Context, v Vectors) error { return x.x.Append(ctx, v) }

// Delete takes a row out of all later answers. Deleting it again does nothing.
func (x *Index) Delete(row int) error { return x.x.Delete(row) }

// Blocks lists all rows in blocks of at most 1,024, near rows together. These are the blocks whose biases a search
// reads: who computes biases from lists of rows (postings) does so fastest if those are in this order. A block with a
// number keeps it and its rows for good. Those without, and rows appended later, join new ones as more rows come.
func (x *Index) Blocks() []RowBlock { return x.x.Blocks() }

// Max returns the best row; ok is false when there is none. See Interface.Max.
func (x *Index) Max(ctx context.Context, q []float32, bias Biases) (best Hit, ok bool, err error) {
	return x.x.Max(ctx, q, bias)
}

// AnyAbove tells whether any row's biased score is strictly better than tau, with a witness: any such
// row. See Interface.AnyAbove.
func (x *Index) AnyAbove(ctx context.Context, q []float32, bias Biases, tau float64) (Hit, bool, error) {
	return x.x.AnyAbove(ctx, q, bias, tau)
}

// TopK returns for each query the k ≥ 1 best rows, better first, then lower row. See Interface.TopK.
func (x *Index) TopK(ctx context.Context, queries Vectors, k int, bias []Biases) ([][]Hit, error) {
	return x.x.TopK(ctx, queries, k, bias)
}

// MaxAll returns each query's best row; {−1, Worst()} where there is none.
func (x *Index) MaxAll(ctx context.Context, queries Vectors, bias []Biases) ([]Hit, error) {
	return x.x.MaxAll(ctx, queries, bias)
}

// AnyAboveAll decides for each query whether any row's biased score is strictly better than tau.
// The queries share the reads.
func (x *Index) AnyAboveAll(ctx context.Context, queries Vectors, bias []Biases, tau float64) ([]Decision, error) {
	found, err := x.x.AnyAboveAll(ctx, queries, bias, tau)
	if err != nil {
		return nil, err
	}
	out := make([]Decision, len(found))
	for i, d := range found {
		out[i] = Decision(d)
	}
	return out, nil
}
