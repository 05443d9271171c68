package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
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

// TestFormatOfIntervals: formats of eight bits are taken where intervals may be as wide as theirs and the measured
// costs speak for them; intervals hold the quantiles and are no wider than was asked for, and all else is exact.
func TestFormatOfIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 8))
	for _, metric := range metrics {
		in := randomInput(rng, 150, 250, 64, 0, NegativesAll, metric)
		in.Contexts, in.Queries, in.Bins = plain(rng, 150, 64), plain(rng, 250, 64), 0
		want, _ := refDistribution(in)
		in.Interval = true
		widest := func(e *Engine, in DistributionInput) (format string, width float64) {
			t.Helper()
			d, err := e.Distribution(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			s := d.NegativeSummary
			for i, q := range want.NegativeSummary.Quantiles {
				if width = max(width, s.High[i]-s.Low[i]); !(s.Low[i] <= q && q <= s.High[i]) {
					t.Errorf("%s %s: quantile %v in [%v, %v]", metric, d.DType, q, s.Low[i], s.High[i])
				}
			}
			diff := difference(want.BestOther, d.BestOther) + difference(want.BestRow, d.BestRow)
			if diff != "" || s.Min != want.NegativeSummary.Min || s.Max != want.NegativeSummary.Max {
				t.Errorf("%s %s: maxima or extremes (-reference +got):\n%s", metric, d.DType, diff)
			}
			if in.Within > 0 && !strings.Contains(d.Way.Choice, "tiles of "+d.DType+": intervals of at most") {
				t.Errorf("%s: the choice is said as %q", metric, d.Way.Choice)
			}
			return d.DType, width
		}
		for _, isa := range isas() {
			e := newEngine(t, Options{ISA: isa.String()})
			e.tune.Canonical, e.tune.KeepAll = 0, 1000
			fine := e.r.Accurate()
			in.Within, in.DType = 1e-9, nil
			if format, _ := widest(e, in); format != fine.String() {
				t.Errorf("%s %s: next to nothing is within %s", metric, isa, format)
			}
			for _, coarse := range []kernels.DType{kernels.I8, kernels.FP8} {
				if !e.r.Has(coarse) {
					continue
				}
				in.Within, in.DType = 0, &coarse
				_, width := widest(e, in)
				in.DType = nil
				for share, takes := range map[float64]bool{.9: false, 1.3: true} {
					for _, c := range []struct {
						rate, scores float64 // of the coarse format, the finest having 1e9
						fits         bool
					}{{2e9, 1e12, true}, {.9e9, 1e12, false}, {2e9, 1e3, false}} {
						e.r.Costs.CPU = device.Rates{Scores: c.scores}
						e.r.Costs.CPU.Tiles[fine], e.r.Costs.CPU.Tiles[coarse] = 1e9, c.rate
						in.Within = share * width
						format, got := widest(e, in)
						if (format == coarse.String()) != (takes && c.fits) {
							t.Errorf("%s %s: within %.2g of %s's width, rates of %.2g and %.2g: %s", metric, isa,
								share, coarse, c.rate, c.scores, format)
						}
						if format != fine.String() && got > in.Within {
							t.Errorf("%s %s: an interval of %v in %s, within %v", metric, isa, got, format, in.Within)
						}
					}
				}
				e.r.Costs.CPU = device.Rates{}
				if in.Within = 1.3 * width; coarse == kernels.I8 {
					if format, _ := widest(e, in); format != coarse.String() {
						t.Errorf("%s %s: nothing measured, within 1.3 of %s's width: %s", metric, isa, coarse, format)
					}
				}
			}
		}
	}
	in := randomInput(rng, 30, 30, 4, 0, NegativesAll, kernels.Cosine)
	f32 := kernels.F32
	for name, change := range map[string]func(in *DistributionInput){
		"negative":         func(in *DistributionInput) { in.Interval, in.Within = true, -1 },
		"no number":        func(in *DistributionInput) { in.Interval, in.Within = true, math.NaN() },
		"without Interval": func(in *DistributionInput) { in.Within = .1 },
		"with a format":    func(in *DistributionInput) { in.Interval, in.Within, in.DType = true, .1, &f32 },
	} {
		bad := in
		change(&bad)
		_, err := newEngine(t, Options{}).Distribution(context.Background(), bad)
		if !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
