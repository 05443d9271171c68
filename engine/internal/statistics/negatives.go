package statistics

import (
	"context"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// negatives decides which pairs are in D−.
type negatives struct {
	in       distribution.Input
	contexts int
	perQuery int // of a sample
	total    int64
	several  bool // there are at least two groups
}

func newNegatives(ctx context.Context, in distribution.Input) (negatives, error) {
	m, n := in.Queries.Rows, in.Contexts.Rows
	if in.Negatives.Kind == distribution.NegativesSample && in.Negatives.PerQuery >= n-1 {
		in.Negatives.Kind = distribution.NegativesAll // the draw takes them all
	}
	g := negatives{in: in, contexts: n}
	size := make(map[int32]int64)
	err := workers.Over(ctx, len(in.Group), func(from, to int) {
		for _, group := range in.Group[from:to] {
			size[group]++
		}
	})
	if err != nil {
		return g, err
	}
	g.several = len(size) > 1
	switch in.Negatives.Kind {
	case distribution.NegativesAll:
		g.total = int64(m) * int64(n-1)
	case distribution.NegativesSample:
		g.perQuery = in.Negatives.PerQuery
		g.total = int64(m) * int64(g.perQuery)
	case distribution.NegativesCrossGroup:
		if in.Group == nil {
			break // all are in one group
		}
		err = workers.Over(ctx, len(in.Owner), func(from, to int) {
			for _, c := range in.Owner[from:to] {
				g.total += int64(n) - size[in.Group[c]]
			}
		})
	}
	return g, err
}

func (g *negatives) sampled() bool { return g.in.Negatives.Kind == distribution.NegativesSample }

// draw lists the contexts of a query's sampled negatives.
func (g *negatives) draw(into []int32, q int) []int32 {
	return ref.Foreign(into, g.in.Negatives.Seed, q, int(g.in.Owner[q]), g.contexts, g.perQuery)
}

// has reports whether the pair is in D−, if D− is not sampled.
func (g *negatives) has(q, c int) bool {
	own := int(g.in.Owner[q])
	if g.in.Negatives.Kind == distribution.NegativesCrossGroup {
		return g.in.Group != nil && g.in.Group[c] != g.in.Group[own]
	}
	return c != own
}

// span is a run of context rows [from, to).
type span struct{ from, to int }

// of appends the runs of q's negatives among the contexts [c0, c1); D− is not sampled.
func (g *negatives) of(into []span, q, c0, c1 int) []span {
	from := c0
	next := func(row int) { // one that is not among them
		if from < row {
			into = append(into, span{from, row})
		}
		from = row + 1
	}
	own := int(g.in.Owner[q])
	if g.in.Negatives.Kind != distribution.NegativesCrossGroup {
		if own >= c0 && own < c1 {
			next(own)
		}
	} else if group := g.in.Group; group == nil {
		return into
	} else {
		for row, x := range group[c0:c1] {
			if x == group[own] {
				next(c0 + row)
			}
		}
	}
	next(c1)
	return into
}
