package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/matrixfile"
	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/kernels"
)

// matrixJob scores two files in blocks that fit the memory limit: half of it is for the engine, a quarter for the block
// of results, and an eighth each for the converted rows of both files. Rows that need no conversion stay in the
// mapping, whose pages the system may drop at any time.
type matrixJob struct {
	a, b   *matrixfile.Source
	engine *engine.Engine
	metric kernels.Metric
	dtype  kernels.DType
	exact  bool
	topK   int
	limit  int64

	task  *progress.Task
	done  int64   // pairs of finished blocks
	bound float64 // of the blocks so far
}

// shapes checks that the two files fit each other.
func (j *matrixJob) shapes() error {
	a, b := j.a, j.b
	for _, s := range []*matrixfile.Source{a, b} {
		if s.Rows > 0 && s.Dim == 0 {
			return fmt.Errorf("%s: %w: %d rows of dimension 0", s.Path, kernels.ErrShape, s.Rows)
		}
	}
	if a.Rows > 0 && b.Rows > 0 && a.Dim != b.Dim {
		return fmt.Errorf("%w: the rows of %s have dimension %d, those of %s %d", kernels.ErrShape, a.Path, a.Dim,
			b.Path, b.Dim)
	}
	if b.Rows > 0 && a.Rows > math.MaxInt64/8/b.Rows {
		return fmt.Errorf("%w: %d × %d pairs", kernels.ErrShape, a.Rows, b.Rows)
	}
	return nil
}

// hits returns how many rows --topk keeps.
func (j *matrixJob) hits() int { return min(j.topK, j.b.Rows) }

func (j *matrixJob) arrays() []matrixfile.Array {
	if j.topK == 0 {
		return []matrixfile.Array{{Name: "scores", DType: "F32", Rows: j.a.Rows, Cols: j.b.Rows}}
	}
	return []matrixfile.Array{
		{Name: "ids", DType: "I64", Rows: j.a.Rows, Cols: j.hits()},
		{Name: "scores", DType: "F64", Rows: j.a.Rows, Cols: j.hits()},
	}
}

// plan returns the rows of A and of B per block.
func (j *matrixJob) plan() (rows, cols int, err error) {
	perRow := 4*int64(j.a.Dim) + 256 // a converted or packed row, and the engine's data about it
	fits := j.limit / 8 / perRow
	pairs := j.limit / 4 / 4
	if j.topK > 0 {
		fits = min(fits, j.limit/8/(64*int64(max(1, j.hits())))) // hits of a block, and of the blocks before it
	}
	if fits < 1 {
		need := max(perRow, 64*int64(j.hits())) * 8
		return 0, 0,
			fmt.Errorf("%w: %d MiB; rows of dimension %d and %d hits need at least %d MiB", kernels.ErrMemoryLimit,
				j.limit>>20, j.a.Dim, j.hits(), (need+1<<20-1)>>20)
	}
	m, n := int64(max(1, j.a.Rows)), int64(max(1, j.b.Rows))
	if j.topK > 0 {
		return int(min(m, fits)), int(min(n, j.columns(fits))), nil
	}
	// Whole rows if 1024 of them fit, because they are written with one call.
	cols64 := min(n, fits, max(1, pairs/min(m, 1024)))
	return int(min(m, fits, pairs/cols64)), int(cols64), nil
}

// columns returns how many rows of B one search takes: mapped rows cost only 8 bytes each, for the norm.
func (j *matrixJob) columns(fits int64) int64 {
	if j.b.Direct() {
		return max(1, j.limit/64)
	}
	return fits
}

// buffer allocates space for converted rows.
func buffer(s *matrixfile.Source, rows int) []float32 {
	if s.Direct() {
		return nil
	}
	return make([]float32, rows*s.Dim)
}

func vectors(s *matrixfile.Source, from, to int, buf []float32) (engine.Vectors, error) {
	data, err := s.Block(from, to, buf)
	return engine.Vectors{Data: data, Rows: to - from, Dim: s.Dim}, err
}

// run computes all blocks and writes them to the sink.
func (j *matrixJob) run(ctx context.Context, sink *matrixfile.Sink) error {
	rows, cols, err := j.plan()
	if err != nil {
		return err
	}
	left, right := buffer(j.a, rows), buffer(j.b, cols)
	var out []float32
	if j.topK == 0 {
		out = make([]float32, rows*cols)
	}
	for i0 := 0; i0 < j.a.Rows; i0 += rows {
		i1 := min(j.a.Rows, i0+rows)
		a, err := vectors(j.a, i0, i1, left)
		if err != nil {
			return err
		}
		best := make([][]engine.Hit, i1-i0)
		for j0 := 0; j0 < j.b.Rows; j0 += cols {
			j1 := min(j.b.Rows, j0+cols)
			b, err := vectors(j.b, j0, j1, right)
			if err != nil {
				return err
			}
			if j.topK > 0 {
				err = j.search(ctx, best, a, b, j0)
			} else {
				err = j.score(ctx, sink, out[:a.Rows*b.Rows], a, b, i0, j0)
			}
			if err != nil {
				return j.locate(err, i0, i1, j0, j1)
			}
			j.done += int64(a.Rows) * int64(b.Rows)
		}
		if j.topK > 0 {
			if err := j.put(sink, best, i0); err != nil {
				return err
			}
		}
	}
	if j.a.Rows > 0 && j.b.Rows > 0 {
		return nil
	}
	return j.locate(nil, 0, j.a.Rows, 0, j.b.Rows) // rows that no block has looked at: the other file is empty
}

func (j *matrixJob) score(
	ctx context.Context, sink *matrixfile.Sink, out []float32, a, b engine.Vectors, i0, j0 int,
) error {
	if j.exact {
		if err := j.engine.Matrix(ctx, out, a, b, j.metric); err != nil {
			return err
		}
	} else {
		bound, err := j.engine.BoundedMatrix(ctx, out, b.Rows, a, b, j.metric, j.dtype)
		if err != nil {
			return err
		}
		j.bound = max(j.bound, bound)
	}
	if err := j.finite(out, b.Rows, i0, j0); err != nil {
		return err
	}
	const atOnce = 2 << 20 // values per write, so that an interrupt does not wait for a slow disk
	for step, i := max(1, atOnce/b.Rows), 0; i < a.Rows; i += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := matrixfile.Put(sink, 0, i0+i, j0, out[i*b.Rows:min(a.Rows, i+step)*b.Rows], b.Rows); err != nil {
			return err
		}
	}
	return nil
}

// finite returns an error for a score of a block that float32 cannot hold; columns is the block's width, i0 and j0 its
// first rows.
func (j *matrixJob) finite(out []float32, columns, i0, j0 int) error {
	if j.metric == kernels.Cosine { // never above 1
		return nil
	}
	for k, x := range out {
		if x-x != 0 { // infinite, or not a number
			return fmt.Errorf("%w: the %s of row %d of %s and row %d of %s is more than float32 can hold; scale the "+
				"rows, or compare them by cosine", kernels.ErrNonFinite, j.metric, i0+k/columns, j.a.Path, j0+k%columns,
				j.b.Path)
		}
	}
	if j.bound > math.MaxFloat32 {
		return fmt.Errorf("%w: rows as large as these (%s, %s) leave no bound on the error of %s; use --dtype exact",
			kernels.ErrNonFinite, j.a.Path, j.b.Path, j.dtype)
	}
	return nil
}

// search merges the hits of a block of B, whose first row is j0, into best.
func (j *matrixJob) search(ctx context.Context, best [][]engine.Hit, a, b engine.Vectors, j0 int) error {
	hits, err := j.engine.TopK(ctx, a, b, j.metric, j.topK, nil)
	if err != nil {
		return err
	}
	for i, found := range hits {
		for k := range found {
			found[k].Row += j0
		}
		merged := append(best[i], found...)
		slices.SortStableFunc(merged, func(x, y engine.Hit) int { // the rows are already in ascending order
			switch {
			case j.metric.Better(x.Score, y.Score):
				return -1
			case j.metric.Better(y.Score, x.Score):
				return 1
			}
			return 0
		})
		best[i] = slices.Clip(merged[:min(len(merged), j.topK)])
	}
	return nil
}

// put writes the hits of the rows from i0 on.
func (j *matrixJob) put(sink *matrixfile.Sink, best [][]engine.Hit, i0 int) error {
	n := j.hits()
	ids, scores := make([]int64, 0, len(best)*n), make([]float64, 0, len(best)*n)
	for _, hits := range best {
		for _, h := range hits {
			ids, scores = append(ids, int64(h.Row)), append(scores, h.Score)
		}
	}
	return errors.Join(matrixfile.Put(sink, 0, i0, 0, ids, n), matrixfile.Put(sink, 1, i0, 0, scores, n))
}

// locate converts the engine's error about a row of a block to one about a row of a file.
func (j *matrixJob) locate(err error, i0, i1, j0, j1 int) error {
	if err != nil && !errors.Is(err, kernels.ErrNonFinite) {
		return err
	}
	for _, block := range []struct {
		s        *matrixfile.Source
		from, to int
	}{{j.a, i0, i1}, {j.b, j0, j1}} {
		row, col, value, found := block.s.NonFinite(block.from, block.to)
		switch {
		case found && math.Abs(value) <= math.MaxFloat64:
			return fmt.Errorf("%s: %w: row %d, column %d is %v, which float32 cannot hold", block.s.Path,
				kernels.ErrNonFinite, row, col, value)
		case found:
			return fmt.Errorf("%s: %w: row %d, column %d is %v", block.s.Path, kernels.ErrNonFinite, row, col, value)
		}
	}
	return err
}

// progress reports the pairs of the running block and those before it.
func (j *matrixJob) progress(done, _ int64) {
	j.task.Set(j.done+done, int64(j.a.Rows)*int64(j.b.Rows))
}
