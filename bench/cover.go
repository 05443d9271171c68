package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// coverWeight is what the cover term counts beside the cosine.
const coverWeight = .5

// covered is a base with the cover terms of its queries, each in both forms that an index takes.
type covered struct {
	*indexedBase
	lexicon *lexicon
	blocks  []engine.Biases // of each query: read by block
	lists   *listWriter
	cutoff  float64       // the 5th percentile of the questions' scores with their own contexts
	best    []engine.Hit  // of each query, with its cover
	none    [2][2]float64 // scope × (plain, cover): no query of the scope has a score above it
}

// covers compares decisions by cosine with decisions by cosine + coverWeight·cover, where cover is the share of a
// query's IDF mass that a row's text has. Its biases are delivered block by block from postings in the index's order,
// or as a list that is written beforehand from postings in row order; times include the delivery.
func (s *session) covers(ctx context.Context, indexed []*indexedBase) error {
	for _, x := range indexed {
		if x.kind() != "real" {
			continue
		}
		c, err := s.cover(ctx, x)
		if err != nil {
			return err
		}
		batch := 32
		if s.o.Short {
			batch = 4
		}
		for _, size := range []int{1, batch} {
			n := float64(x.base.Rows)
			b := &benchmark{
				workload: "cover", shape: fmt.Sprintf("%dx%d %s q=%d", x.base.Rows, x.base.Dim, x.kind(), size),
				pairs:      n * float64(size),
				operations: cosineWork * n * float64(size) * float64(x.base.Dim),
				bytes:      floatBytes * n * float64(x.base.Dim), rounds: s.rounds(30),
			}
			if size > 1 {
				b.rounds = s.rounds(5)
				c.together(b, size)
			} else {
				c.alone(b)
			}
			if err := s.run(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// cover prepares the postings and cut-offs of a base.
func (s *session) cover(ctx context.Context, x *indexedBase) (*covered, error) {
	half := x.queries.Rows / 2
	texts, err := s.readSeeds(seedReal, half)
	if err != nil {
		return nil, err
	}
	s.log("postings of %d rows", x.base.Rows)
	begin := time.Now()
	c := &covered{indexedBase: x,
		lexicon: newLexicon(texts.base, origins(seedReal, len(texts.base), x.base.Rows), x.set.Blocks())}
	c.lists = newListWriter(c.lexicon)
	share := 0.0
	for i := range x.queries.Rows {
		text := texts.questions[min(i, half-1)]
		if i >= half {
			text = texts.foreign[i-half]
		}
		q := c.lexicon.query(text, coverWeight)
		c.blocks = append(c.blocks, q)
		share += float64(len(c.lists.write(q))) / float64(x.base.Rows) / float64(x.queries.Rows)
	}
	s.note("cover: %d stems, %d postings, made in %.1f s; %.1f %% of the rows have one of a query's words (mean)",
		len(c.lexicon.idf),
		len(c.lexicon.byRow.at), time.Since(begin).Seconds(), 100*share)
	var own []float64
	for i := range half {
		own = append(own, c.score(i, texts.own[i]))
	}
	slices.Sort(own)
	c.cutoff = ref.Quantile7(own, .05)
	if c.best, err = x.engine.MaxAll(ctx, x.queries.Vectors, x.set.Vectors(), kernels.Cosine, c.blocks); err != nil {
		return nil, err
	}
	for i, scope := range x.scopes() {
		c.none[i] = [2]float64{-1, -1}
		for _, query := range scope.rows {
			c.none[i][0], c.none[i][1] = max(c.none[i][0], x.want.Scores[query][0]),
				max(c.none[i][1], c.best[query].Score)
		}
		for _, query := range scope.rows[:min(4, half)] { // the others' bests are the index's own
			h, _, err := x.engine.Max(ctx, x.queries.row(query), x.base.Vectors, kernels.Cosine,
				c.lists.write(c.blocks[query].(*coverQuery)))
			if err != nil {
				return nil, err
			}
			if h != c.best[query] {
				return nil,
					fmt.Errorf("bench: cover: query %d: the index has %v, the engine %v", query, c.best[query], h)
			}
		}
		above, open := 0, 0
		for _, query := range scope.rows {
			above += int(1 - failed(c.best[query].Score > c.cutoff))
			open += int(1 - failed(x.want.Scores[query][0] > x.cutoff))
		}
		s.note("cover %s: %d of %d are above %.4f with cover, %d above %.4f without; none is above %.4f and %.4f",
			scope.name, above,
			len(scope.rows), c.cutoff, open, x.cutoff, c.none[i][1], c.none[i][0])
	}
	return c, nil
}

// score is the canonical score with the cover.
func (c *covered) score(query, row int) float64 {
	var bias [1]float32
	_ = c.blocks[query].Read(engine.RowBlock{Number: -1, First: row, Len: 1}, bias[:]) // never fails
	return kernels.Cosine.Biased(c.indexedBase.score(query, row), float64(bias[0]))
}

type decided struct {
	engine.Hit
	above bool
}

// alone adds single decisions and searches, with and without cover, and the delivery of biases by itself.
func (c *covered) alone(b *benchmark) {
	x := c.indexedBase
	for i, scope := range x.scopes() {
		add := func(name string, ask func(ctx context.Context, query int, q []float32) (decided, error),
			wrong func(int, decided) float64) {
			b.competitors = append(b.competitors,
				searchCompetitor(x, b.shape+" "+name+" "+scope.name, scope.rows, 1, false,
					func(ctx context.Context, rows []int, q engine.Vectors) (decided, error) {
						return ask(ctx, rows[0], q.Data)
					},
					func(query, _ int, d decided) float64 { return wrong(query, d) }))
		}
		for _, at := range []struct {
			name string
			tau  float64
		}{{"tau=cut-off", x.cutoff}, {"tau=cover's cut-off", c.cutoff}, {"tau=none above", c.none[i][0]}} {
			add("plain "+at.name, func(ctx context.Context, _ int, q []float32) (d decided, err error) {
				d.Hit, d.above, err = x.engine.AnyAbove(ctx, q, x.set.Vectors(), kernels.Cosine, nil, at.tau)
				return d, err
			}, func(query int, d decided) float64 {
				return failed(d.above == (x.want.Scores[query][0] > at.tau) &&
					(!d.above || d.Score > at.tau && x.score(query, d.Row) == d.Score))
			})
		}
		for _, at := range []struct {
			name string
			tau  float64
		}{{"tau=cover's cut-off", c.cutoff}, {"tau=none above", c.none[i][1]}} {
			wrong := func(query int, d decided) float64 {
				return failed(d.above == (c.best[query].Score > at.tau) &&
					(!d.above || d.Score > at.tau && c.score(query, d.Row) == d.Score))
			}
			add("cover by block "+at.name, func(ctx context.Context, query int, q []float32) (d decided, err error) {
				d.Hit, d.above, err = x.engine.AnyAbove(ctx, q, x.set.Vectors(), kernels.Cosine, c.blocks[query],
					at.tau)
				return d, err
			}, wrong)
			add("cover as a list "+at.name, func(ctx context.Context, query int, q []float32) (d decided, err error) {
				d.Hit, d.above, err = x.engine.AnyAbove(ctx, q, x.set.Vectors(), kernels.Cosine,
					c.lists.write(c.blocks[query].(*coverQuery)), at.tau)
				return d, err
			}, wrong)
		}
		right := func(int, decided) float64 { return 0 }
		add("delivery alone by block", func(_ context.Context, query int, _ []float32) (d decided, err error) {
			return d, c.lexicon.readAll(c.blocks[query])
		}, right)
		add("delivery alone as a list", func(_ context.Context, query int, _ []float32) (d decided, err error) {
			d.Row = len(c.lists.write(c.blocks[query].(*coverQuery)))
			return d, nil
		}, right)
		for name, bias := range map[string][]engine.Biases{"plain": make([]engine.Biases, x.queries.Rows),
			"cover by block": c.blocks} {
			b.competitors = append(b.competitors,
				searchCompetitor(x, b.shape+" "+name+" top 10 "+scope.name, scope.rows, 1, true,
					func(ctx context.Context, rows []int, q engine.Vectors) ([][]engine.Hit, error) {
						return x.engine.TopK(ctx, q, x.set.Vectors(), kernels.Cosine, topK, bias[rows[0]:rows[0]+1])
					}, func(query, _ int, hits [][]engine.Hit) float64 {
						if bias[query] == nil {
							return failed(hits[0][0].Row == x.want.IDs[query][0])
						}
						return failed(hits[0][0] == c.best[query])
					}))
		}
	}
}

// together adds decisions for several queries at once.
func (c *covered) together(b *benchmark, size int) {
	x := c.indexedBase
	for name, bias := range map[string][]engine.Biases{"plain": make([]engine.Biases, x.queries.Rows),
		"cover by block": c.blocks} {
		b.competitors = append(b.competitors,
			searchCompetitor(x, b.shape+" "+name+" tau=cover's cut-off", x.mixed(), size, false,
				func(ctx context.Context, rows []int, q engine.Vectors) ([]engine.Decision, error) {
					of := make([]engine.Biases, len(rows))
					for i, query := range rows {
						of[i] = bias[query]
					}
					return x.engine.AnyAboveAll(ctx, q, x.set.Vectors(), kernels.Cosine, of, c.cutoff)
				}, func(query, i int, d []engine.Decision) float64 {
					best := c.best[query].Score
					if bias[query] == nil {
						best = x.want.Scores[query][0]
					}
					return failed(d[i].Above == (best > c.cutoff))
				}))
	}
}
