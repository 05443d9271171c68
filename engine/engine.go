// Package engine computes over sets of vectors: matrices, top-k, the calibration distributions and
// the gate's threshold decision. It cuts the work into tiles, runs them on goroutines within the
// process's CPU budget (engine/cores) and returns results that are exact: bit-equal to the naive
// algorithm on canonical scores (docs/adr/0001-exactness.md), whatever the tiling, threads or instruction set.
// What is bounded instead says so, and carries its bound.
package engine

import (
	"context"
	"log/slog"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
)

// What operations work on. A set of vectors, biases of rows and a found row belong to the whole project.
type (
	Vectors  = kernels.Vectors
	Biases   = kernels.Biases
	BiasList = kernels.BiasList
	Bias     = kernels.Bias
	RowBlock = kernels.RowBlock
	Hit      = kernels.Hit
)

// Options of an Engine. The zero value is a sensible default.
type Options struct {
	Threads  int                     // goroutines at most; 0 = what Cores grants
	MemLimit int64                   // bytes of scratch memory; 0 = 1 GiB. Less than one tile is kernels.ErrMemoryLimit
	ISA      string                  // "", "scalar", "avx2", "avx512"; "" = $SLUICE_ISA, else the best of the machine
	TileRows int                     // rows per tile, 0 = chosen
	Progress func(done, total int64) // called from one goroutine at a time, in pairs; may be nil
	Cores    *cores.Budget           // the process's CPU budget; nil = one of its own, of cores.Available()

	// Device is what operations run on: "" and "auto" choose for each of them by measured costs, and look for a GPU
	// only when there is enough to compute; "cpu"; "cuda" for all NVIDIA GPUs, "cuda:1" for the second: where that
	// cannot be had, New is ErrDevice. "" is $SLUICE_DEVICE first. No result depends on it.
	Device       string
	DeviceMemory int64        // bytes of each GPU's memory at most; 0 = 90 % of what is free
	Logger       *slog.Logger // told which GPU is used, and where its memory does not do; nil: nobody
}

// Interface is what the rest of Sluice uses of an engine; *Engine implements it. Wherever vectors are asked for, those
// of a prepared set (Engine.Prepare, Set.Vectors) do as well.
type Interface interface {
	// Matrix writes S[i*B.Rows+j] = score(A_i, B_j), rounded to float32, to out (len A.Rows*B.Rows).
	// A product beyond float32 becomes ±Inf. After an error, out holds nothing of use.
	Matrix(ctx context.Context, out []float32, a, b Vectors, metric kernels.Metric) error
	// TopK returns for each row of q the k ≥ 1 best rows of c, better first, then lower row. bias is
	// nil or has the biases of each query. Fewer than k rows give fewer hits.
	TopK(ctx context.Context, q, c Vectors, metric kernels.Metric, k int, bias []Biases) ([][]Hit, error)
	// Distribution computes D+, D− and the maximum distribution; it never holds all pairs.
	Distribution(ctx context.Context, in DistributionInput) (*Distribution, error)
	// Max returns the best row of c for one query; ok is false when c is empty.
	Max(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases) (best Hit, ok bool, err error)
	// AnyAbove reports whether any row's biased score is strictly better than tau, with a witness: any
	// such row (this version takes the lowest). It stops at the witness, so what lies behind it is
	// neither read nor checked. Without one the witness is {−1, Worst()}.
	AnyAbove(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases, tau float64) (witness Hit,
		above bool, err error)
}
