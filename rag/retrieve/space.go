package retrieve

import (
	"context"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// space searches the vectors of the contexts, or of a filtered selection of them, in one metric.
type space struct {
	e      engine.Interface
	c      Contexts
	metric kernels.Metric
	parts  []part // of a selection; nil: c.Vectors
}

// part is a piece of a selection that one call searches: consecutive rows in place, or a copy of scattered rows.
type part struct {
	vectors engine.Vectors
	first   int   // first row, if rows is nil
	rows    []int // of each
}

// A selection is split into runs of consecutive rows. Short runs are copied into one block, whose size is kept small
// compared with the engine's own memory.
const (
	shortRun   = 4096
	copiedRows = 1 << 16
)

func newSpace(e engine.Interface, c Contexts, metric kernels.Metric) *space {
	s := &space{e: e, c: c, metric: metric}
	if !c.Selected || c.Narrowed {
		return s
	}
	if c.Parts != nil {
		for _, p := range c.Parts {
			s.parts = append(s.parts, part{vectors: p.Vectors, rows: p.Rows})
		}
		return s
	}
	plain := c.plain()
	s.parts = []part{}
	var short []int
	for from := 0; from < len(c.Rows); {
		to := from + 1
		for to < len(c.Rows) && c.Rows[to] == c.Rows[to-1]+1 {
			to++
		}
		if to-from >= shortRun {
			first := c.Rows[from]
			s.parts = append(s.parts, part{first: first, vectors: plain.Slice(first, first+to-from)})
		} else {
			short = append(short, c.Rows[from:to]...)
		}
		from = to
	}
	for rows := range slices.Chunk(short, copiedRows) {
		v := engine.Vectors{Rows: len(rows), Dim: plain.Dim, Data: make([]float32, 0, len(rows)*plain.Dim)}
		for _, r := range rows {
			v.Data = append(v.Data, plain.Row(r)...)
		}
		s.parts = append(s.parts, part{vectors: v, rows: rows})
	}
	return s
}

// row converts row i of a part into a row of the contexts.
func (p part) row(i int) int {
	if p.rows == nil {
		return p.first + i
	}
	return p.rows[i]
}

// topK implements engine.Interface.TopK over the space and returns rows of the contexts. bias is nil, or holds for each
// query what is added to the closeness of the contexts.
func (s *space) topK(
	ctx context.Context, queries engine.Vectors, k int, bias []engine.Biases,
) ([][]engine.Hit, error) {
	if s.parts == nil {
		return s.e.TopK(ctx, queries, s.c.Vectors, s.metric, k, bias)
	}
	found := make([][]engine.Hit, queries.Rows)
	for _, p := range s.parts {
		var of []engine.Biases
		for _, b := range bias {
			of = append(of, p.biases(b))
		}
		hits, err := s.e.TopK(ctx, queries, p.vectors, s.metric, k, of)
		if err != nil {
			return nil, err
		}
		for i, list := range hits {
			for _, h := range list {
				found[i] = append(found[i], engine.Hit{Row: p.row(h.Row), Score: h.Score})
			}
			sortHits(s.metric, found[i])
			found[i] = found[i][:min(k, len(found[i]))]
		}
	}
	return found, nil
}

// biases restricts the biases of all contexts to the rows of the part.
func (p part) biases(b engine.Biases) engine.Biases {
	switch {
	case b == nil:
		return nil
	case p.rows == nil:
		return shifted{b, p.first}
	}
	return &gathered{b, p.rows}
}

// shifted holds the biases of consecutive rows, starting at first.
type shifted struct {
	of    engine.Biases
	first int
}

// Read implements kernels.Biases.
func (s shifted) Read(b engine.RowBlock, out []float32) error {
	b.First += s.first
	return s.of.Read(b, out)
}

// gathered holds the biases of a copy of scattered rows.
type gathered struct {
	of   engine.Biases
	rows []int
}

// Read implements kernels.Biases: runs of consecutive rows are read at once.
func (g *gathered) Read(b engine.RowBlock, out []float32) error {
	if of, ok := g.of.(*postings.Biases); ok && b.Rows == nil {
		of.ReadRows(g.rows[b.First:][:b.Len], out)
		return nil
	}
	for from := 0; from < b.Len; {
		first := g.rows[b.Row(from)]
		to := from + 1
		for to < b.Len && g.rows[b.Row(to)] == first+to-from {
			to++
		}
		if err := g.of.Read(engine.RowBlock{Number: -1, First: first, Len: to - from}, out[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// best returns the score of the nearest context of each query, and worst of the farthest one. There must be at least
// one context.
func (s *space) best(ctx context.Context, queries engine.Vectors) ([]float64, error) {
	hits, err := s.topK(ctx, queries, 1, nil)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(hits))
	for i, h := range hits {
		scores[i] = h[0].Score
	}
	return scores, nil
}

func (s *space) worst(ctx context.Context, queries engine.Vectors) ([]float64, error) {
	if s.metric == kernels.L2 {
		return s.farthest(ctx, queries)
	}
	// The nearest to −q is the farthest from q, and has the same score with the other sign, bit for bit.
	turned := engine.Vectors{Rows: queries.Rows, Dim: queries.Dim, Data: make([]float32, 0, queries.Rows*queries.Dim)}
	for i := range queries.Rows {
		for _, x := range queries.Row(i) {
			turned.Data = append(turned.Data, -x)
		}
	}
	scores, err := s.best(ctx, turned)
	for i := range scores {
		scores[i] = -scores[i]
	}
	return scores, err
}

// farthest reads all distances as float32 and returns the canonical distance of the rows that are farthest by them.
func (s *space) farthest(ctx context.Context, queries engine.Vectors) ([]float64, error) {
	pieces, deleted := s.parts, func(int) bool { return false }
	if s.parts == nil {
		pieces = []part{{vectors: s.c.plain()}}
		if allowed := s.c.allowed(); allowed != nil {
			deleted = func(row int) bool { return !allowed(row) }
		} else if s.c.Deleted != nil {
			deleted = s.c.Deleted
		}
	}
	scores := make([]float64, queries.Rows)
	var out []float32
	for i := range scores {
		q := queries.Row(i)
		high, rows := float32(math.Inf(-1)), []int(nil)
		for _, p := range pieces {
			for from := 0; from < p.vectors.Rows; from += copiedRows {
				n := min(copiedRows, p.vectors.Rows-from)
				out = slices.Grow(out[:0], n)[:n]
				err := s.e.Matrix(ctx, out, queries.Slice(i, i+1), p.vectors.Slice(from, from+n), s.metric)
				if err != nil {
					return nil, err
				}
				for j, d := range out {
					r := p.row(from + j)
					if d < high || deleted(r) {
						continue
					}
					if d > high {
						high, rows = d, rows[:0]
					}
					rows = append(rows, r)
				}
			}
		}
		for j, r := range rows {
			if d := s.score(q, r); j == 0 || d > scores[i] {
				scores[i] = d
			}
		}
	}
	return scores, nil
}

// score returns the canonical score of a context.
func (s *space) score(q []float32, r int) float64 { return ref.Score(s.metric, q, s.c.plain().Row(r)) }
