package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestFormatOfADistribution: the engine counts in 16-bit codes where their bound leaves few pairs open, and in float32
// where scores lie too close together, or where the bound itself is the answer; both give the same order statistics,
// extremes and maxima, and the moments differ by no more than the bounds say.
func TestFormatOfADistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 7))
	wide := randomInput(rng, 300, 900, 64, 0, NegativesAll, kernels.Cosine)
	wide.Contexts, wide.Queries = plain(rng, 300, 64), plain(rng, 900, 64)
	close := wide
	close.Contexts, close.Queries = plain(rng, 300, 64), plain(rng, 900, 64)
	for _, v := range []Vectors{close.Contexts, close.Queries} {
		for i := range v.Data {
			v.Data[i] = 1 + v.Data[i]/1000 // all cosines are within some millionths of 1
		}
	}
	interval := wide
	interval.Interval = true
	for _, isa := range isas() {
		e := newEngine(t, Options{ISA: isa.String()})
		codes := e.r.Has(kernels.I16) && e.r.Accurate() == kernels.F32
		for name, c := range map[string]struct {
			in    DistributionInput
			codes bool
		}{"wide": {wide, codes}, "close": {close, false}, "interval": {interval, false}} {
			got, err := e.Distribution(context.Background(), c.in)
			if err != nil {
				t.Fatal(err)
			}
			want := e.r.Accurate().String()
			if c.codes {
				want = kernels.I16.String()
			}
			if got.DType != want {
				t.Errorf("%s %s: counted in %s, want %s", isa, name, got.DType, want)
			}
			if c.in.Interval {
				continue
			}
			finest := kernels.F32
			c.in.DType = &finest
			fine, err := e.Distribution(context.Background(), c.in)
			if err != nil {
				t.Fatal(err)
			}
			a, b := got.NegativeSummary, fine.NegativeSummary
			if diff := difference(b.Quantiles, a.Quantiles); diff != "" || a.Min != b.Min || a.Max != b.Max {
				t.Errorf("%s %s: quantiles, minimum or maximum (-float32 +got):\n%s", isa, name, diff)
			}
			if diff := difference(fine.BestOther, got.BestOther) + difference(fine.BestRow, got.BestRow); diff != "" {
				t.Errorf("%s %s: maxima (-float32 +got):\n%s", isa, name, diff)
			}
			if off := math.Abs(a.Std - b.Std); off > a.StdError+b.StdError {
				t.Errorf("%s %s: Std off by %v, bounds %v and %v", isa, name, off, a.StdError, b.StdError)
			}
			if off := math.Abs(a.Mean - b.Mean); off > a.MeanError+b.MeanError {
				t.Errorf("%s %s: Mean off by %v, bounds %v and %v", isa, name, off, a.MeanError, b.MeanError)
			}
		}
	}
}

// TestFormatOfIntervals: intervals of coarse formats hold the quantiles, and all else is exact.
func TestFormatOfIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 8))
	for _, metric := range metrics {
		in := randomInput(rng, 150, 250, 64, 0, NegativesAll, metric)
		in.Contexts, in.Queries, in.Bins = plain(rng, 150, 64), plain(rng, 250, 64), 0
		want, _ := refDistribution(in)
		in.Interval = true
		for _, isa := range isas() {
			e := newEngine(t, Options{ISA: isa.String()})
			e.tune.Canonical, e.tune.KeepAll = 0, 1000
			for _, format := range []kernels.DType{e.r.Accurate(), kernels.I16, kernels.I8, kernels.FP8} {
				if !e.r.Has(format) {
					continue
				}
				in.DType = &format
				d, err := e.Distribution(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				s := d.NegativeSummary
				for i, q := range want.NegativeSummary.Quantiles {
					if !(s.Low[i] <= q && q <= s.High[i]) {
						t.Errorf("%s %s: quantile %v in [%v, %v]", metric, d.DType, q, s.Low[i], s.High[i])
					}
				}
				diff := difference(want.BestOther, d.BestOther) + difference(want.BestRow, d.BestRow)
				if diff != "" || s.Min != want.NegativeSummary.Min || s.Max != want.NegativeSummary.Max {
					t.Errorf("%s %s: maxima or extremes (-reference +got):\n%s", metric, d.DType, diff)
				}
			}
		}
	}
}
