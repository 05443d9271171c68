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
	"github.com/sluice-rag/sluice/kernels/ref"
)

const (
	tau           = 0.55
	seedScan      = uint64(13)
	sameDecisions = 1    // float32 may tip a similarity that equals the cut-off to seven digits
	sameIDs       = 0.01 // and may swap two rows at the tenth place
	ownPerTurn    = 8    // single queries of Sluice's in one turn: it is quick, and their times differ
)

// w3 decides whether any of a million vectors is above a cut-off, for one query and for 32.
func (s *session) w3(ctx context.Context) error {
	return s.scans(ctx, func(ctx context.Context, d *scan) error { return s.searches(ctx, "w3", d, 32, s.decisions) })
}

// w4 finds the ten nearest of a million vectors, for one query and for 64.
func (s *session) w4(ctx context.Context) error {
	return s.scans(ctx, func(ctx context.Context, d *scan) error { return s.searches(ctx, "w4", d, 64, s.tops) })
}

// scans calls visit with a mixture and with real vectors, if there are any.
func (s *session) scans(ctx context.Context, visit func(context.Context, *scan) error) error {
	n, queries := 1_000_000, 512
	if s.o.Short {
		n, queries = 3000, 16
	}
	for _, load := range []func() (*scan, error){
		func() (*scan, error) { return s.mixtureScan(ctx, seedScan, n, queries, 384) },
		func() (*scan, error) { return s.realScan(ctx, n, queries) },
	} {
		d, err := load()
		if errors.Is(err, ErrNoRealVectors) {
			s.note("only the seeded mixture: %v", err)
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(visit(ctx, d), d.close()); err != nil {
			return err
		}
	}
	return nil
}

// searched is a base with its index, for one variant of the engine.
type searched struct {
	variant
	*scan
	index *engine.Index
	truth best
}

// entrants of Sluice for batches of a size.
type searchers func(x *searched, r *race, size int)

// searches races over one query and over a batch; the peers' processes serve both.
func (s *session) searches(ctx context.Context, workload string, d *scan, batch int, add searchers) (err error) {
	if s.o.Short {
		batch = 4
	}
	truth, err := s.bestOf(ctx, d)
	if err != nil {
		return err
	}
	variants, err := s.variants(kernels.F32) // the best set and AVX2; the index chooses its types itself
	if err != nil {
		return err
	}
	var indexed []*searched
	for _, v := range variants {
		v.dtype = kernels.I8
		s.log("%s: indexing %d vectors with %s", workload, d.base.Rows, v.isa)
		begin := time.Now()
		index, err := v.engine.Index(ctx, d.base.Vectors, kernels.Cosine, engine.IndexOptions{})
		if err != nil {
			return err
		}
		st := index.Describe()
		s.note("%s %s: index with %s: %.1f s, %d bytes a vector beside it, %d groups; %s %s", workload, d.kind(), v.isa, time.Since(begin).Seconds(),
			st.Bytes/int64(max(1, st.Rows)), st.Clusters, st.Kernel, st.Reason)
		indexed = append(indexed, &searched{v, d, index, truth})
	}
	params := map[string]any{"base": d.base.path, "queries": d.queries.path, "batch": batch, "k": topK}
	crew, offers, err := s.recruit(ctx, workload, params)
	defer func() { err = errors.Join(err, crew.close()) }()
	if err != nil {
		return err
	}
	for _, size := range []int{1, batch} {
		n := float64(d.base.Rows)
		r := &race{
			workload: workload, shape: fmt.Sprintf("%dx%d %s q=%d", d.base.Rows, d.base.Dim, d.kind(), size), pairs: n * float64(size),
			operations: cosineWork * n * float64(size) * float64(d.base.Dim), bytes: floatBytes * n * float64(d.base.Dim), rounds: s.rounds(5),
			tolerance: sameDecisions,
		}
		if workload == "w4" {
			r.tolerance = sameIDs
		}
		if size == 1 {
			r.rounds = s.rounds(30)
		}
		for _, x := range indexed {
			add(x, r, size)
		}
		mixed := d.mixed()
		for _, o := range offers {
			if o.Batch == size {
				r.entrants = append(r.entrants, o.entrant(func(turn int) [][]int { return batches(mixed, size, 1, turn) },
					func(ctx context.Context) (float64, error) { return o.searchFault(ctx, workload, d, truth) }))
			}
		}
		if err := s.run(ctx, r); err != nil {
			return err
		}
	}
	if workload == "w3" {
		return s.survivors(ctx, indexed)
	}
	return nil
}

// kind is mixture or real.
func (d *scan) kind() string {
	kind, _, _ := strings.Cut(d.name, "-")
	return kind
}

// scope is a part of the queries, by their rows.
type scope struct {
	name string
	rows []int
}

func (d *scan) scopes() []scope {
	in, out := scope{name: "in scope"}, scope{name: "out of scope"}
	for i := range d.queries.Rows / 2 {
		in.rows, out.rows = append(in.rows, i), append(out.rows, d.queries.Rows/2+i)
	}
	return []scope{in, out}
}

// mixed are all queries, in scope and out of it in turn.
func (d *scan) mixed() (all []int) {
	for i := range d.queries.Rows / 2 {
		all = append(all, i, d.queries.Rows/2+i)
	}
	return all
}

// gather copies queries beside each other.
func (d *scan) gather(rows []int) engine.Vectors {
	v := engine.Vectors{Rows: len(rows), Dim: d.queries.Dim}
	for _, r := range rows {
		v.Data = append(v.Data, d.queries.row(r)...)
	}
	return v
}

// question is an entrant of Sluice's that is asked for size queries of a list at a time. wrong judges its
// answer, which is not timed; the fault is the sum over all queries, or their share.
func question[T any](x *searched, shape string, list []int, size int, share bool,
	ask func(ctx context.Context, q engine.Vectors) (T, error), wrong func(query, i int, answer T) float64) *entrant {
	per := 1
	if size == 1 {
		per = ownPerTurn
	}
	faults := map[int]float64{}
	row := x.own("exact")
	row.Shape = shape
	return &entrant{
		Row: row, kind: kernels.F32, // the yardstick of all: one reading of the vectors as they are stored
		run: func(ctx context.Context, turn int) (times []time.Duration, err error) {
			for _, rows := range batches(list, size, per, turn) {
				q := x.gather(rows)
				var answer T
				t, err := timeIt(func() (err error) { answer, err = ask(ctx, q); return err })
				if err != nil {
					return nil, err
				}
				times = append(times, t...)
				for i, query := range rows {
					faults[query] = wrong(query, i, answer)
				}
			}
			return times, nil
		},
		fault: func(context.Context) (sum float64, err error) {
			for _, f := range faults {
				sum += f
			}
			if share && len(faults) > 0 {
				sum /= float64(len(faults))
			}
			return sum, nil
		},
	}
}

// decisions adds AnyAbove at both cut-offs, in scope and out of it, and the maximum, which is what peers compute.
func (s *session) decisions(x *searched, r *race, size int) {
	cutoffs := map[string]float64{"tau=0.55": tau, "tau=cut-off": x.cutoff}
	for _, name := range []string{"tau=0.55", "tau=cut-off"} {
		at := cutoffs[name]
		wrong := func(query int, h engine.Hit, above bool) float64 {
			return failed(above == (x.truth.Scores[query][0] > at) && (!above || h.Score > at && x.score(query, h.Row) == h.Score))
		}
		if size > 1 {
			r.entrants = append(r.entrants, question(x, r.shape+" "+name, x.mixed(), size, false, func(ctx context.Context, q engine.Vectors) ([]engine.Decision, error) {
				return x.index.AnyAboveAll(ctx, q, nil, at)
			}, func(query, i int, d []engine.Decision) float64 { return wrong(query, d[i].Hit, d[i].Above) }))
			continue
		}
		type one struct {
			engine.Hit
			above bool
		}
		for _, scope := range x.scopes() {
			r.entrants = append(r.entrants, question(x, r.shape+" "+name+" "+scope.name, scope.rows, 1, false, func(ctx context.Context, q engine.Vectors) (o one, err error) {
				o.Hit, o.above, err = x.index.AnyAbove(ctx, q.Data, nil, at)
				return o, err
			}, func(query, _ int, o one) float64 { return wrong(query, o.Hit, o.above) }))
		}
	}
	r.entrants = append(r.entrants, question(x, r.shape+" maximum", x.mixed(), size, false, func(ctx context.Context, q engine.Vectors) ([]engine.Hit, error) {
		if size > 1 {
			return x.index.MaxAll(ctx, q, nil)
		}
		h, _, err := x.index.Max(ctx, q.Data, nil)
		return []engine.Hit{h}, err
	}, func(query, i int, h []engine.Hit) float64 {
		return failed(h[i].Row == x.truth.IDs[query][0] && h[i].Score == x.truth.Scores[query][0])
	}))
}

func failed(ok bool) float64 {
	if ok {
		return 0
	}
	return 1
}

func (x *searched) score(query, row int) float64 {
	return ref.Score(kernels.Cosine, x.queries.row(query), x.base.row(row))
}

// tops adds TopK.
func (s *session) tops(x *searched, r *race, size int) {
	r.entrants = append(r.entrants, question(x, r.shape, x.mixed(), size, true, func(ctx context.Context, q engine.Vectors) ([][]engine.Hit, error) {
		return x.index.TopK(ctx, q, topK, nil)
	}, func(query, i int, hits [][]engine.Hit) float64 {
		ids := make([]int, len(hits[i]))
		for j, h := range hits[i] {
			ids[j] = h.Row
		}
		if slices.Equal(ids, x.truth.IDs[query]) {
			return 0
		}
		return max(missing(ids, x.truth.IDs[query]), 1/float64(2*topK)) // an order that is wrong counts half an id
	}))
}

// missing is the share of the wanted ids that were not found.
func missing(got, want []int) float64 {
	n := 0
	for _, id := range want {
		if !slices.Contains(got, id) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(want)))
}

// searchFault judges a peer: wrong decisions at either cut-off, or the share of ids missed.
func (o recruit) searchFault(ctx context.Context, workload string, d *scan, truth best) (fault float64, err error) {
	if workload == "w3" {
		var got map[int]float64
		if err := o.result(ctx, &got); err != nil {
			return 0, err
		}
		for query, x := range got {
			want := truth.Scores[query][0]
			fault += failed((x > tau) == (want > tau)) + failed((x > d.cutoff) == (want > d.cutoff))
		}
		return fault, nil
	}
	var got map[int][]int
	if err := o.result(ctx, &got); err != nil {
		return 0, err
	}
	for query, ids := range got {
		fault += missing(ids, truth.IDs[query]) / float64(len(got))
	}
	return fault, nil
}

// survivors notes how much a decision had to look at, for all queries.
func (s *session) survivors(ctx context.Context, indexed []*searched) error {
	for _, x := range indexed {
		for _, at := range []float64{tau, x.cutoff} {
			for _, scope := range x.scopes() {
				d, err := x.index.AnyAboveAll(ctx, x.gather(scope.rows), nil, at)
				if err != nil {
					return err
				}
				hits, survivors := 0, int64(0)
				for _, one := range d {
					if one.Above {
						hits++
					}
					survivors += one.Survivors
				}
				s.note("w3 %s %s, tau = %.4f, %s: %.1f %% of %d queries are above; %.1f rows a query were checked canonically", x.kind(), x.isa, at, scope.name,
					100*float64(hits)/float64(len(d)), len(d), float64(survivors)/float64(len(d)))
			}
		}
	}
	return nil
}
