package statistics

import (
	"cmp"
	"context"
	"slices"

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

// drawnSeed is the seed of Input.Sample: the same in every calibration, so that blocks draw the same pairs as a whole.
const drawnSeed = 47

// setSample computes Result.Sample of a whole input.
func (j *job) setSample(ctx context.Context) (err error) {
	of := distribution.Whole{Contexts: int64(j.c.N), Queries: int64(j.q.N)}
	itself := func(row int32) uint64 { return uint64(row) }
	rows, lanes := ascendingFrom(0, j.c.N), ascendingFrom(0, j.q.N)
	j.out.Sample, err = j.sampleOf(ctx, of, j.in.Sample, rows, lanes, itself, itself)
	return err
}

// sampleOf draws about want pairs of D− of a whole, and returns the canonical scores of those among some rows and
// lanes, which ascend. contextID and queryID number the rows within the whole.
func (j *job) sampleOf(ctx context.Context, of distribution.Whole, want int, rows, lanes []int32,
	contextID, queryID func(row int32) uint64) ([]float64, error) {
	if want == 0 || len(rows) == 0 || len(lanes) == 0 || j.negatives.total == 0 {
		return nil, nil
	}
	each := workers.Ceil(want, int(of.Queries))
	const chunk = 256 // queries
	parts := make([][]float64, workers.Ceil(len(lanes), chunk))
	first, last := contextID(rows[0]), contextID(rows[len(rows)-1])
	err := j.r.Pool.Each(ctx, len(parts), j.blocks.Workers, func(_, task int) error {
		var qs, cs, numbers []int32
		for _, q := range lanes[task*chunk : min(len(lanes), (task+1)*chunk)] {
			if err := ctx.Err(); err != nil {
				return err
			}
			numbers = j.numbers(numbers, of, each, int(queryID(q)), int(contextID(j.in.Owner[q])))
			for _, number := range numbers {
				id := uint64(number)
				if id < first || id > last {
					continue
				}
				at, found := slices.BinarySearchFunc(rows, id, func(row int32, id uint64) int {
					return cmp.Compare(contextID(row), id)
				})
				if found && (j.negatives.sampled() || j.negatives.has(int(q), int(rows[at]))) {
					qs, cs = append(qs, q), append(cs, rows[at])
				}
			}
		}
		parts[task] = make([]float64, len(qs))
		return j.biasedPairs(ctx, parts[task], qs, cs)
	})
	if err != nil {
		return nil, err
	}
	out := slices.Concat(parts...)
	return out, workers.Sort(ctx, j.r.Pool, out, cmp.Compare)
}

// numbers draws the numbers of some foreign contexts of a query, ascending: of those in a sampled D−, or of all.
func (j *job) numbers(into []int32, of distribution.Whole, each, query, owner int) []int32 {
	if !j.negatives.sampled() {
		return ref.Foreign(into, drawnSeed, query, owner, int(of.Contexts), each)
	}
	all, n := j.negatives.draw(nil, query), j.negatives.perQuery
	into = ref.Foreign(into, drawnSeed, query, n, n+1, each) // positions in all
	for i, at := range into {
		into[i] = all[at]
	}
	return into
}
