package bench

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// probabilities returns the quantiles of a table, positive and negative alike.
func probabilities() []float64 { return []float64{0, .05, .25, .5, .75, .95, 1} }

// table is the result of W1 and W2: quantiles of the similarities of pseudo-queries with their own
// context, and with all others.
type table struct {
	Positive []float64 `json:"positive"`
	Negative []float64 `json:"negative"`
}

// distance returns the largest difference of two tables, infinite if they differ in length. inner leaves out
// the extremes, which a histogram does not have.
func (t table) distance(o table, inner bool) (d float64) {
	if len(t.Positive) != len(o.Positive) || len(t.Negative) != len(o.Negative) {
		return math.Inf(1)
	}
	for i, x := range t.Negative {
		if inner && (i == 0 || i == len(t.Negative)-1) {
			continue
		}
		d = maxAbs(d, x-o.Negative[i])
	}
	for i, x := range t.Positive {
		d = maxAbs(d, x-o.Positive[i])
	}
	return d
}

// maxAbs returns max(d, |x|), infinite when x is not a number.
func maxAbs(d, x float64) float64 {
	if math.IsNaN(x) {
		return math.Inf(1)
	}
	return max(d, math.Abs(x))
}

// reference computes correct results with the canonical kernels alone, block by block. It is slow, and
// independent of the engine that is measured.
type reference struct {
	kernels cpu.Kernels
	threads int
}

func newReference(threads int) (reference, error) {
	names := []string{"avx512", "avx2", "scalar", "go"} // the first one that this machine has
	for _, n := range names {
		if k, err := cpu.Open(n); err == nil {
			return reference{k, threads}, nil
		}
	}
	return reference{}, fmt.Errorf("bench: %w: none of %v", kernels.ErrISA, names)
}

func (r reference) rows(s set) (cpu.Rows, error) {
	rows := cpu.Rows{Data: s.Data, N: s.Rows, Dim: s.Dim, Stride: s.Dim, Norms: make([]float64, s.Rows)}
	return rows, scores.Norms(r.kernels, rows.Norms, rows)
}

const (
	referenceQueries  = 64
	referenceContexts = 1024
)

// each calls visit with the canonical cosines of blocks of queries × contexts; scores[i*n+j] belongs
// to query q0+i and context c0+j, n being the width of the block. Calls for one worker do not overlap.
func (r reference) each(ctx context.Context, queries, contexts set,
	visit func(worker, q0, q1, c0, c1 int, scores []float64)) error {
	q, err := r.rows(queries)
	if err != nil {
		return err
	}
	c, err := r.rows(contexts)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	next := 0
	g, ctx := errgroup.WithContext(ctx)
	for w := range r.threads {
		g.Go(func() error {
			block := make([]float64, referenceQueries*referenceContexts)
			for {
				mu.Lock()
				q0 := next
				next += referenceQueries
				mu.Unlock()
				if q0 >= q.N {
					return nil
				}
				q1 := min(q0+referenceQueries, q.N)
				for c0 := 0; c0 < c.N; c0 += referenceContexts {
					if err := ctx.Err(); err != nil {
						return err
					}
					c1 := min(c0+referenceContexts, c.N)
					if err := scores.Block(r.kernels, kernels.Cosine, block, c1-c0, q.Slice(q0, q1),
						c.Slice(c0, c1)); err != nil {
						return err
					}
					visit(w, q0, q1, c0, c1, block)
				}
				runtime.Gosched()
			}
		})
	}
	return g.Wait()
}

// table is exact: a histogram finds the bins of the wanted ranks, a second pass sorts those bins.
func (r reference) table(ctx context.Context, p *pairs) (table, error) {
	owner := p.owner()
	const bins = 1 << 16
	bin := func(s float64) int { return min(bins-1, int((s+1)*(bins/2))) }
	counts := make([][]int64, r.threads)
	positive := make([]float64, p.queries.Rows)
	err := r.each(ctx, p.queries, p.contexts, func(w, q0, q1, c0, c1 int, scores []float64) {
		if counts[w] == nil {
			counts[w] = make([]int64, bins)
		}
		for q := q0; q < q1; q++ {
			for i, s := range scores[(q-q0)*(c1-c0):][:c1-c0] {
				if int32(c0+i) == owner[q] {
					positive[q] = s
				} else {
					counts[w][bin(s)]++
				}
			}
		}
	})
	if err != nil {
		return table{}, err
	}
	below := make([]int64, bins+1) // below[b] negatives lie in bins before b
	for b := range bins {
		below[b+1] = below[b]
		for _, c := range counts {
			if c != nil {
				below[b+1] += c[b]
			}
		}
	}
	total := below[bins]
	wanted := make([]bool, bins)
	for _, prob := range probabilities() {
		low, _ := ref.Rank7(total, prob)
		for _, rank := range []int64{low, min(low+1, total-1)} {
			b, _ := slices.BinarySearch(below, rank+1)
			wanted[b-1] = true
		}
	}
	kept := make([][]float64, r.threads)
	err = r.each(ctx, p.queries, p.contexts, func(w, q0, q1, c0, c1 int, scores []float64) {
		for q := q0; q < q1; q++ {
			for i, s := range scores[(q-q0)*(c1-c0):][:c1-c0] {
				if wanted[bin(s)] && int32(c0+i) != owner[q] {
					kept[w] = append(kept[w], s)
				}
			}
		}
	})
	if err != nil {
		return table{}, err
	}
	values := slices.Concat(kept...)
	slices.Sort(values)
	at := func(rank int64) float64 { // values hold whole bins: skip the earlier ones that were not kept
		b, _ := slices.BinarySearch(below, rank+1)
		first, _ := slices.BinarySearchFunc(values, b-1, func(v float64, b int) int { return bin(v) - b })
		return values[first+int(rank-below[b-1])]
	}
	t := table{}
	slices.Sort(positive)
	for _, prob := range probabilities() {
		low, f := ref.Rank7(total, prob)
		t.Negative = append(t.Negative, ref.Interpolate7(at(low), at(min(low+1, total-1)), f))
		t.Positive = append(t.Positive, ref.Quantile7(positive, prob))
	}
	return t, nil
}

// best are the ten best rows of the base for each query, best first, with their canonical scores.
type best struct {
	IDs    [][]int     `json:"ids"`
	Scores [][]float64 `json:"scores"`
}

const topK = 10

func (r reference) best(ctx context.Context, d *searchData) (best, error) {
	b := best{make([][]int, d.queries.Rows), make([][]float64, d.queries.Rows)}
	// A query's blocks come in order on one worker: a later row with an equal score goes after the earlier one.
	err := r.each(ctx, d.queries, d.base, func(_, q0, q1, c0, c1 int, scores []float64) {
		for q := q0; q < q1; q++ {
			ids, top := b.IDs[q], b.Scores[q]
			for i, s := range scores[(q-q0)*(c1-c0):][:c1-c0] {
				if len(top) == topK && s <= top[topK-1] {
					continue
				}
				at := len(top)
				for at > 0 && top[at-1] < s {
					at--
				}
				ids, top = slices.Insert(ids, at, c0+i), slices.Insert(top, at, s)
				ids, top = ids[:min(len(ids), topK)], top[:min(len(top), topK)]
			}
			b.IDs[q], b.Scores[q] = ids, top
		}
	})
	return b, err
}

// tableOf and bestOf keep the reference's results in the cache: the large ones take a minute.
func (s *session) tableOf(ctx context.Context, p *pairs) (table, error) {
	return cached(filepath.Join(s.cache, p.name+"-table.json"), func() (table, error) {
		s.log("canonical table of %d × %d pairs, to compute errors", p.contexts.Rows, p.queries.Rows)
		return s.reference.table(ctx, p)
	})
}

func (s *session) bestOf(ctx context.Context, d *searchData) (best, error) {
	return cached(filepath.Join(s.cache, fmt.Sprintf("%s-%dqueries-best.json", d.name, d.queries.Rows)),
		func() (best, error) {
			s.log("canonical top %d of %d × %d pairs, to compute errors", topK, d.queries.Rows, d.base.Rows)
			return s.reference.best(ctx, d)
		})
}
