package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// expected is the reference that a set must agree with: rows by number, with nil for deleted ones.
type expected struct {
	metric kernels.Metric
	rows   [][]float32
}

func (j *expected) topK(q []float32, bias Biases, k int) []Hit {
	var live [][]float32
	var number []int
	shifted, all := map[int]float64{}, biasMap(bias)
	for i, row := range j.rows {
		if row != nil {
			shifted[len(live)] = all[i]
			live, number = append(live, row), append(number, i)
		}
	}
	hits := refHits(ref.TopK(j.metric, q, live, shifted, k))
	for i := range hits {
		hits[i].Row = number[hits[i].Row]
	}
	return hits
}

// check compares all operations for the queries, including decisions at the boundary.
func (j *expected) check(t testing.TB, x searches, queries Vectors, bias []Biases, k int) {
	t.Helper()
	ctx := context.Background()
	all, err := x.TopK(ctx, queries, k, bias)
	if err != nil {
		t.Fatal(err)
	}
	best, err := x.MaxAll(ctx, queries, bias)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range rows(queries) {
		var list Biases
		if bias != nil {
			list = bias[i]
		}
		want := j.topK(q, list, k)
		if diff := difference(want, append([]Hit(nil), all[i]...)); diff != "" {
			t.Fatalf("%s query %d of %d, TopK (-ref +got):\n%s", j.metric, i, queries.Rows, diff)
		}
		one, ok, err := x.Max(ctx, q, list)
		if len(want) == 0 {
			want = []Hit{{Row: -1, Score: j.metric.Worst()}}
		}
		if err != nil || ok != (want[0].Row >= 0) || one != want[0] || best[i] != want[0] {
			t.Fatalf("%s query %d: Max %v %v %v, MaxAll %v, want %v", j.metric, i, one, ok, err, best[i], want[0])
		}
		j.boundary(t, x, queries, bias, i, want)
	}
}

// boundary checks that nothing lies above the canonical maximum, and that at the next lower float64 a correct witness
// is found.
func (j *expected) boundary(t testing.TB, x searches, queries Vectors, bias []Biases, i int, want []Hit) {
	t.Helper()
	ctx, q := context.Background(), rows(queries)[i]
	var list Biases
	if bias != nil {
		list = bias[i]
	}
	if want[0].Row < 0 {
		if h, above, err := x.AnyAbove(ctx, q, list, 0); above || err != nil || h.Row != -1 {
			t.Fatalf("AnyAbove of nothing: %v %v %v", h, above, err)
		}
		return
	}
	last := want[len(want)-1].Score
	for _, tau := range []float64{want[0].Score, math.Nextafter(want[0].Score, j.metric.Worst()), last,
		math.Nextafter(last, j.metric.Worst()), j.metric.Worst()} {
		open := j.metric.Better(want[0].Score, tau)
		h, above, err := x.AnyAbove(ctx, q, list, tau)
		if err != nil || above != open || !j.witness(q, list, h, above, tau) {
			t.Fatalf("%s query %d, tau %v, maximum %v: %v %v %v", j.metric, i, tau, want[0], h, above, err)
		}
	}
	if i >= 2 {
		return // the other queries of the batch are compared every time
	}
	tau := want[0].Score // the threshold of this query; the others have arbitrary ones
	if i%2 == 0 {
		tau = math.Nextafter(tau, j.metric.Worst())
	}
	decisions, err := x.AnyAboveAll(ctx, queries, bias, tau)
	if err != nil || len(decisions) != queries.Rows {
		t.Fatal(err)
	}
	for n, d := range decisions {
		var list Biases
		if bias != nil {
			list = bias[n]
		}
		other := rows(queries)[n]
		if top := j.topK(other, list, 1); d.Above != j.metric.Better(top[0].Score, tau) ||
			!j.witness(other, list, d.Hit, d.Above, tau) {
			t.Fatalf("%s query %d of %d, tau %v: %+v, maximum %v", j.metric, n, queries.Rows, tau, d, top)
		}
	}
}

// witness reports whether h is a correct result of that decision.
func (j *expected) witness(q []float32, bias Biases, h Hit, above bool, tau float64) bool {
	if !above {
		return h == Hit{Row: -1, Score: j.metric.Worst()}
	}
	if h.Row < 0 || h.Row >= len(j.rows) || j.rows[h.Row] == nil {
		return false
	}
	score := j.metric.Biased(ref.Score(j.metric, q, j.rows[h.Row]), biasMap(bias)[h.Row])
	return score == h.Score && j.metric.Better(score, tau)
}

// TestIndexEqualsReference compares with the reference for each metric, instruction set and shape, with degenerate and
// with typical vectors.
func TestIndexEqualsReference(t *testing.T) {
	race.Skip(t)
	for _, isa := range isas() {
		t.Run(isa.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(71, uint64(isa)))
			e := newEngine(t, Options{ISA: isa.String(), Threads: 3})
			for _, dim := range []int{1, 64, 130} {
				for _, n := range []int{0, 17, 140} {
					for _, metric := range metrics {
						c, q := vectors(rng, n, dim, dim+rng.IntN(3)), vectors(rng, 5, dim, dim)
						if n%2 == 1 {
							c, q = plain(rng, n, dim), plain(rng, 9, dim)
						}
						if n > 0 {
							copy(q.Data[2*q.Dim:3*q.Dim], rows(c)[n/2]) // a query that equals a row
						}
						j := &expected{metric, rows(c)}
						x := prepare(t, e, c, metric, SetOptions{Clusters: rng.IntN(5)})
						t.Logf("%d×%d %s", n, dim, metric)
						j.check(t, x, q, nil, 1+rng.IntN(20))
						bias := make([]Biases, q.Rows)
						for i := range bias {
							bias[i] = randomBias(rng, n)
						}
						j.check(t, x, q, bias, 3)
					}
				}
			}
		})
	}
}

// TestIndexBoundaries checks 10⁴ queries on each side of the boundary, including duplicates among the rows and queries
// equal to rows, over enough chunks for sampling and helpers.
func TestIndexBoundaries(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(73, 1))
	e, ctx := newEngine(t, Options{}), context.Background()
	for n, metric := range metrics {
		size := 8000
		if !scan.Has(e.r.Host) {
			size = 500 // without C kernels, a row takes about fifty times as long
		}
		c := plain(rng, size, 70)
		x := prepare(t, e, c, metric, SetOptions{Clusters: 200})
		if s := x.Describe(); s.Chunks < 72 && s.Plain == 0 {
			t.Fatalf("%d chunks are too few", s.Chunks)
		}
		const block = 500
		for from := 0; from < 3500-500*(n%2); from += block {
			q := plain(rng, block, 70)
			for i := 0; i < block; i += 3 {
				copy(q.Data[i*70:(i+1)*70], rows(c)[rng.IntN(c.Rows)])
			}
			want, err := e.TopK(ctx, q, c, metric, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.MaxAll(ctx, q, nil)
			if err != nil {
				t.Fatal(err)
			}
			j := &expected{metric, rows(c)}
			for i, h := range want {
				if got[i] != h[0] {
					t.Fatalf("%s query %d: MaxAll %v, want %v", metric, from+i, got[i], h[0])
				}
				if _, above, err := x.AnyAbove(ctx, rows(q)[i], nil, h[0].Score); above || err != nil {
					t.Fatalf("%s query %d: open at the maximum %v, %v", metric, from+i, h[0], err)
				}
				below := math.Nextafter(h[0].Score, metric.Worst())
				if w, above, err := x.AnyAbove(ctx, rows(q)[i], nil, below); err != nil || !above ||
					!j.witness(rows(q)[i], nil, w, above, below) {
					t.Fatalf("%s query %d: %v %v below the maximum %v, %v", metric, from+i, w, above, h[0], err)
				}
			}
		}
	}
}

// onlySet runs the engine's operations on some rows of a set.
type onlySet struct {
	preparedSet
	v Vectors
}

func (x onlySet) TopK(ctx context.Context, q Vectors, k int, bias []Biases) ([][]Hit, error) {
	return x.e.TopK(ctx, q, x.v, x.Metric(), k, bias)
}

func (x onlySet) MaxAll(ctx context.Context, q Vectors, bias []Biases) ([]Hit, error) {
	return x.e.MaxAll(ctx, q, x.v, x.Metric(), bias)
}

func (x onlySet) AnyAboveAll(ctx context.Context, q Vectors, bias []Biases, tau float64) ([]Decision, error) {
	return x.e.AnyAboveAll(ctx, q, x.v, x.Metric(), bias, tau)
}

func (x onlySet) Max(ctx context.Context, q []float32, bias Biases) (best Hit, ok bool, err error) {
	return x.e.Max(ctx, q, x.v, x.Metric(), bias)
}

func (x onlySet) AnyAbove(ctx context.Context, q []float32, bias Biases, tau float64) (Hit, bool, error) {
	return x.e.AnyAbove(ctx, q, x.v, x.Metric(), bias, tau)
}

// TestSomeRowsOfASet checks that a search of selected rows returns what it would return if the other rows were
// deleted, whether or not the selection coincides with the parts that the index was built for, and after appends and
// deletions.
func TestSomeRowsOfASet(t *testing.T) {
	race.Skip(t)
	e, ctx := newEngine(t, Options{Threads: 3}), context.Background()
	if !scan.Has(e.r.Host) {
		t.Skip("SKIP: no index on this machine")
	}
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		metric, dim := rapid.SampledFrom(metrics).Draw(t, "metric"), rapid.SampledFrom([]int{3, 70}).Draw(t, "dim")
		n, count := rapid.IntRange(1, 6000).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "parts")
		v := plain(rng, n, dim)
		if rapid.Bool().Draw(t, "nasty") {
			n = min(n, 300)
			v = vectors(rng, n, dim, dim)
		}
		parts := make([]int32, n)
		for i := range parts {
			parts[i] = int32(min(rng.IntN(count), n-1)) // some parts may be empty
		}
		clusters := rapid.IntRange(0, 90).Draw(t, "clusters")
		s, err := e.Prepare(ctx, v, metric, SetOptions{Parts: parts, Clusters: clusters})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, b := range s.Blocks() {
			for i := range b.Len {
				if b.Number >= 0 && parts[b.Row(i)] != parts[b.Row(0)] {
					t.Fatalf("block %d has rows of the parts %d and %d", b.Number, parts[b.Row(0)], parts[b.Row(i)])
				}
			}
		}
		all := rows(v)
		if rapid.Bool().Draw(t, "append") {
			more := plain(rng, rapid.SampledFrom([]int{1, 1500}).Draw(t, "more"), dim)
			if err := s.Append(ctx, more); err != nil {
				t.Fatal(err)
			}
			all = append(all, rows(more)...)
		}
		for range rapid.IntRange(0, 3).Draw(t, "deleted") {
			row := rng.IntN(len(all))
			if err := s.Delete(row); err != nil {
				t.Fatal(err)
			}
			all[row] = nil
		}
		wanted := rapid.SampledFrom([]string{"a part", "some", "all", "none"}).Draw(t, "wanted")
		var some []int
		for row := range all {
			inPart, drawn := row < n && parts[row] == 0, rng.IntN(3) == 0
			if wanted == "all" || wanted == "a part" && inPart || wanted == "some" && drawn {
				some = append(some, row)
				continue
			}
			all[row] = nil
		}
		only, ok, err := Only(ctx, s.Vectors(), some)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		j, x := &expected{metric, all}, onlySet{preparedSet{s}, only}
		q, bias := plain(rng, rapid.SampledFrom([]int{1, 4}).Draw(t, "queries"), dim), []Biases(nil)
		if rapid.Bool().Draw(t, "biases") {
			for range q.Rows {
				bias = append(bias, randomBias(rng, len(all)))
			}
		}
		j.checkMachine(t, x, q, bias)
	})
}

// TestSomeRowsAreOnlySearched checks which operations reject a selection.
func TestSomeRowsAreOnlySearched(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	if !scan.Has(e.r.Host) {
		t.Skip("SKIP: no index on this machine")
	}
	v := plain(rand.New(rand.NewPCG(1, 1)), 50, 4)
	s := prepare(t, e, v, kernels.Cosine, SetOptions{})
	for _, wrong := range [][]int{{3, 3}, {4, 1}, {-1}, {50}} {
		if _, _, err := Only(ctx, s.Vectors(), wrong); !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	some, ok, err := Only(ctx, s.Vectors(), []int{1, 7})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := e.Matrix(ctx, make([]float32, 50*50), v, some, kernels.Cosine); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("a matrix: %v", err)
	}
	if hits, err := e.TopK(ctx, v, some, kernels.L2, 9, nil); err != nil || len(hits[0]) != 2 { // another metric
		t.Errorf("%v, %v", hits, err)
	}
	if _, ok, err := Only(ctx, v, []int{1}); ok || err != nil {
		t.Errorf("of plain vectors: %v, %v", ok, err)
	}
	if _, ok, err := Only(ctx, prepare(t, e, v, kernels.Cosine, SetOptions{NoIndex: true}).Vectors(), []int{1}); ok ||
		err != nil {
		t.Errorf("without an index: %v, %v", ok, err)
	}
	for _, parts := range [][]int32{
		{0}, make([]int32, 51), append(make([]int32, 49), 50), append(make([]int32, 49), -1),
	} {
		_, err := e.Prepare(ctx, v, kernels.Cosine, SetOptions{Parts: parts})
		if !errors.Is(err, kernels.ErrShape) && !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%d parts, the last %d: %v", len(parts), parts[len(parts)-1], err)
		}
	}
	s.Close()
	if _, err := e.TopK(ctx, v, some, kernels.Cosine, 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, _, err := Only(ctx, some, []int{1}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestIndexBiasesOfTheFirstChunk checks that rows of the chunk that sets the first bar are not lost if their bias
// lifts them above it, whatever their distance.
func TestIndexBiasesOfTheFirstChunk(t *testing.T) {
	race.Skip(t)
	e, rng := newEngine(t, Options{}), rand.New(rand.NewPCG(3, 1))
	for _, metric := range metrics {
		for range 50 {
			v, q := plain(rng, 40+rng.IntN(200), 70), plain(rng, 1+rng.IntN(3), 70)
			x, j := prepare(t, e, v, metric, SetOptions{}), &expected{metric, rows(v)}
			for row := range v.Rows { // keep only a few rows, so that the bar is low
				if rng.IntN(3) > 0 {
					j.rows[row] = nil
					if err := x.Delete(row); err != nil {
						t.Fatal(err)
					}
				}
			}
			var bias []Biases
			for range q.Rows {
				bias = append(bias, randomBias(rng, v.Rows))
			}
			got, err := x.TopK(t.Context(), q, 4, bias)
			if err != nil {
				t.Fatal(err)
			}
			for i, vector := range rows(q) {
				if diff := difference(j.topK(vector, bias[i], 4), got[i]); diff != "" {
					t.Fatalf("%v, %d rows, query %d (-ref +got):\n%s", metric, v.Rows, i, diff)
				}
			}
			x.Close()
		}
	}
}

// TestIndexMachine appends, deletes and searches in random order (a state machine).
func TestIndexMachine(t *testing.T) {
	race.Skip(t)
	budget := newEngine(t, Options{}).r.Pool.Budget
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		dim := rapid.SampledFrom([]int{3, 20, 70}).Draw(t, "dim")
		e, err := open(Options{Cores: budget, Threads: 3})
		if err != nil {
			t.Fatal(err)
		}
		j := &expected{metric: rapid.SampledFrom(metrics).Draw(t, "metric")}
		first := vectors(rng, rapid.IntRange(0, 60).Draw(t, "first"), dim, dim)
		s, err := e.Prepare(context.Background(), first, j.metric, SetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		x := preparedSet{s}
		j.rows = rows(first)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{0, 1, 3, 40, 1030}).Draw(t, "rows")
				if len(j.rows) > 2000 {
					n = min(n, 3)
				}
				v := vectors(rng, n, dim, dim+1)
				if err := x.Append(context.Background(), v); err != nil {
					t.Fatal(err)
				}
				j.rows = append(j.rows, rows(v)...)
			},
			"delete": func(t *rapid.T) {
				if len(j.rows) == 0 {
					return
				}
				for range 3 {
					row := rng.IntN(len(j.rows))
					if err := x.Delete(row); err != nil {
						t.Fatal(err)
					}
					j.rows[row] = nil
				}
			},
			"ask": func(t *rapid.T) {
				q, bias := vectors(rng, 2, dim, dim), []Biases(nil)
				if rng.IntN(2) == 0 {
					bias = []Biases{randomBias(rng, len(j.rows)), nil}
				}
				j.checkMachine(t, x, q, bias)
			},
			"": func(t *rapid.T) {
				if s := x.Describe(); s.Rows != len(j.rows) || x.Rows() != len(j.rows) || s.Rows > 0 && s.Dim != dim {
					t.Fatalf("%+v after %d rows", s, len(j.rows))
				}
			},
		})
	})
}

func (j *expected) checkMachine(t *rapid.T, x searches, q Vectors, bias []Biases) {
	got, err := x.TopK(context.Background(), q, 4, bias)
	if err != nil {
		t.Fatal(err)
	}
	for i, vector := range rows(q) {
		var list Biases
		if bias != nil {
			list = bias[i]
		}
		want := j.topK(vector, list, 4)
		if diff := difference(want, append([]Hit(nil), got[i]...)); diff != "" {
			t.Fatalf("query %d (-ref +got):\n%s", i, diff)
		}
		if len(want) == 0 {
			continue
		}
		below := math.Nextafter(want[0].Score, j.metric.Worst())
		w, above, err := x.AnyAbove(context.Background(), vector, list, below)
		if err != nil || !above || !j.witness(vector, list, w, above, below) {
			t.Fatalf("query %d: %v %v %v, maximum %v", i, w, above, err, want[0])
		}
		if w, above, err := x.AnyAbove(context.Background(), vector, list, want[0].Score); above || err != nil {
			t.Fatalf("query %d: %v %v at the maximum %v", i, w, err, want[0])
		}
	}
}

// TestIndexErrors checks that bad input is refused with its position and leaves the index unchanged.
func TestIndexErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(79, 1))
	e, ctx := newEngine(t, Options{}), context.Background()
	c, q := plain(rng, 50, 9), plain(rng, 1, 9)
	x := prepare(t, e, c, kernels.Cosine, SetOptions{})
	bad := plain(rng, 5, 9)
	bad.Data[3*9+7] = float32(math.Inf(1))
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	index := func(v Vectors, m kernels.Metric, o SetOptions) error { _, err := e.Prepare(ctx, v, m, o); return err }
	above := func(v []float32, b Biases, tau float64) error { _, _, err := x.AnyAbove(ctx, v, b, tau); return err }
	topK := func(v Vectors, k int, b []Biases) error { _, err := x.TopK(ctx, v, k, b); return err }
	all := func(tau float64) error { _, err := x.AnyAboveAll(ctx, plain(rng, 3, 9), nil, tau); return err }
	_, _, cancelOne := x.Max(canceled, q.Data, nil)
	_, cancelMany := x.MaxAll(canceled, plain(rng, 3, 9), nil)
	_, cancelBuild := e.Prepare(canceled, c, kernels.IP, SetOptions{})
	for name, tt := range map[string]struct{ err, want error }{
		"metric":   {index(c, 9, SetOptions{}), kernels.ErrMetric},
		"clusters": {index(c, kernels.IP, SetOptions{Clusters: -1}), kernels.ErrArgument},
		"shape": {index(Vectors{Data: c.Data[:8], Rows: 1, Dim: 9}, kernels.IP, SetOptions{}),
			kernels.ErrShape},
		"build infinite":  {index(bad, kernels.L2, SetOptions{}), kernels.ErrNonFinite},
		"append infinite": {x.Append(ctx, bad), kernels.ErrNonFinite},
		"append shape":    {x.Append(ctx, plain(rng, 3, 8)), kernels.ErrShape},
		"delete":          {x.Delete(50), kernels.ErrArgument},
		"delete below":    {x.Delete(-1), kernels.ErrArgument},
		"query dim":       {above(q.Data[:8], nil, 0), kernels.ErrShape},
		"query infinite":  {above(bad.Data[27:36], nil, 0), kernels.ErrNonFinite},
		"queries":         {topK(bad, 2, nil), kernels.ErrNonFinite},
		"tau":             {above(q.Data, nil, math.NaN()), kernels.ErrNonFinite},
		"tau of all":      {all(math.NaN()), kernels.ErrNonFinite},
		"bias":            {above(q.Data, BiasList{{Row: 50, Value: 1}}, 0), kernels.ErrArgument},
		"bias of many": {topK(plain(rng, 2, 9), 1, []Biases{nil, BiasList{{Row: 1, Value: -1}}}),
			kernels.ErrArgument},
		"bias lists":      {topK(plain(rng, 2, 9), 1, make([]Biases, 1)), kernels.ErrShape},
		"k":               {topK(q, 0, nil), kernels.ErrArgument},
		"cancelled one":   {cancelOne, context.Canceled},
		"cancelled many":  {cancelMany, context.Canceled},
		"cancelled build": {cancelBuild, context.Canceled},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
	if text := fmt.Sprint(x.Append(ctx, bad)); text != "engine: vectors: non-finite value: row 3, column 7 is +Inf" {
		t.Error(text)
	}
	if x.Rows() != 50 {
		t.Errorf("%d rows after refused ones", x.Rows())
	}
	(&expected{kernels.Cosine, rows(c)}).check(t, x, plain(rng, 3, 9), nil, 2)
}
