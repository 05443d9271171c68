package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

var table = []float64{0, .05, .25, .5, .75, .95, 1}

// refDistribution is the naive algorithm, from the definitions in the documentation.
func refDistribution(in DistributionInput) *Distribution {
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
	best := ref.Best(in.Metric, ref.Pairs(in.Metric, c, q, func(int, int) bool { return true }), len(q))
	bestOther := ref.Best(in.Metric, ref.Pairs(in.Metric, c, q, other), len(q))

	d := newDistribution(len(q), in)
	for i := range q {
		d.Positive[i] = pos[i].Score
		d.Best[i], d.BestRow[i] = best[i].Score, best[i].Context
		d.BestOther[i], d.BestOtherRow[i] = bestOther[i].Score, bestOther[i].Context
	}
	d.PositiveSummary, d.NegativeSummary, d.Max = summary(pos, in.Quantiles), summary(neg, in.Quantiles), summary(best, in.Quantiles)
	if in.Bins > 0 {
		d.NegativeHistogram = ref.Histogram(neg, in.Bins)
	}
	d.Separation = ref.Separation(in.Metric, pos, neg)
	return d
}

func randomInput(rng *rand.Rand, n, m, dim int, groups int32, kind NegativeKind, metric kernels.Metric) DistributionInput {
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

func TestDistributionEqualsReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	all := engines(t)
	// Tiny samples and little room force brackets, misses, overflows and refinement.
	for name, tune := range map[string]tuning{
		"brackets": {keepAll: 0, minSamples: 4096, maxSamples: 4096},
		"misses":   {keepAll: 0, minSamples: 1, maxSamples: 1},
		"no room":  {keepAll: 0, minSamples: 4096, maxSamples: 4096, kept: 1},
	} {
		e := newEngine(t, Options{TileRows: 5})
		e.tune = tune
		all[name] = e
	}
	for _, metric := range metrics {
		for kind := NegativesAll; kind <= NegativesSample; kind++ {
			for _, groups := range []int32{0, 1, 4} {
				for _, shape := range [][3]int{{1, 1, 1}, {1, 5, 9}, {2, 3, 8}, {9, 0, 4}, {23, 31, 33}} {
					in := randomInput(rng, shape[0], shape[1], shape[2], groups, kind, metric)
					want := refDistribution(in)
					for name, e := range all {
						got, err := e.Distribution(context.Background(), in)
						if err != nil {
							t.Fatalf("%s %v %v: %v", name, metric, shape, err)
						}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Fatalf("%s %v kind %d groups %d %v (-ref +got):\n%s", name, metric, kind, groups, shape, diff)
						}
					}
				}
			}
		}
	}
}

// TestDistributionBrackets has more pairs than are kept whole, the sample size that users get, and heavy
// ties: two thirds of the contexts are one vector.
func TestDistributionBrackets(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	in := DistributionInput{Contexts: plain(rng, 225, 8), Queries: plain(rng, 150, 8), Quantiles: table, Bins: 7}
	for q := range in.Queries.Rows {
		in.Owner = append(in.Owner, int32(q%225))
	}
	for _, ties := range []bool{false, true} {
		for c := 0; ties && c < 150; c++ {
			copy(in.Contexts.Data[c*8:(c+1)*8], in.Contexts.Data[:8])
		}
		for _, metric := range []kernels.Metric{kernels.Cosine, kernels.L2} {
			in.Metric = metric
			e := newEngine(t, Options{})
			e.tune.keepAll = 1 << 13
			got, err := e.Distribution(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(refDistribution(in), got); diff != "" {
				t.Fatalf("%v ties %v (-ref +got):\n%s", metric, ties, diff)
			}
		}
	}
}

// TestKeyOrder: integer keys order like the float64 they stand for.
func TestKeyOrder(t *testing.T) {
	values := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, .5, 1, math.MaxFloat64, math.Inf(1)}
	for i, x := range values {
		if unkey(key(x)) != x {
			t.Errorf("unkey(key(%v)) = %v", x, unkey(key(x)))
		}
		if i > 0 && key(values[i-1]) >= key(x) {
			t.Errorf("key(%v) ≥ key(%v)", values[i-1], x)
		}
	}
}

// TestRanker compares with counting, on duplicates, huge ranges and ranges of a single value.
func TestRanker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, .5, -.5, 5e-324, 1e70, -1e70}))
		values := rapid.SliceOfN(value, 0, 60).Draw(t, "values")
		x := rapid.OneOf(value, rapid.SampledFrom(append(values, 2))).Draw(t, "x")
		var less, lessEq int64
		for _, v := range values {
			if v < x {
				less++
			}
			if v <= x {
				lessEq++
			}
		}
		if a, b := newRanker(values).find(x); a != less || b != lessEq {
			t.Fatalf("find(%v) = %d, %d; want %d, %d", x, a, b, less, lessEq)
		}
	})
}
