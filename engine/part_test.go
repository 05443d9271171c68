package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

func travelled(t testing.TB, p *Part) *Part {
	t.Helper()
	data, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	q := new(Part)
	if err := q.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	again, err := q.MarshalBinary()
	if err != nil || !bytes.Equal(data, again) {
		t.Fatalf("a part changed on its way: %v", err)
	}
	return q
}

// sameStatistics compares a merge with one run: counts, order statistics, extremes and maxima bit for bit, moments
// within what both print.
func sameStatistics(t *testing.T, name string, want, got *Distribution) {
	t.Helper()
	near := cmp.Options{cmpopts.IgnoreFields(Distribution{}, "DType", "Kept", "Rechecked", "Way", "NegativeHistogram",
		"Separation", "SeparationError"),
		cmpopts.IgnoreFields(Summary{}, "Mean", "Std", "MeanError", "StdError"), cmpopts.EquateEmpty()}
	if !reflect.DeepEqual(exact(want), exact(got)) { // cmp takes long
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("%s (-one run +merged):\n%s", name, diff)
		}
	}
	a, b := want.NegativeSummary, got.NegativeSummary
	if !(math.Abs(a.Mean-b.Mean) <= a.MeanError+b.MeanError) || !(math.Abs(a.Std-b.Std) <= a.StdError+b.StdError) {
		t.Errorf("%s: mean %v ± %v and %v ± %v, standard deviation %v ± %v and %v ± %v", name,
			a.Mean, a.MeanError, b.Mean, b.MeanError, a.Std, a.StdError, b.Std, b.StdError)
	}
	if !(math.Abs(want.Separation-got.Separation) <= want.SeparationError+got.SeparationError+1e-12) {
		t.Errorf("%s: separation %v ± %v and %v ± %v", name, want.Separation, want.SeparationError, got.Separation,
			got.SeparationError)
	}
	sum := int64(0)
	for _, n := range got.NegativeHistogram {
		sum += n
	}
	if len(got.NegativeHistogram) > 0 && sum != b.N {
		t.Errorf("%s: %d in the histogram of %d", name, sum, b.N)
	}
}

// exact returns what sameStatistics compares bit for bit.
func exact(d *Distribution) Distribution {
	c := *d
	c.DType, c.Kept, c.Rechecked, c.Way, c.NegativeHistogram = "", 0, 0, Distribution{}.Way, nil
	c.Separation, c.SeparationError = 0, 0
	for _, s := range []*Summary{&c.PositiveSummary, &c.NegativeSummary, &c.Max} {
		s.Mean, s.Std, s.MeanError, s.StdError = 0, 0, 0, 0
	}
	return c
}

// makers are engines whose parts must merge: every instruction set in every format that float32 brackets allow.
func makers(t testing.TB) (all []boundedEngine) {
	for _, isa := range cpu.Available() {
		for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16x3} {
			e := newEngine(t, Options{ISA: isa.String(), Threads: 2})
			has := e.r.Has
			if gpu := e.gpu(); gpu != nil {
				has = gpu.Has
			}
			if has(dtype) {
				all = append(all, boundedEngine{e, dtype})
			}
		}
	}
	return all
}

// TestPartsMerge cuts the pairs into random blocks, counts each with another instruction set, and merges.
func TestPartsMerge(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(71, 1)), context.Background()
	all := makers(t)
	for _, metric := range metrics {
		for _, groups := range []int32{0, 5} {
			in := partInput(metric, groups, 20)
			if groups > 0 {
				in.Negatives.Kind = NegativesCrossGroup
			}
			e := newEngine(t, Options{})
			want, err := e.Distribution(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			b, err := e.DistributionBrackets(ctx, in, .01)
			if err != nil {
				t.Fatal(err)
			}
			for split := range 3 {
				rows, lanes := cuts(rng, in.Contexts.Rows), cuts(rng, in.Queries.Rows)
				var parts []*Part
				for i := range len(rows) - 1 {
					for k := range len(lanes) - 1 {
						maker := all[rng.IntN(len(all))]
						of := in
						of.DType = &maker.dtype
						p, err := maker.DistributionPart(ctx, of, b,
							Block{Contexts: [2]int{rows[i], rows[i+1]}, Queries: [2]int{lanes[k], lanes[k+1]}})
						if err != nil {
							t.Fatal(err)
						}
						parts = append(parts, travelled(t, p))
					}
				}
				rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				got, err := e.MergeDistribution(ctx, in, b, parts...)
				if err != nil {
					t.Fatal(err)
				}
				sameStatistics(t, fmt.Sprintf("%v groups %d split %d into %d", metric, groups, split, len(parts)), want,
					got)
			}
		}
	}
}

// cuts returns where up to three blocks of n rows begin and end.
func cuts(rng *rand.Rand, n int) []int {
	at := []int{0, rng.IntN(n), rng.IntN(n), n}
	slices.Sort(at)
	return slices.Compact(at)
}

// grown returns an input with ids, restricted to the rows below the given numbers.
func grown(in DistributionInput, contexts, queries int) DistributionInput {
	out := in
	out.Contexts.Rows, out.Queries.Rows = contexts, queries
	out.Owner = in.Owner[:queries]
	if in.Group != nil {
		out.Group = in.Group[:contexts]
	}
	out.ContextIDs, out.QueryIDs = nil, nil
	for i := range contexts {
		out.ContextIDs = append(out.ContextIDs, uint64(1000+i))
	}
	for i := range queries {
		out.QueryIDs = append(out.QueryIDs, uint64(7000+i))
	}
	return out
}

// TestPartsGrowAndShrink adds contexts and queries to a base, and removes some: only the changed pairs are counted.
func TestPartsGrowAndShrink(t *testing.T) {
	ctx := context.Background()
	all := makers(t)
	for _, metric := range metrics {
		for _, groups := range []int32{0, 4} {
			whole := partInput(metric, groups, 0)
			whole.Quantiles = []float64{.05, .5, .95}
			for q := range whole.Owner { // the first queries belong to the first contexts
				if q < 600 {
					whole.Owner[q] %= 450
				}
			}
			name := fmt.Sprintf("%v groups %d", metric, groups)
			e := newEngine(t, Options{})
			old := grown(whole, 450, 600)
			b, err := e.DistributionBrackets(ctx, old, .02)
			if err != nil {
				t.Fatal(err)
			}
			part := func(in DistributionInput, c0, c1, q0, q1, maker int) *Part {
				m := all[maker%len(all)]
				in.DType = &m.dtype
				p, err := m.DistributionPart(ctx, in, b, Block{Contexts: [2]int{c0, c1}, Queries: [2]int{q0, q1}})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			base := part(old, 0, 450, 0, 600, 0)
			now := grown(whole, 500, 700)
			parts := []*Part{base, part(now, 450, 500, 0, 700, 1), part(now, 0, 450, 600, 700, 2)}
			want, err := e.Distribution(ctx, now)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.MergeDistribution(ctx, now, b, parts...)
			if err != nil {
				t.Fatal(err)
			}
			sameStatistics(t, name+" grown", want, got)

			left, contexts, queries := without(now, func(c int) bool { return c%41 == 3 })
			for i, p := range parts {
				if parts[i], err = all[(i+3)%len(all)].RemoveFromPart(ctx, now, b, p, contexts, queries); err != nil {
					t.Fatal(err)
				}
				parts[i] = travelled(t, parts[i])
			}
			if want, err = e.Distribution(ctx, left); err != nil {
				t.Fatal(err)
			}
			if got, err = e.MergeDistribution(ctx, left, b, parts...); err != nil {
				t.Fatal(err)
			}
			sameStatistics(t, name+" shrunk", want, got)
		}
	}
}

// without returns the input without some contexts and their queries, and the ids of what is gone.
func without(in DistributionInput, gone func(context int) bool) (out DistributionInput, contexts, queries []uint64) {
	out = in
	out.Contexts.Data, out.Queries.Data, out.Owner, out.Group, out.ContextIDs, out.QueryIDs = nil, nil, nil, nil, nil,
		nil
	at := make([]int32, in.Contexts.Rows)
	for c := range in.Contexts.Rows {
		if at[c] = int32(len(out.ContextIDs)); gone(c) {
			contexts = append(contexts, in.ContextIDs[c])
			continue
		}
		out.Contexts.Data = append(out.Contexts.Data, rows(in.Contexts)[c]...)
		out.ContextIDs = append(out.ContextIDs, in.ContextIDs[c])
		if in.Group != nil {
			out.Group = append(out.Group, in.Group[c])
		}
	}
	for q := range in.Queries.Rows {
		if gone(int(in.Owner[q])) {
			queries = append(queries, in.QueryIDs[q])
			continue
		}
		out.Queries.Data = append(out.Queries.Data, rows(in.Queries)[q]...)
		out.QueryIDs = append(out.QueryIDs, in.QueryIDs[q])
		out.Owner = append(out.Owner, at[in.Owner[q]])
	}
	out.Contexts.Rows, out.Queries.Rows = len(out.ContextIDs), len(out.QueryIDs)
	out.Contexts.Stride, out.Queries.Stride = 0, 0
	return out, contexts, queries
}

// TestPartsMiss: brackets around other quantiles than those asked for give intervals that hold the true values.
func TestPartsMiss(t *testing.T) {
	ctx := context.Background()
	for _, metric := range metrics {
		in := partInput(metric, 0, 0)
		in.Quantiles = []float64{.5}
		e := newEngine(t, Options{})
		b, err := e.DistributionBrackets(ctx, in, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.DistributionPart(ctx, in, b,
			Block{Contexts: [2]int{0, in.Contexts.Rows}, Queries: [2]int{0, in.Queries.Rows}})
		if err != nil {
			t.Fatal(err)
		}
		in.Quantiles = []float64{.1, .5, .9}
		want, err := e.Distribution(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.MergeDistribution(ctx, in, b, p)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Missed, []float64{.1, .9}) {
			t.Errorf("%v: missed %v", metric, got.Missed)
		}
		s := got.NegativeSummary
		for i, x := range want.NegativeSummary.Quantiles {
			if len(s.Low) != 3 || !(s.Low[i] <= x && x <= s.High[i]) {
				t.Fatalf("%v: quantile %v = %v is not in [%v, %v]", metric, in.Quantiles[i], x, s.Low, s.High)
			}
		}
		if s.Low[1] != s.High[1] || s.Quantiles[1] != want.NegativeSummary.Quantiles[1] {
			t.Errorf("%v: the median, which is in its bracket: %v to %v, want %v", metric, s.Low[1], s.High[1],
				want.NegativeSummary.Quantiles[1])
		}
	}
}

func TestPartsRefused(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	in := partInput(kernels.Cosine, 0, 0)
	b, err := e.DistributionBrackets(ctx, in, 0)
	if err != nil {
		t.Fatal(err)
	}
	part := func(c0, c1 int) *Part {
		p, err := e.DistributionPart(ctx, in, b, Block{Contexts: [2]int{c0, c1}, Queries: [2]int{0, 700}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	other := *b
	other.Ends[0] -= 1e-3
	foreign, err := e.DistributionPart(ctx, in, &other, Block{Contexts: [2]int{0, 500}, Queries: [2]int{0, 700}})
	if err != nil {
		t.Fatal(err)
	}
	named := in
	named.ContextIDs = make([]uint64, 500)
	half, rest := part(0, 250), part(250, 500)
	merge := func(in DistributionInput, parts ...*Part) error {
		d, err := e.MergeDistribution(ctx, in, b, parts...)
		if err != nil && d != nil {
			t.Error("an error and a result")
		}
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nothing":        {merge(in), "0 negatives"},
		"a gap":          {merge(in, half), "negatives of"},
		"twice":          {merge(in, half, rest, half), "in common"},
		"other brackets": {merge(in, half, foreign), "other brackets"},
		"no part":        {merge(in, half, nil), "part 2 of 2"},
		"empty part":     {merge(in, half, &Part{}), "other brackets"},
		"other ids":      {merge(grown(in, 500, 700), half, rest), "is not in the input"},
		"no bytes":       {new(Part).UnmarshalBinary(nil), "no part"},
	} {
		if !errors.Is(c.err, ErrPart) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if err := merge(named, half, rest); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("ids that are all 0: %v", err)
	}
	if err := merge(in, half, rest); err != nil {
		t.Errorf("what fits: %v", err)
	}
	for _, bad := range []Block{{Contexts: [2]int{-1, 2}, Queries: [2]int{0, 1}},
		{Contexts: [2]int{0, 501}, Queries: [2]int{0, 1}}, {Contexts: [2]int{3, 2}, Queries: [2]int{0, 1}}} {
		if _, err := e.DistributionPart(ctx, in, b, bad); !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("block %v: %v", bad, err)
		}
	}
	sampled := in
	sampled.Negatives = Negatives{Kind: NegativesSample, PerQuery: 3}
	if _, err := e.DistributionBrackets(ctx, sampled, 0); !errors.Is(err, ErrPart) {
		t.Errorf("sampled negatives: %v", err)
	}
}

// fuzzedInput has 40 contexts and 50 queries.
func fuzzedInput() DistributionInput {
	in := partInput(kernels.Cosine, 0, 0)
	in.Contexts.Rows, in.Queries.Rows = 40, 50
	in.Owner = slices.Clone(in.Owner[:50])
	for q := range in.Owner {
		in.Owner[q] %= 40
	}
	return in
}

// FuzzPart: bytes are refused with a typed error, or are a part that merges or is refused.
func FuzzPart(f *testing.F) {
	e, ctx := newEngine(f, Options{Threads: 1}), context.Background()
	in := fuzzedInput()
	b, err := e.DistributionBrackets(ctx, in, 0)
	if err != nil {
		f.Fatal(err)
	}
	p, err := e.DistributionPart(ctx, in, b, Block{Contexts: [2]int{0, 40}, Queries: [2]int{0, 50}})
	if err != nil {
		f.Fatal(err)
	}
	data, err := p.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:len(data)-4])
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		p := new(Part)
		if err := p.p.Decode(data); err != nil { // as behind a good checksum
			if !errors.Is(err, ErrPart) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if _, err := e.MergeDistribution(ctx, in, b, p); err != nil && !errors.Is(err, ErrPart) &&
			!errors.Is(err, kernels.ErrRange) {
			t.Fatalf("untyped error %v", err)
		}
		whole := Whole{Contexts: 40, Queries: 50}
		if _, err := e.PartialOfPart(ctx, in, whole, b, b, p); err != nil && !errors.Is(err, ErrPart) &&
			!errors.Is(err, kernels.ErrArgument) {
			t.Fatalf("untyped error %v", err)
		}
	})
}

// TestPartsOfCoarseFormats: parts in 8-bit integers, whose bound is 10⁴ times that of float32, merge with parts in
// float32, and pairs are removed by float32 from what 8-bit integers counted: what lies near an end of a bracket
// is told apart by canonical scores only.
func TestPartsOfCoarseFormats(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	e.tune.Recheck = 1 << 20
	coarse := kernels.I8
	if !e.r.Has(coarse) {
		t.Skip("SKIP: this instruction set has no 8-bit tiles")
	}
	in := grown(partInput(kernels.Cosine, 0, 0), 500, 700)
	in.Quantiles = nil
	for p := range 200 {
		in.Quantiles = append(in.Quantiles, float64(p)/200)
	}
	b := &Brackets{Metric: in.Metric, Ranges: [][2]float64{{-.3, -.08}, {.05, .3}}, Ends: [2]float64{-.6, .7}, Low: -1,
		High: 1}
	eighths := in
	eighths.DType = &coarse
	half := func(in DistributionInput, c0, c1 int) *Part {
		p, err := e.DistributionPart(ctx, in, b, Block{Contexts: [2]int{c0, c1}, Queries: [2]int{0, 700}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	parts := []*Part{half(eighths, 0, 250), half(in, 250, 500)}
	check := func(name string, in DistributionInput) {
		want, err := e.Distribution(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.MergeDistribution(ctx, in, b, parts...)
		if err != nil {
			t.Fatal(err)
		}
		found, s := 0, got.NegativeSummary
		for i, x := range want.NegativeSummary.Quantiles {
			if !(s.Low[i] <= x && x <= s.High[i]) {
				t.Fatalf("%s: quantile %v = %v is not in [%v, %v]", name, in.Quantiles[i], x, s.Low[i], s.High[i])
			}
			if s.Low[i] == s.High[i] {
				found++
			}
		}
		if found < 4 {
			t.Errorf("%s: %d quantiles were found", name, found)
		}
	}
	check("whole", in)
	left, contexts, queries := without(in, func(c int) bool { return c%3 == 1 })
	for i, p := range parts {
		var err error
		if parts[i], err = e.RemoveFromPart(ctx, in, b, p, contexts, queries); err != nil {
			t.Fatal(err)
		}
	}
	check("a third removed", left)
}
