package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// countedPart is a part with the input of its block.
type countedPart struct {
	in   DistributionInput
	part *Part
}

// TestPartialsOfParts: parts are counted once by random makers. Their counts in cells tell where the quantiles lie, and
// their kept pairs give what one run gives, whatever the blocks and the trees.
func TestPartialsOfParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 3))
	all := makers(t)
	for _, metric := range metrics {
		for _, groups := range []int32{0, 5} {
			in := partInput(metric, groups, 20)
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
			b.Cells, b.Bins = 1+rng.IntN(100), 0
			of := Whole{Contexts: int64(in.Contexts.Rows), Queries: int64(in.Queries.Rows), Digest: "test"}
			parts := parts(t, rng, all, in, b)
			partial := func(next *Brackets) (list []*Partial) {
				t.Helper()
				for _, c := range parts {
					p, err := all[rng.IntN(len(all))].PartialOfPart(t.Context(), c.in, of, b, next, c.part)
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, sent(t, p))
				}
				return list
			}
			what := fmt.Sprintf("%v, groups %d, %d parts, %d cells", metric, groups, len(parts), b.Cells)
			list := partial(b)
			sum := tree(t, rng, list)
			if !bytes.Equal(inBytes(t, sum), inBytes(t, tree(t, rng, list))) {
				t.Errorf("%s: another tree gives other bits", what)
			}
			got, next, err := e.FinishDistribution(t.Context(), sum, in.Quantiles)
			if err != nil || next == nil || len(next.Ranges) == 0 {
				t.Fatalf("%s: a further pass %+v, %v", what, next, err)
			}
			d := &got.NegativeSummary
			for i, q := range want.NegativeSummary.Quantiles {
				if !(d.Low[i] <= q && q <= d.High[i]) {
					t.Errorf("%s: quantile %v is %v, within %v to %v", what, in.Quantiles[i], q, d.Low[i], d.High[i])
				}
			}
			far := *next // the extremes are not asked for
			far.Ends = [2]float64{-1e15, 1e15}
			if metric == kernels.L2 {
				far.Ends[0] = 0
			}
			got, _, err = e.FinishDistribution(t.Context(), tree(t, rng, partial(&far)), in.Quantiles)
			if err != nil || !slices.Equal(got.NegativeSummary.Quantiles[1:4], want.NegativeSummary.Quantiles[1:4]) {
				t.Errorf("%s: without ends %v, want %v; %v", what, got.NegativeSummary.Quantiles,
					want.NegativeSummary.Quantiles, err)
			}
			wrong := *next // a pass that misses the quantiles, whatever is likely
			wrong.Sure, wrong.Ranges = next.Sure, nil
			if next.Sure == nil {
				wrong.Sure = next.Ranges
			}
			for _, r := range wrong.Sure {
				wrong.Ranges = append(wrong.Ranges, [2]float64{r[0], r[0]})
			}
			for i, from := range []*Brackets{next, &wrong} {
				passes := 0
				for next := from; next != nil; passes++ {
					got, next, err = e.FinishDistribution(t.Context(), tree(t, rng, partial(next)), in.Quantiles)
					// Only a pass over likely ranges may miss, and only once.
					if err != nil || next != nil && (passes > 0 || from.Sure == nil || next.Sure != nil) {
						t.Fatalf("%s: after %d further passes %+v, %v", what, passes+1, next, err)
					}
				}
				if passes == 1 && i == 1 {
					t.Errorf("%s: ranges without the quantiles, %v, are enough", what, wrong.Ranges)
				}
				want.NegativeHistogram, got.NegativeHistogram = nil, nil // without bins
				sameStatistics(t, what, want, got)
			}
		}
	}
}

// parts counts random blocks that cover all pairs, each with another instruction set and format, and sends them
// through bytes.
func parts(t *testing.T, rng *rand.Rand, all []boundedEngine, in DistributionInput, b *Brackets) (list []countedPart) {
	t.Helper()
	eachBlock(rng, all, in, func(maker boundedEngine, of DistributionInput, share Block) {
		p, err := maker.DistributionPart(t.Context(), of, b, share)
		if err != nil {
			t.Fatal(err)
		}
		data, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		of.DType = nil
		c := countedPart{of, new(Part)}
		if err := c.part.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	})
	return list
}

// TestPartialsOfPartsRefuse: what a part does not have is ErrPart.
func TestPartialsOfPartsRefuse(t *testing.T) {
	in := partInput(kernels.Cosine, 0, 10)
	e := newEngine(t, Options{})
	b, err := e.DistributionBrackets(t.Context(), in, .01)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.DistributionPart(t.Context(), in, b, Block{Contexts: [2]int{0, 300}, Queries: [2]int{0, 300}})
	if err != nil {
		t.Fatal(err)
	}
	of := Whole{Contexts: int64(in.Contexts.Rows), Queries: int64(in.Queries.Rows)}
	outside, ends, cells, bins, other, fewer := *b, *b, *b, *b, *b, in
	outside.Ranges = [][2]float64{{b.Ranges[0][0] - .001, b.Ranges[0][1]}}
	ends.Ends[1] -= .01
	cells.Cells, cells.Ranges = 3, [][2]float64{{b.Ranges[0][0], (b.Ranges[0][0] + b.Ranges[0][1]) / 2}}
	bins.Bins++
	other.Ranges = b.Ranges[1:]
	fewer.Queries.Rows, fewer.Owner = 299, in.Owner[:299]
	for what, x := range map[string]struct {
		in      DistributionInput
		b, next *Brackets
	}{
		"a range outside":   {in, b, &outside},
		"closer ends":       {in, b, &ends},
		"other cells":       {in, b, &cells},
		"another histogram": {in, b, &bins},
		"other brackets":    {in, &other, b},
		"no brackets":       {in, b, nil},
		"a missing query":   {fewer, b, b},
	} {
		if _, err := e.PartialOfPart(t.Context(), x.in, of, x.b, x.next, p); !errors.Is(err, ErrPart) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := e.PartialOfPart(t.Context(), in, of, b, b, p); err != nil {
		t.Error(err)
	}
}
