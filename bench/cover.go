package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// coverWeight is the weight of the cover term relative to the cosine.
const coverWeight = .5

// covered is a base with its inverted index and the texts of its queries.
type covered struct {
	*indexedBase
	words  *postings.Index
	texts  []string      // of the queries
	cutoff float64       // the 5th percentile of the questions' scores with their own contexts
	best   []engine.Hit  // of each query, with its cover
	none   [2][2]float64 // scope × (plain, cover): no query of the scope has a score above it
}

// covers compares decisions by cosine with decisions by cosine + coverWeight·cover, where cover is the share of a
// query's IDF mass that a row's text has. Times include the analysis of the query's text.
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
	begin, origin := time.Now(), origins(seedReal, len(texts.base), x.base.Rows)
	read := func(_ context.Context, from, to int) (d []postings.Document, err error) {
		for _, text := range origin[from:to] {
			d = append(d, postings.Document{Text: texts.base[text], Language: "en"})
		}
		return d, nil
	}
	c := &covered{indexedBase: x}
	if c.words, err = postings.New().With(ctx, x.base.Rows, read, func(int) bool { return false },
		x.engine.Parallel); err != nil {
		return nil, err
	}
	made := time.Since(begin).Seconds()
	if err := c.words.Place(ctx, x.set.Blocks(), x.engine.Parallel); err != nil {
		return nil, err
	}
	s.note("cover: postings made in %.1f s, put in the order of the index in %.1f s", made,
		time.Since(begin).Seconds()-made)
	for i := range x.queries.Rows {
		if i < half {
			c.texts = append(c.texts, texts.questions[i])
		} else {
			c.texts = append(c.texts, texts.foreign[i-half])
		}
	}
	var own []float64
	for i := range half {
		own = append(own, c.score(i, texts.own[i]))
	}
	slices.Sort(own)
	c.cutoff = ref.Quantile7(own, .05)
	if c.best, err = x.engine.MaxAll(ctx, x.queries.Vectors, x.set.Vectors(), kernels.Cosine, c.all()); err != nil {
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
				list(c.bias(query), x.base.Rows))
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

// score returns the canonical score with the cover.
func (c *covered) score(query, row int) float64 {
	return kernels.Cosine.Biased(c.indexedBase.score(query, row), float64(c.bias(query).At(row)))
}

// bias analyses a query's text.
func (c *covered) bias(query int) *postings.Biases {
	q, err := c.words.Query(c.texts[query], postings.Scoring{Kind: postings.Cover})
	if err != nil {
		panic(err) // of an unknown kind only
	}
	return q.Biases(coverWeight)
}

// all returns the biases of all queries.
func (c *covered) all() (all []engine.Biases) {
	for query := range c.texts {
		all = append(all, c.bias(query))
	}
	return all
}

// list returns the bias of each row, for searches that do not use the blocks of a set.
func list(b *postings.Biases, rows int) (l engine.BiasList) {
	for row := range rows {
		if v := b.At(row); v > 0 {
			l = append(l, engine.Bias{Row: row, Value: float64(v)})
		}
	}
	return l
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
			add("cover "+at.name, func(ctx context.Context, query int, q []float32) (d decided, err error) {
				d.Hit, d.above, err = x.engine.AnyAbove(ctx, q, x.set.Vectors(), kernels.Cosine, c.bias(query), at.tau)
				return d, err
			}, wrong)
		}
		for name, bias := range c.ways() {
			b.competitors = append(b.competitors,
				searchCompetitor(x, b.shape+" "+name+" top 10 "+scope.name, scope.rows, 1, true,
					func(ctx context.Context, rows []int, q engine.Vectors) ([][]engine.Hit, error) {
						return x.engine.TopK(ctx, q, x.set.Vectors(), kernels.Cosine, topK,
							[]engine.Biases{bias(rows[0])})
					}, func(query, _ int, hits [][]engine.Hit) float64 {
						if bias(query) == nil {
							return failed(hits[0][0].Row == x.want.IDs[query][0])
						}
						return failed(hits[0][0] == c.best[query])
					}))
		}
	}
}

// ways are searches without and with words: what is added to a query's similarities.
func (c *covered) ways() map[string]func(query int) engine.Biases {
	return map[string]func(int) engine.Biases{
		"plain": func(int) engine.Biases { return nil },
		"cover": func(query int) engine.Biases { return c.bias(query) },
	}
}

// together adds decisions for several queries at once.
func (c *covered) together(b *benchmark, size int) {
	x := c.indexedBase
	for name, bias := range c.ways() {
		b.competitors = append(b.competitors,
			searchCompetitor(x, b.shape+" "+name+" tau=cover's cut-off", x.mixed(), size, false,
				func(ctx context.Context, rows []int, q engine.Vectors) ([]engine.Decision, error) {
					of := make([]engine.Biases, len(rows))
					for i, query := range rows {
						of[i] = bias(query)
					}
					return x.engine.AnyAboveAll(ctx, q, x.set.Vectors(), kernels.Cosine, of, c.cutoff)
				}, func(query, i int, d []engine.Decision) float64 {
					best := c.best[query].Score
					if bias(query) == nil {
						best = x.want.Scores[query][0]
					}
					return failed(d[i].Above == (best > c.cutoff))
				}))
	}
}
