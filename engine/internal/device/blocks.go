package device

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

const (
	// TileWork is the multiply-adds of a task: 0.3 ms with AVX-512, 3 ms with SSE2, so that
	// cancellation and hand-over of cores come soon and scheduling costs nothing.
	TileWork = 8 << 20
	// panelBytes is what a block of contexts may take of the second-level cache.
	panelBytes = 512 << 10
)

// Blocks is how an operation on canonical scores is cut: blocks of queries × contexts, contexts in spans of
// blocks per task.
type Blocks struct {
	Queries, Contexts int // rows per block
	Span              int // blocks of contexts per task
	Workers           int
}

// Plan chooses the blocks for m × n pairs and as many workers as the memory limit has scratch for.
// fixed is what the operation needs besides, perWorker per worker besides its block, in bytes.
func (r *Resources) Plan(m, n, dim int, fixed, perWorker int64) (Blocks, error) {
	p := Blocks{Contexts: workers.Clamp(panelBytes/4/dim, 16, 1024)}
	p.Queries = workers.Clamp(TileWork/(p.Contexts*dim), 8, 128)
	p.Queries = min(p.Queries, max(1, workers.Ceil(m, r.Pool.Threads)))
	if r.TileRows > 0 {
		p.Queries, p.Contexts = r.TileRows, r.TileRows
	}
	p.Queries, p.Contexts = min(p.Queries, m), min(p.Contexts, n)
	free := r.MemLimit - fixed
	for p.Bytes()+perWorker > free {
		switch {
		case r.TileRows == 0 && p.Queries > 8:
			p.Queries /= 2
		case r.TileRows == 0 && p.Contexts > 16:
			p.Contexts /= 2
		default:
			return p, fmt.Errorf("engine: %w: %d bytes; %d×%d vectors of dimension %d need at least %d",
				kernels.ErrMemoryLimit, r.MemLimit, m, n, dim, fixed+perWorker+p.Bytes())
		}
	}
	p.Span = max(1, TileWork/(p.Queries*p.Contexts*dim))
	p.Workers = int(min(int64(r.Pool.Threads), free/(p.Bytes()+perWorker)))
	return p, nil
}

// Bytes returns the scratch of one worker: scores and norms of a block.
func (p Blocks) Bytes() int64 { return 8 * (int64(p.Queries)*int64(p.Contexts) + int64(p.Contexts)) }

// Scorer computes blocks of canonical scores in scratch memory of its own.
type Scorer struct {
	r      *Resources
	metric kernels.Metric
	scores []float64
	norms  []float64
	biases []float32
}

// Block returns the scores of q's rows [q0, q1), which is ready, against c's rows [c0, c1): row i's
// begin at i·(c1−c0). Where c is not ready, its rows are checked first.
func (s *Scorer) Block(q, c *Operand, q0, q1, c0, c1 int) ([]float64, error) {
	right, width := c.Slice(c0, c1), c1-c0
	if !c.Ready {
		if err := s.r.CheckFinite(c, c0, c1); err != nil {
			return nil, err
		}
		if s.metric == kernels.Cosine {
			if err := scores.Norms(s.r.Host, s.norms, right); err != nil {
				return nil, err
			}
			right.Norms = s.norms[:width]
		}
	}
	out := s.scores[:(q1-q0)*width]
	if err := s.r.Scores(s.metric, out, width, q.Slice(q0, q1), right); err != nil {
		return nil, err
	}
	return out, nil
}

// AddBiases adds the biases of the rows from c0 on to their scores.
func (s *Scorer) AddBiases(scores []float64, biases kernels.Biases, c0 int) error {
	if biases != nil && s.biases == nil {
		s.biases = make([]float32, MaxBlock)
	}
	return AddBiases(scores, s.metric, biases, c0, s.biases)
}

// Scorers hands each worker its own scorer, made when it first asks.
type Scorers struct {
	r      *Resources
	p      Blocks
	metric kernels.Metric
	of     []*Scorer
}

// Scorers makes room for the plan's workers.
func (r *Resources) Scorers(p Blocks, metric kernels.Metric) *Scorers {
	return &Scorers{r, p, metric, make([]*Scorer, p.Workers)}
}

// Get returns a worker's.
func (s *Scorers) Get(worker int) *Scorer {
	if s.of[worker] == nil {
		s.of[worker] = &Scorer{r: s.r, metric: s.metric, scores: make([]float64, s.p.Queries*s.p.Contexts),
			norms: make([]float64, s.p.Contexts)}
	}
	return s.of[worker]
}

// Grid calls fn for each block of the plan: one task is a block of queries × a span of blocks of
// contexts, which fn sees in order.
func (r *Resources) Grid(ctx context.Context, p Blocks, m, n int, fn func(worker, q0, q1, c0, c1 int) error) error {
	step := p.Span * p.Contexts
	columns := workers.Ceil(n, step)
	return r.Pool.Each(ctx, workers.Ceil(m, p.Queries)*columns, p.Workers, func(worker, task int) error {
		q0 := task / columns * p.Queries
		q1 := min(m, q0+p.Queries)
		from := task % columns * step
		for c0 := from; c0 < min(n, from+step); c0 += p.Contexts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(worker, q0, q1, c0, min(n, c0+p.Contexts)); err != nil {
				return err
			}
		}
		return nil
	})
}

// MaxBlock is the length of a block of biases at most.
const MaxBlock = 1024

// CheckBias refuses a list that is not strictly ascending by row, out of range, negative or no number. Other
// biases are checked when they are read.
func CheckBias(ctx context.Context, query int, biases kernels.Biases, rows int) error {
	list, _ := biases.(kernels.BiasList)
	before := -1
	for i, b := range list {
		if i%workers.Stretch == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if b.Row <= before || b.Row >= rows || !(b.Value >= 0 && b.Value <= math.MaxFloat64) {
			return refuse(query, i, b, before, rows)
		}
		before = b.Row
	}
	return nil
}

// refuse says what is wrong with entry i of a list, which comes after the row before.
func refuse(query, i int, b kernels.Bias, before, rows int) error {
	switch {
	case b.Row < 0 || b.Row >= rows:
		return fmt.Errorf("engine: bias %d of query %d: %w: row %d of %d rows", i, query, kernels.ErrArgument, b.Row,
			rows)
	case b.Row <= before:
		return fmt.Errorf("engine: bias %d of query %d: %w: row %d after row %d; sort by row, each at most once",
			i, query, kernels.ErrArgument, b.Row, before)
	case math.IsNaN(b.Value) || math.IsInf(b.Value, 0):
		return fmt.Errorf("engine: bias %d of query %d: %w: %v", i, query, kernels.ErrNonFinite, b.Value)
	}
	return fmt.Errorf("engine: bias %d of query %d: %w: %v is negative", i, query, kernels.ErrArgument, b.Value)
}

// ReadBias reads the biases of a block into out, which has its length, checks them and returns the largest.
func ReadBias(biases kernels.Biases, b kernels.RowBlock, out []float32) (largest float32, err error) {
	clear(out)
	if err := biases.Read(b, out); err != nil {
		return 0, err
	}
	highest := uint32(0) // floats that are not negative are ordered like their bits, and all others have more
	for _, v := range out {
		highest = max(highest, math.Float32bits(v))
	}
	if highest < math.Float32bits(float32(math.Inf(1))) {
		return math.Float32frombits(highest), nil
	}
	for i, v := range out {
		switch {
		case math.IsNaN(float64(v)) || math.IsInf(float64(v), 0):
			return 0, fmt.Errorf("engine: bias of row %d: %w: %v", b.Row(i), kernels.ErrNonFinite, v)
		case v < 0:
			return 0, fmt.Errorf("engine: bias of row %d: %w: %v is negative", b.Row(i), kernels.ErrArgument, v)
		}
		largest = max(largest, v)
	}
	return largest, nil // there is a −0
}

// AddBiases adds the biases of the rows from first on to their scores. It reads into scratch, of MaxBlock, unless
// they are a list.
func AddBiases(scores []float64, metric kernels.Metric, biases kernels.Biases, first int, scratch []float32) error {
	if biases == nil {
		return nil
	}
	if list, ok := biases.(kernels.BiasList); ok {
		for _, b := range list.Between(first, first+len(scores)) {
			scores[b.Row-first] = metric.Biased(scores[b.Row-first], b.Value)
		}
		return nil
	}
	for len(scores) > 0 {
		n := min(len(scores), MaxBlock)
		if _, err := ReadBias(biases, kernels.RowBlock{Number: -1, First: first, Len: n}, scratch[:n]); err != nil {
			return err
		}
		for i, b := range scratch[:n] {
			scores[i] = metric.Biased(scores[i], float64(b))
		}
		scores, first = scores[n:], first+n
	}
	return nil
}
