package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
)

// Matrix implements Interface.
func (e *Engine) Matrix(ctx context.Context, out []float32, a, b Vectors, metric kernels.Metric) error {
	left, right, err := views("a", a, "b", b, metric)
	if err != nil {
		return err
	}
	if b.Rows > 0 && a.Rows > math.MaxInt/b.Rows || len(out) != a.Rows*b.Rows {
		return fmt.Errorf("engine: matrix: %w: %d×%d scores into %d values", kernels.ErrShape, a.Rows, b.Rows, len(out))
	}
	if err := e.prepareBoth(ctx, &left, &right, metric); err != nil || len(out) == 0 {
		return err
	}
	p, err := e.plan(left.N, right.N, left.Dim, 8*int64(left.N+right.N), 0)
	if err != nil {
		return err
	}
	work, progress := e.scorers(p, metric), e.meter(int64(len(out)))
	return e.grid(ctx, p, left.N, right.N, func(worker, i0, i1, j0, j1 int) error {
		scores, err := work.get(worker).block(&left, &right, i0, i1, j0, j1)
		if err != nil {
			return err
		}
		for i := i0; i < i1; i++ {
			row := out[i*right.N+j0 : i*right.N+j1]
			for j, s := range scores[(i-i0)*(j1-j0):][:j1-j0] {
				row[j] = float32(s)
			}
		}
		progress.add(len(scores))
		return nil
	})
}

func (e *Engine) prepareBoth(ctx context.Context, a, b *operand, metric kernels.Metric) error {
	if err := e.prepare(ctx, a, metric); err != nil {
		return err
	}
	return e.prepare(ctx, b, metric)
}

// TopK implements Interface.
func (e *Engine) TopK(ctx context.Context, q, c Vectors, metric kernels.Metric, k int, bias [][]Bias) ([][]Hit, error) {
	queries, contexts, err := views("queries", q, "contexts", c, metric)
	if err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fmt.Errorf("engine: k: %w: %d, at least 1", kernels.ErrArgument, k)
	}
	if bias == nil {
		bias = make([][]Bias, q.Rows)
	}
	if len(bias) != q.Rows {
		return nil, fmt.Errorf("engine: %w: %d bias lists for %d queries", kernels.ErrShape, len(bias), q.Rows)
	}
	for i, list := range bias {
		if err := checkBias(i, list, c.Rows); err != nil {
			return nil, err
		}
	}
	hits, err := e.topK(ctx, &queries, &contexts, metric, k, bias)
	if err != nil {
		return nil, err
	}
	return hits, nil
}

func (e *Engine) topK(ctx context.Context, q, c *operand, metric kernels.Metric, k int, bias [][]Bias) ([][]Hit, error) {
	if err := e.prepare(ctx, q, metric); err != nil {
		return nil, err
	}
	hits := make([][]Hit, q.N)
	if q.N == 0 || c.N == 0 {
		return hits, e.prepare(ctx, c, metric)
	}
	p, err := e.plan(q.N, c.N, q.Dim, 8*int64(q.N+c.N), 0)
	if err != nil {
		return nil, err
	}
	if q.N > p.queries { // contexts are visited more than once: check them and take their norms once
		if err := e.prepare(ctx, c, metric); err != nil {
			return nil, err
		}
	}
	work, progress := e.scorers(p, metric), e.meter(int64(q.N)*int64(c.N))
	locks := make([]sync.Mutex, ceil(q.N, p.queries))
	err = e.grid(ctx, p, q.N, c.N, func(worker, q0, q1, c0, c1 int) error {
		scores, err := work.get(worker).block(q, c, q0, q1, c0, c1)
		if err != nil {
			return err
		}
		lock, width := &locks[q0/p.queries], c1-c0
		lock.Lock()
		for i := q0; i < q1; i++ {
			row := scores[(i-q0)*width:][:width]
			applyBias(row, bias[i], c0, metric)
			hits[i] = selectBest(hits[i], row, c0, metric, k)
		}
		lock.Unlock()
		progress.add(len(scores))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, h := range hits {
		sort.Slice(h, func(i, j int) bool { return closer(metric, h[i], h[j]) })
	}
	return hits, nil
}

// Max implements Interface.
func (e *Engine) Max(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias []Bias) (best Hit, ok bool, err error) {
	none := Hit{Row: -1, Score: metric.Worst()}
	query, contexts, err := single(q, c, metric, bias)
	if err != nil {
		return none, false, err
	}
	hits, err := e.topK(ctx, &query, &contexts, metric, 1, [][]Bias{bias})
	if err != nil || len(hits[0]) == 0 {
		return none, false, err
	}
	return hits[0][0], true, nil
}

// witness ends AnyAbove's run the way an error would: the one of the lowest task wins.
type witness Hit

func (witness) Error() string { return "found" }

// AnyAbove implements Interface.
func (e *Engine) AnyAbove(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias []Bias, tau float64) (Hit, bool, error) {
	none := Hit{Row: -1, Score: metric.Worst()}
	query, contexts, err := single(q, c, metric, bias)
	if err == nil && math.IsNaN(tau) {
		err = fmt.Errorf("engine: tau: %w: NaN", kernels.ErrNonFinite)
	}
	if err == nil {
		err = e.prepare(ctx, &query, metric)
	}
	if err != nil || c.Rows == 0 {
		return none, false, err
	}
	p, err := e.plan(1, contexts.N, contexts.Dim, 0, 0)
	if err != nil {
		return none, false, err
	}
	work := e.scorers(p, metric)
	err = e.grid(ctx, p, 1, contexts.N, func(worker, _, _, c0, c1 int) error {
		return work.get(worker).firstAbove(&query, &contexts, c0, c1, bias, tau)
	})
	var found witness
	if errors.As(err, &found) {
		return Hit(found), true, nil
	}
	return none, false, err
}

// firstAbove returns the first row of the block that is better than tau as a witness. A row that
// cannot be scored is an error only if no witness comes before it.
func (s *scorer) firstAbove(q, c *operand, c0, c1 int, bias []Bias, tau float64) error {
	scores, err := s.block(q, c, 0, 1, c0, c1)
	if bad := (*nonFinite)(nil); errors.As(err, &bad) && bad.row > c0 {
		if err := s.firstAbove(q, c, c0, bad.row, bias, tau); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	applyBias(scores, bias, c0, s.metric)
	for j, x := range scores {
		if s.metric.Better(x, tau) {
			return witness{Row: c0 + j, Score: x}
		}
	}
	return nil
}

// single checks the arguments of an operation on one query.
func single(q []float32, c Vectors, metric kernels.Metric, bias []Bias) (query, contexts operand, err error) {
	query, contexts, err = views("query", Vectors{Data: q, Rows: 1, Dim: len(q)}, "contexts", c, metric)
	if err != nil {
		return query, contexts, err
	}
	return query, contexts, checkBias(0, bias, c.Rows)
}

// applyBias adds the biases to the scores of the rows from c0 on.
func applyBias(scores []float64, bias []Bias, c0 int, metric kernels.Metric) {
	first := sort.Search(len(bias), func(i int) bool { return bias[i].Row >= c0 })
	for _, b := range bias[first:] {
		if b.Row >= c0+len(scores) {
			return
		}
		scores[b.Row-c0] = metric.Biased(scores[b.Row-c0], b.Value)
	}
}

// closer is the order of hits: better first, then lower row.
func closer(m kernels.Metric, a, b Hit) bool {
	if a.Score != b.Score {
		return m.Better(a.Score, b.Score)
	}
	return a.Row < b.Row
}

// selectBest offers the scores of the rows from c0 on to a heap of at most k hits with the last of
// them on top. The order is strict, so that the heap's content does not depend on who comes first.
func selectBest(heap []Hit, scores []float64, c0 int, m kernels.Metric, k int) []Hit {
	for j, s := range scores {
		if len(heap) == k && (m.Better(heap[0].Score, s)) {
			continue
		}
		h := Hit{Row: c0 + j, Score: s}
		switch {
		case len(heap) < k:
			heap = append(heap, h)
			siftUp(heap, m)
		case closer(m, h, heap[0]):
			heap[0] = h
			siftDown(heap, m)
		}
	}
	return heap
}

func siftUp(heap []Hit, m kernels.Metric) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !closer(m, heap[parent], heap[i]) {
			return
		}
		heap[parent], heap[i] = heap[i], heap[parent]
		i = parent
	}
}

func siftDown(heap []Hit, m kernels.Metric) {
	for i := 0; ; {
		last := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if closer(m, heap[last], heap[child]) {
				last = child
			}
		}
		if last == i {
			return
		}
		heap[i], heap[last] = heap[last], heap[i]
		i = last
	}
}
