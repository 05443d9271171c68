package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/statistics"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

var table = testvectors.Quantiles()

// refDistribution is the naive algorithm, from the definitions in the documentation.
func refDistribution(in DistributionInput) (*Distribution, []ref.Pair) {
	c, q := rows(in.Contexts), rows(in.Queries)
	group := func(row int) int32 {
		if in.Group == nil {
			return 0
		}
		return in.Group[row]
	}
	own := func(qi int) int { return int(in.Owner[qi]) }
	foreign := func(qi, ci int) bool { return group(ci) != group(own(qi)) }
	other := foreign
	if in.Group == nil {
		other = func(qi, ci int) bool { return ci != own(qi) }
	}
	negative := func(qi, ci int) bool { return ci != own(qi) }
	switch in.Negatives.Kind {
	case NegativesCrossGroup:
		negative = foreign
	case NegativesSample:
		sets := make([][]int32, len(q))
		for i := range q {
			sets[i] = ref.Foreign(nil, in.Negatives.Seed, i, own(i), len(c), in.Negatives.PerQuery)
		}
		negative = func(qi, ci int) bool { return slices.Contains(sets[qi], int32(ci)) }
	}
	pos := ref.Pairs(in.Metric, c, q, func(qi, ci int) bool { return ci == own(qi) })
	neg := ref.Pairs(in.Metric, c, q, negative)
	all, others := ref.Pairs(in.Metric, c, q, func(int, int) bool { return true }), ref.Pairs(in.Metric, c, q, other)
	for _, pairs := range [][]ref.Pair{pos, neg, all, others} {
		addBias(in, pairs)
	}
	best, bestOther := ref.Best(in.Metric, all, len(q)), ref.Best(in.Metric, others, len(q))

	d := &Distribution{
		Positive: make([]float64, len(q)), Best: make([]float64, len(q)), BestOther: make([]float64, len(q)),
		BestRow: make([]int32, len(q)), BestOtherRow: make([]int32, len(q)),
	}
	for i := range q {
		d.Positive[i] = pos[i].Score
		d.Best[i], d.BestRow[i] = best[i].Score, best[i].Context
		d.BestOther[i], d.BestOtherRow[i] = bestOther[i].Score, bestOther[i].Context
	}
	d.PositiveSummary, d.NegativeSummary, d.Max = refSummary(in, pos), refSummary(in, neg), refSummary(in, best)
	if in.Bins > 0 {
		d.NegativeHistogram = ref.Histogram(neg, in.Bins)
	}
	d.Separation, d.DType = ref.Separation(in.Metric, pos, neg), "f64"
	return d, neg
}

// addBias adds the input's bias, one pair at a time.
func addBias(in DistributionInput, pairs []ref.Pair) {
	for i, p := range pairs {
		if in.Bias == nil {
			return
		}
		var b [1]float32
		if err := in.Bias(context.Background(), []int32{p.Query}, []int32{p.Context}, b[:]); err != nil {
			panic(err)
		}
		pairs[i].Score = in.Metric.Biased(p.Score, float64(b[0]))
	}
}

// TestBiasedDistribution: a bias of every pair, delivered by blocks, gives what the reference gives with it added pair
// by pair; one that is negative or no number is refused with its pair.
func TestBiasedDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(91, 1))
	bias := func(_ context.Context, queries, contexts []int32, out []float32) error {
		for i, q := range queries {
			for j, c := range contexts {
				out[i*len(contexts)+j] = float32((int(q)*31+int(c)*17)%23%7) / 16 // most pairs have some
			}
		}
		return nil
	}
	for _, metric := range metrics {
		for _, groups := range []int32{0, 3} {
			for _, kind := range []NegativeKind{NegativesAll, NegativesCrossGroup, NegativesSample} {
				in := randomInput(rng, 60, 90, 9, groups, kind, metric)
				in.Contexts, in.Queries, in.Bias = plain(rng, 60, 9), plain(rng, 90, 9), bias
				want, _ := refDistribution(in)
				got, err := newEngine(t, Options{TileRows: 7}).Distribution(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				want.Way = got.Way
				if diff := difference(want, got); diff != "" {
					t.Errorf("%v groups %d kind %d (-ref +got):\n%s", metric, groups, kind, diff)
				}
			}
		}
	}
	in := randomInput(rng, 60, 90, 9, 0, NegativesAll, kernels.Cosine)
	failed := errors.New("no postings")
	for _, c := range []struct {
		value float32
		err   error
		want  error
	}{{-1, nil, kernels.ErrArgument}, {float32(math.NaN()), nil, kernels.ErrNonFinite}, {0, failed, failed}} {
		in.Bias = func(_ context.Context, _, contexts []int32, out []float32) error {
			for i := range out {
				if contexts[i%len(contexts)] == 41 {
					out[i] = c.value
				}
			}
			return c.err
		}
		if d, err := newEngine(t, Options{}).Distribution(context.Background(), in); d != nil ||
			!errors.Is(err, c.want) {
			t.Errorf("bias %v: %v", c.value, err)
		}
	}
}

// refSummary returns the reference's summary of some pairs.
func refSummary(in DistributionInput, pairs []ref.Pair) Summary {
	r := ref.Summarise(pairs, in.Quantiles)
	s := Summary{N: r.N, Mean: r.Mean, Std: r.Std, Quantiles: r.Quantiles}
	s.Min, s.MinQuery, s.MinContext = r.Min.Score, r.Min.Query, r.Min.Context
	s.Max, s.MaxQuery, s.MaxContext = r.Max.Score, r.Max.Query, r.Max.Context
	if in.Interval {
		s.Low, s.High = r.Quantiles, r.Quantiles
	}
	return s
}

func randomInput(rng *rand.Rand, n, m, dim int, groups int32, kind NegativeKind,
	metric kernels.Metric) DistributionInput {
	in := DistributionInput{
		Contexts: vectors(rng, n, dim, dim+rng.IntN(3)), Queries: vectors(rng, m, dim, dim+rng.IntN(3)),
		Metric: metric, Quantiles: append([]float64{rng.Float64()}, table...), Bins: 1 + rng.IntN(20),
		Negatives: Negatives{Kind: kind, PerQuery: 1 + rng.IntN(max(n, 1)), Seed: rng.Uint64()},
	}
	for range m {
		in.Owner = append(in.Owner, int32(rng.IntN(n)))
	}
	if groups > 0 {
		for range n {
			in.Group = append(in.Group, rng.Int32N(groups))
		}
	}
	return in
}

// TestCanonicalDistribution: what is small is scored canonically, and equal in every bit; the mean of a cosine, which
// comes of sums of vectors, within its error.
func TestCanonicalDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	all := engines(t)
	e := newEngine(t, Options{TileRows: 5})
	e.tune.Kept = 1 // nothing fits: ranks by counting
	all["no room"] = e
	for _, metric := range metrics {
		for kind := NegativesAll; kind <= NegativesSample; kind++ {
			for _, groups := range []int32{0, 1, 4} {
				for _, shape := range [][3]int{{1, 1, 1}, {1, 5, 9}, {2, 3, 8}, {9, 0, 4}, {23, 31, 33}} {
					in := randomInput(rng, shape[0], shape[1], shape[2], groups, kind, metric)
					want, _ := refDistribution(in)
					for name, e := range all {
						got, err := e.Distribution(context.Background(), in)
						if err != nil {
							t.Fatalf("%s %v %v: %v", name, metric, shape, err)
						}
						want := *want
						want.Way = got.Way
						if s := &got.NegativeSummary; metric == kernels.Cosine && s.MeanError > 0 {
							if math.Abs(s.Mean-want.NegativeSummary.Mean) > s.MeanError || s.MeanError > 1e-13 {
								t.Errorf("mean %v ± %v, not %v", s.Mean, s.MeanError, want.NegativeSummary.Mean)
							}
							want.NegativeSummary.Mean, want.NegativeSummary.MeanError = s.Mean, s.MeanError
						}
						if diff := difference(&want, got); diff != "" {
							t.Fatalf("%s %v kind %d groups %d %v (-ref +got):\n%s", name, metric, kind, groups, shape,
								diff)
						}
					}
				}
			}
		}
	}
}

// bounds collects the largest |error|/bound of what is bounded.
type bounds map[string]float64

func (b bounds) check(t *testing.T, name, what string, err, bound float64) {
	t.Helper()
	if !(err <= bound) {
		t.Errorf("%s: %s is off by %v, bound %v", name, what, err, bound)
	}
	if bound > 0 {
		b[what] = max(b[what], err/bound)
	}
}

// agree compares a bounded distribution with the reference: what is exact with ==.
func (b bounds) agree(t *testing.T, name string, in DistributionInput, want, got *Distribution, neg []ref.Pair) {
	t.Helper()
	g, w := got.NegativeSummary, want.NegativeSummary
	const tiny = 1e-13 // of the reference's own sums, relative
	largest := max(math.Abs(w.Min), math.Abs(w.Max))
	b.check(t, name, "mean", math.Abs(g.Mean-w.Mean), g.MeanError+tiny*largest)
	b.check(t, name, "standard deviation", math.Abs(g.Std-w.Std), g.StdError+tiny*largest)
	b.check(t, name, "separation", math.Abs(got.Separation-want.Separation), got.SeparationError+1e-15)
	if in.Bins > 0 {
		b.histogram(t, name, in, got, neg)
	}
	if in.Interval {
		for i, q := range w.Quantiles {
			if !(g.Low[i] <= q && q <= g.High[i] && g.Low[i] <= g.Quantiles[i] && g.Quantiles[i] <= g.High[i]) {
				t.Errorf("%s: quantile %v in [%v, %v], middle %v, is %v", name, in.Quantiles[i], g.Low[i], g.High[i],
					g.Quantiles[i], q)
			}
		}
		w.Low, w.High, w.Quantiles = g.Low, g.High, g.Quantiles
	}
	w.Mean, w.Std, w.MeanError, w.StdError = g.Mean, g.Std, g.MeanError, g.StdError
	exact := *want
	exact.NegativeSummary, exact.NegativeHistogram = w, got.NegativeHistogram
	exact.Separation, exact.SeparationError = got.Separation, got.SeparationError
	exact.DType, exact.Kept, exact.Rechecked, exact.Way = got.DType, got.Kept, got.Rechecked, got.Way
	if diff := difference(&exact, got); diff != "" {
		t.Fatalf("%s (-ref +got):\n%s", name, diff)
	}
}

// histogram allows values on the wrong side of an edge that are closer to it than half a bin.
func (b bounds) histogram(t *testing.T, name string, in DistributionInput, got *Distribution, neg []ref.Pair) {
	t.Helper()
	low, high := got.NegativeSummary.Min, got.NegativeSummary.Max
	slack := (high - low) / float64(2*in.Bins)
	if in.Interval {
		slack = high - low // any
	}
	var sum int64
	for i, n := range got.NegativeHistogram {
		sum += n
		edge, lowest, highest := low+(high-low)*float64(i+1)/float64(in.Bins), int64(0), int64(0)
		for _, p := range neg {
			if p.Score < edge-slack {
				lowest++
			}
			if p.Score < edge+slack || low == high {
				highest++
			}
		}
		if i < in.Bins-1 && (sum < lowest || sum > highest) {
			t.Errorf("%s: %d in the first %d bins, want %d to %d", name, sum, i+1, lowest, highest)
		}
	}
	if sum != int64(len(neg)) {
		t.Errorf("%s: %d in all bins, want %d", name, sum, len(neg))
	}
}

// boundedEngines are engines of every instruction set with every data type it has, and such as have
// to redo brackets or rechecks.
func boundedEngines(t *testing.T) map[string]boundedEngine {
	all := make(map[string]boundedEngine)
	for _, isa := range isas() {
		for dtype := range kernels.DTypes {
			if e := newEngine(t, Options{ISA: isa.String(), TileRows: 32}); e.r.Has(dtype) {
				all[isa.String()+" "+dtype.String()] = boundedEngine{e, dtype}
			}
		}
	}
	for name, tune := range map[string]statistics.Tuning{
		"brackets":    {MinSamples: 4096, MaxSamples: 4096, Reach: 4, Recheck: 1 << 16},
		"misses":      {MinSamples: 64, MaxSamples: 64, Reach: -1, Recheck: 1 << 16},
		"no room":     {MinSamples: 4096, MaxSamples: 4096, Reach: 4, Recheck: 1 << 16, Kept: 1},
		"little room": {MinSamples: 4096, MaxSamples: 4096, Reach: 4, Recheck: 1 << 16, Kept: 3000},
		"no rechecks": {MinSamples: 4096, MaxSamples: 4096, Reach: 4},
	} {
		e := newEngine(t, Options{TileRows: 40})
		e.tune = tune
		all[name] = boundedEngine{e, kernels.F32}
	}
	return all
}

type boundedEngine struct {
	*Engine
	dtype kernels.DType
}

// TestBoundedDistribution: every metric × negatives × groups × instruction set × data type on nasty vectors.
func TestBoundedDistribution(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(8, 1))
	all, seen := boundedEngines(t), bounds{}
	for _, metric := range metrics {
		for kind := NegativesAll; kind <= NegativesSample; kind++ {
			for _, groups := range []int32{0, 1, 4} {
				for i, shape := range [][3]int{{1, 1, 1}, {1, 5, 9}, {2, 3, 8}, {9, 0, 4}, {33, 31, 7}, {64, 65, 33},
					{70, 90, 40}} {
					in := randomInput(rng, shape[0], shape[1], shape[2], groups, kind, metric)
					in.Interval = i%3 == 2
					if i >= 4 {
						in.Contexts, in.Queries = plain(rng, shape[0], shape[2]), plain(rng, shape[1], shape[2])
					}
					want, neg := refDistribution(in)
					for name, e := range all {
						in.DType = &e.dtype
						got, err := e.Distribution(context.Background(), in)
						if err != nil {
							t.Fatalf("%s %v %v: %v", name, metric, shape, err)
						}
						seen.agree(t, fmt.Sprintf("%s %v kind %d groups %d %v", name, metric, kind, groups, shape), in,
							want, got, neg)
					}
				}
			}
		}
	}
	for what, x := range seen {
		t.Logf("%s: max |error|/bound %.3g", what, x)
	}
}

// TestBrackets has more pairs than are kept whole, the sample size that users get, and heavy ties: two
// thirds of the contexts are one vector.
func TestBrackets(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	in := DistributionInput{Contexts: plain(rng, 450, 8), Queries: plain(rng, 200, 8), Quantiles: table, Bins: 7}
	for q := range in.Queries.Rows {
		in.Owner = append(in.Owner, int32(q%450))
	}
	metrics := metrics
	if race.Enabled { // the goroutines are the same for each
		metrics = metrics[:1]
	}
	seen := bounds{}
	for _, ties := range []bool{false, true} {
		for c := 0; ties && c < 300; c++ {
			copy(in.Contexts.Data[c*8:(c+1)*8], in.Contexts.Data[:8])
		}
		for _, in.Metric = range metrics {
			want, neg := refDistribution(in)
			e := newEngine(t, Options{})
			e.tune.KeepAll = 1 << 13
			got, err := e.Distribution(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			seen.agree(t, fmt.Sprintf("%v ties %v", in.Metric, ties), in, want, got, neg)
			if !ties &&
				(got.Kept == 0 || got.Kept > got.NegativeSummary.N/2 || got.Rechecked > got.NegativeSummary.N/20) {
				t.Errorf("%v: %d kept and %d rechecked of %d", in.Metric, got.Kept, got.Rechecked,
					got.NegativeSummary.N)
			}
		}
	}
	t.Log(seen)
}

// TestManyQuantiles: more brackets than the kernels take at once, whether all values fit the memory or not,
// and every context in a group of its own.
func TestManyQuantiles(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(42, 1))
	in := DistributionInput{Contexts: plain(rng, 300, 16), Queries: plain(rng, 200, 16)}
	for q := range in.Queries.Rows {
		in.Owner = append(in.Owner, int32(q*7%300))
	}
	for c := range in.Contexts.Rows {
		in.Group = append(in.Group, int32(c*11%300))
	}
	for i := range 101 {
		in.Quantiles = append(in.Quantiles, float64(i)/100)
	}
	dtype := kernels.F32
	in.DType = &dtype
	for _, in.Metric = range metrics {
		for _, in.Interval = range []bool{false, true} {
			want, neg := refDistribution(in)
			for _, room := range []int64{0, 8000, 20000} {
				e := newEngine(t, Options{})
				e.tune.KeepAll, e.tune.Kept = 0, room
				got, err := e.Distribution(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				bounds{}.agree(t, fmt.Sprintf("%v room %d", in.Metric, room), in, want, got, neg)
			}
		}
	}
}
