package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

const (
	tau           = 0.55
	seedScan      = uint64(13)
	sameDecisions = 1    // wrong decision: rounding to float32 may move a similarity across the cut-off
	sameIDs       = 0.01 // of the ids: and may swap two rows at the tenth place
	ownPerRound   = 8    // single queries of Sluice in a round: they are fast, and their times differ
)

// searches runs w3, which decides whether any of a million vectors is above a cut-off, for one query and for
// 32, and w4, which finds the ten nearest, for one query and for 64: with a mixture and with real vectors, if
// there are any.
func (s *session) searches(ctx context.Context, workloads []string) error {
	n, queries := 1_000_000, 512
	if s.o.Short {
		n, queries = 3000, 16
	}
	loads := []func() (*searchData, error){func() (*searchData, error) { return s.realSearch(ctx, n, queries) }}
	if !slices.Equal(workloads, []string{"cover"}) { // which needs texts
		mixture := func() (*searchData, error) { return s.mixtureSearch(ctx, seedScan, n, queries, 384) }
		loads = slices.Insert(loads, 0, mixture)
	}
	for _, load := range loads {
		d, err := load()
		if errors.Is(err, ErrNoRealVectors) {
			s.note("only the seeded mixture: %v", err)
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(s.searchIn(ctx, workloads, d), d.close()); err != nil {
			return err
		}
	}
	return nil
}

// searchIn runs workloads over the same base and its indices.
func (s *session) searchIn(ctx context.Context, workloads []string, d *searchData) error {
	want, err := s.bestOf(ctx, d)
	if err != nil {
		return err
	}
	indexed, err := s.index(ctx, d, want)
	if err != nil {
		return err
	}
	for _, w := range workloads {
		if w == "cover" {
			if err := s.covers(ctx, indexed); err != nil {
				return err
			}
			continue
		}
		batch, add := 32, s.decisions
		if w == "w4" {
			batch, add = 64, s.tops
		}
		if s.o.Short {
			batch = 4
		}
		if err := s.searchBoth(ctx, w, indexed, batch, add); err != nil {
			return err
		}
		if w == "w3" {
			if err := s.noteChecked(ctx, indexed); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexedBase is a base as a prepared set with an index, of one variant of the engine.
type indexedBase struct {
	variant
	*searchData
	set  *engine.Set
	want best
}

// searchVariants returns the best instruction set and those below it with scans of their own. The index chooses its
// number formats itself; 8 bits are most of its work.
func (s *session) searchVariants() (out []variant, err error) {
	for _, name := range s.isas() {
		own := name == cpu.AVX512VNNI.String() || name == cpu.AVXVNNI.String() || name == cpu.AVX2.String()
		if len(out) > 0 && !own {
			continue
		}
		e, err := s.engine(name, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, variant{engine: e, isa: name, dtype: kernels.I8})
	}
	return out, nil
}

// index makes an index for each variant.
func (s *session) index(ctx context.Context, d *searchData, want best) (out []*indexedBase, err error) {
	variants, err := s.searchVariants()
	if err != nil {
		return nil, err
	}
	for _, v := range variants {
		s.log("indexing %d %s vectors with %s", d.base.Rows, d.kind(), v.isa)
		begin := time.Now()
		set, err := v.engine.Prepare(ctx, d.base.Vectors, kernels.Cosine, engine.SetOptions{})
		if err != nil {
			return nil, err
		}
		st := set.Describe()
		s.note("%s: index with %s: %.1f s, %d bytes a vector beside it, %d groups; %s %s", d.kind(), v.isa,
			time.Since(begin).Seconds(),
			st.Bytes/int64(max(1, st.Rows)), st.Clusters, st.Kernel, st.Reason)
		out = append(out, &indexedBase{v, d, set, want})
	}
	return out, nil
}

// addOwn adds Sluice's competitors for batches of a size.
type addOwn func(x *indexedBase, b *benchmark, size int)

// searchBoth is the benchmark of one query and that of a batch; the peers' processes run both.
func (s *session) searchBoth(ctx context.Context, workload string, indexed []*indexedBase, batch int,
	add addOwn) (err error) {
	d, want := indexed[0].searchData, indexed[0].want
	params := map[string]any{"base": d.base.path, "queries": d.queries.path, "batch": batch, "k": topK}
	peers, offers, err := s.startPeers(ctx, workload, params)
	defer func() { err = errors.Join(err, peers.close()) }()
	if err != nil {
		return err
	}
	for _, size := range []int{1, batch} {
		n := float64(d.base.Rows)
		b := &benchmark{
			workload: workload, shape: fmt.Sprintf("%dx%d %s q=%d", d.base.Rows, d.base.Dim, d.kind(), size),
			pairs:      n * float64(size),
			operations: cosineWork * n * float64(size) * float64(d.base.Dim),
			bytes:      floatBytes * n * float64(d.base.Dim),
			rounds:     s.rounds(5), tolerance: sameDecisions,
		}
		if workload == "w4" {
			b.tolerance = sameIDs
		}
		if size == 1 {
			b.rounds = s.rounds(15)
		}
		for _, x := range indexed {
			add(x, b, size)
		}
		mixed := d.mixed()
		for _, o := range offers {
			if o.Batch == size {
				b.competitors = append(b.competitors,
					o.competitor(func(round int) [][]int { return batches(mixed, size, 1, round) },
						func(ctx context.Context) (float64, error) { return o.searchError(ctx, workload, d, want) }))
			}
		}
		if err := s.run(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// kind returns mixture or real.
func (d *searchData) kind() string {
	kind, _, _ := strings.Cut(d.name, "-")
	return kind
}

// scope is a part of the queries, by their rows.
type scope struct {
	name string
	rows []int
}

func (d *searchData) scopes() []scope {
	in, out := scope{name: "in scope"}, scope{name: "out of scope"}
	for i := range d.queries.Rows / 2 {
		in.rows, out.rows = append(in.rows, i), append(out.rows, d.queries.Rows/2+i)
	}
	return []scope{in, out}
}

// mixed returns all queries, in scope and out of scope alternately.
func (d *searchData) mixed() (all []int) {
	for i := range d.queries.Rows / 2 {
		all = append(all, i, d.queries.Rows/2+i)
	}
	return all
}

// gather copies queries into one block.
func (d *searchData) gather(rows []int) engine.Vectors {
	v := engine.Vectors{Rows: len(rows), Dim: d.queries.Dim}
	for _, r := range rows {
		v.Data = append(v.Data, d.queries.row(r)...)
	}
	return v
}

// searchCompetitor is a competitor of Sluice that searches for size queries of a list at a time. wrong,
// which is not timed, is the error of one query's answer; the row's is the sum over all queries, or with
// share their mean.
func searchCompetitor[T any](x *indexedBase, shape string, list []int, size int, share bool,
	ask func(ctx context.Context, rows []int, q engine.Vectors) (T, error),
	wrong func(query, i int, answer T) float64) *competitor {
	per := 1
	if size == 1 {
		per = ownPerRound
	}
	errs := map[int]float64{} // of each query
	row := x.own("exact")
	row.Shape = shape
	return &competitor{
		choice: func() string {
			d := x.set.Describe()
			return x.describe(fmt.Sprintf("index scanned by %s", d.Kernel), d.Reason)
		},
		Row: row, kind: kernels.F32, // the limit of all competitors: reading the vectors once as they are stored
		run: func(ctx context.Context, round int) (times []time.Duration, err error) {
			for _, rows := range batches(list, size, per, round) {
				q := x.gather(rows)
				var answer T
				t, err := timeIt(func() (err error) { answer, err = ask(ctx, rows, q); return err })
				if err != nil {
					return nil, err
				}
				times = append(times, t...)
				for i, query := range rows {
					errs[query] = wrong(query, i, answer)
				}
			}
			return times, nil
		},
		check: func(context.Context) (sum float64, err error) {
			for _, e := range errs {
				sum += e
			}
			if share && len(errs) > 0 {
				sum /= float64(len(errs))
			}
			return sum, nil
		},
	}
}

// decisions adds AnyAbove at both thresholds, in scope and out of scope, and the maximum, which peers compute.
func (s *session) decisions(x *indexedBase, b *benchmark, size int) {
	cutoffs := map[string]float64{"tau=0.55": tau, "tau=cut-off": x.cutoff}
	for _, name := range []string{"tau=0.55", "tau=cut-off"} {
		at := cutoffs[name]
		wrong := func(query int, h engine.Hit, above bool) float64 {
			return failed(above == (x.want.Scores[query][0] > at) &&
				(!above || h.Score > at && x.score(query, h.Row) == h.Score))
		}
		if size > 1 {
			b.competitors = append(b.competitors, searchCompetitor(x, b.shape+" "+name, x.mixed(), size, false,
				func(ctx context.Context, _ []int, q engine.Vectors) ([]engine.Decision, error) {
					return x.engine.AnyAboveAll(ctx, q, x.set.Vectors(), kernels.Cosine, nil, at)
				}, func(query, i int, d []engine.Decision) float64 { return wrong(query, d[i].Hit, d[i].Above) }))
			continue
		}
		type one struct {
			engine.Hit
			above bool
		}
		for _, scope := range x.scopes() {
			b.competitors = append(b.competitors, searchCompetitor(x, b.shape+" "+name+" "+scope.name, scope.rows, 1,
				false, func(ctx context.Context, _ []int, q engine.Vectors) (o one, err error) {
					o.Hit, o.above, err = x.engine.AnyAbove(ctx, q.Data, x.set.Vectors(), kernels.Cosine, nil, at)
					return o, err
				}, func(query, _ int, o one) float64 { return wrong(query, o.Hit, o.above) }))
		}
	}
	b.competitors = append(b.competitors, searchCompetitor(x, b.shape+" maximum", x.mixed(), size, false,
		func(ctx context.Context, _ []int, q engine.Vectors) ([]engine.Hit, error) {
			if size > 1 {
				return x.engine.MaxAll(ctx, q, x.set.Vectors(), kernels.Cosine, nil)
			}
			h, _, err := x.engine.Max(ctx, q.Data, x.set.Vectors(), kernels.Cosine, nil)
			return []engine.Hit{h}, err
		}, func(query, i int, h []engine.Hit) float64 {
			return failed(h[i].Row == x.want.IDs[query][0] && h[i].Score == x.want.Scores[query][0])
		}))
}

func failed(ok bool) float64 {
	if ok {
		return 0
	}
	return 1
}

func (x *indexedBase) score(query, row int) float64 {
	return ref.Score(kernels.Cosine, x.queries.row(query), x.base.row(row))
}

// tops adds TopK.
func (s *session) tops(x *indexedBase, b *benchmark, size int) {
	b.competitors = append(b.competitors, searchCompetitor(x, b.shape, x.mixed(), size, true,
		func(ctx context.Context, _ []int, q engine.Vectors) ([][]engine.Hit, error) {
			return x.engine.TopK(ctx, q, x.set.Vectors(), kernels.Cosine, topK, nil)
		}, func(query, i int, hits [][]engine.Hit) float64 {
			ids := make([]int, len(hits[i]))
			for j, h := range hits[i] {
				ids[j] = h.Row
			}
			if slices.Equal(ids, x.want.IDs[query]) {
				return 0
			}
			return max(missing(ids, x.want.IDs[query]), 1/float64(2*topK)) // a wrong order counts as half an id
		}))
}

// missing returns the share of the wanted ids that were not found.
func missing(got, want []int) float64 {
	n := 0
	for _, id := range want {
		if !slices.Contains(got, id) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(want)))
}

// searchError returns a peer's error: wrong decisions at both cut-offs, or the share of ids missed.
func (o peerOffer) searchError(ctx context.Context, workload string, d *searchData, want best) (worst float64,
	err error) {
	if workload == "w3" {
		var got map[int]float64
		if err := o.result(ctx, &got); err != nil {
			return 0, err
		}
		for query, x := range got {
			best := want.Scores[query][0]
			worst += failed((x > tau) == (best > tau)) + failed((x > d.cutoff) == (best > d.cutoff))
		}
		return worst, nil
	}
	var got map[int][]int
	if err := o.result(ctx, &got); err != nil {
		return 0, err
	}
	for query, ids := range got {
		worst += missing(ids, want.IDs[query]) / float64(len(got))
	}
	return worst, nil
}

// noteChecked notes how many rows of a decision needed their canonical score, over all queries.
func (s *session) noteChecked(ctx context.Context, indexed []*indexedBase) error {
	for _, x := range indexed {
		for _, at := range []float64{tau, x.cutoff} {
			for _, scope := range x.scopes() {
				d, err := x.engine.AnyAboveAll(ctx, x.gather(scope.rows), x.set.Vectors(), kernels.Cosine, nil, at)
				if err != nil {
					return err
				}
				hits, checked := 0, int64(0)
				for _, one := range d {
					if one.Above {
						hits++
					}
					checked += one.Survivors
				}
				s.note("w3 %s %s, tau = %.4f, %s: %.1f %% of %d queries are above; "+
					"%.1f rows a query were checked canonically",
					x.kind(), x.isa, at, scope.name,
					100*float64(hits)/float64(len(d)), len(d), float64(checked)/float64(len(d)))
			}
		}
	}
	return nil
}
