package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// biasOf returns a bias by the numbers of queries and contexts, whatever rows of an input they are.
func biasOf(in *DistributionInput) func(context.Context, []int32, []int32, []float32) error {
	return func(_ context.Context, queries, contexts []int32, out []float32) error {
		for i, q := range queries {
			for j, c := range contexts {
				out[i*len(contexts)+j] = float32((in.QueryID(q)*31+in.ContextID(c)*17)%23%7) / 16
			}
		}
		return nil
	}
}

// biasedPartials counts random blocks that cover all pairs with a bias.
func biasedPartials(t *testing.T, rng *rand.Rand, in DistributionInput, b *Brackets) (list []*Partial) {
	t.Helper()
	whole := Whole{Contexts: int64(in.Contexts.Rows), Queries: int64(in.Queries.Rows)}
	lanes := cuts(rng, in.Queries.Rows)
	for k := range len(lanes) - 1 {
		rows := cuts(rng, in.Contexts.Rows)
		for i := range len(rows) - 1 {
			of, share := worker(rng, in, [2]int{rows[i], rows[i+1]}, [2]int{lanes[k], lanes[k+1]})
			of.Bias = biasOf(&of)
			e := newEngine(t, Options{ISA: isas()[rng.IntN(len(isas()))].String(), TileRows: 1 + rng.IntN(99)})
			p, err := e.PartialDistribution(t.Context(), of, whole, b, share)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, sent(t, p))
		}
	}
	return list
}

// TestBiasedPartialsAddUp: partials of pairs with a bias give what one run gives, and the same bytes in every tree.
func TestBiasedPartialsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 3))
	for _, metric := range metrics {
		for _, groups := range []int32{0, 5} {
			in := partInput(metric, groups, 20)
			in.Bias = biasOf(&in)
			if groups > 0 {
				in.Negatives.Kind = NegativesCrossGroup
			}
			e := newEngine(t, Options{})
			want, err := e.Distribution(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			b, err := e.DistributionBrackets(t.Context(), in, .01)
			if err != nil {
				t.Fatal(err)
			}
			list := biasedPartials(t, rng, in, b)
			sum := tree(t, rng, list)
			for range 10 {
				if !bytes.Equal(inBytes(t, sum), inBytes(t, tree(t, rng, list))) {
					t.Fatalf("%v groups %d: another tree gives other bits", metric, groups)
				}
			}
			got, next, err := e.FinishDistribution(t.Context(), sum, in.Quantiles)
			if err != nil || next != nil {
				t.Fatalf("%v groups %d: a further pass %+v, %v", metric, groups, next, err)
			}
			sameStatistics(t, fmt.Sprintf("%v groups %d, %d blocks", metric, groups, len(list)), want, got)
			if kept, all := got.Kept, want.NegativeSummary.N; kept > all*3/4 {
				t.Errorf("%v groups %d: %d pairs of %d are kept", metric, groups, kept, all)
			}
		}
	}
}

// TestBiasedPartialsMiss: brackets that keep nothing give the maxima and intervals, and the brackets that find the
// rest.
func TestBiasedPartialsMiss(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 4))
	for _, metric := range metrics {
		in := partInput(metric, 0, 50)
		in.Bias = biasOf(&in)
		e := newEngine(t, Options{})
		want, err := e.Distribution(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		s := &want.NegativeSummary
		b := &Brackets{Metric: metric, Biased: true, Ends: [2]float64{s.Min - 1, s.Max + 1}, Bins: 50, Low: s.Min,
			High: s.Max, Sample: in.Sample}
		got, next, err := e.FinishDistribution(t.Context(), tree(t, rng, biasedPartials(t, rng, in, b)), in.Quantiles)
		if err != nil || next == nil || got.Kept != 0 {
			t.Fatalf("%v: %v, a further pass %v, %d pairs are kept", metric, err, next, got.Kept)
		}
		for q, x := range want.Best {
			if got.Best[q] != x || got.BestOther[q] != want.BestOther[q] || got.BestRow[q] != want.BestRow[q] {
				t.Fatalf("%v: the maximum of query %d is %v of context %d, want %v of %d", metric, q, got.Best[q],
					got.BestRow[q], x, want.BestRow[q])
			}
		}
		for i, q := range s.Quantiles {
			if d := &got.NegativeSummary; !(d.Low[i] <= q && q <= d.High[i]) {
				t.Errorf("%v: quantile %v is %v, within %v to %v", metric, in.Quantiles[i], q, d.Low[i], d.High[i])
			}
		}
		got, next, err = e.FinishDistribution(t.Context(), tree(t, rng, biasedPartials(t, rng, in, next)), in.Quantiles)
		if err != nil || next != nil {
			t.Fatalf("%v: a further pass %+v, %v", metric, next, err)
		}
		sameStatistics(t, metric.String(), want, got)
	}
}

// TestBiasedPartialsRefuse: brackets without a bias, parts, negatives and scores beyond the sums are typed errors.
func TestBiasedPartialsRefuse(t *testing.T) {
	in := partInput(kernels.Cosine, 0, 10)
	e, of := newEngine(t, Options{}), Whole{Contexts: 500, Queries: 700}
	share := Block{Contexts: [2]int{0, 500}, Queries: [2]int{0, 700}}
	with, without := &Brackets{Biased: true, Ends: [2]float64{-9, 9e4}}, &Brackets{Ends: [2]float64{-9, 9}}
	biased := in
	biased.Bias = biasOf(&in)
	huge := in
	huge.Bias = func(_ context.Context, _, _ []int32, out []float32) error {
		for i := range out {
			out[i] = 1e4
		}
		return nil
	}
	sampled := biased
	sampled.Negatives = Negatives{Kind: NegativesSample, PerQuery: 3}
	sampledBrackets := *with
	sampledBrackets.Negatives = NegativesSample
	for name, c := range map[string]struct {
		in   DistributionInput
		b    *Brackets
		want error
	}{
		"brackets without a bias": {biased, without, ErrPart}, "brackets with a bias": {in, with, ErrPart},
		"a large bias": {huge, with, kernels.ErrRange}, "sampled negatives": {sampled, &sampledBrackets, ErrPart},
	} {
		if _, err := e.PartialDistribution(t.Context(), c.in, of, c.b, share); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.DistributionPart(t.Context(), biased, with, share); !errors.Is(err, ErrPart) {
		t.Errorf("a part: %v", err)
	}
	small := newEngine(t, Options{MemLimit: 1 << 20})
	keeps := &Brackets{Biased: true, Ends: [2]float64{9, -9}}
	if _, err := small.PartialDistribution(t.Context(), biased, of, keeps, share); !errors.Is(err,
		kernels.ErrMemoryLimit) {
		t.Errorf("no memory: %v", err)
	}
}
