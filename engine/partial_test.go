package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/statistics"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// worker returns what a worker needs to count contexts [c[0], c[1]) × queries [q[0], q[1]): these contexts in order,
// these queries in any, and their own contexts.
func worker(rng *rand.Rand, in DistributionInput, c, q [2]int) (DistributionInput, Block) {
	out := in
	out.Contexts, out.Queries = kernels.Vectors{Dim: in.Contexts.Dim}, kernels.Vectors{Dim: in.Queries.Dim}
	out.Owner, out.Group, out.ContextIDs, out.QueryIDs = nil, nil, []uint64{}, []uint64{}
	at := map[int32]int32{}
	add := func(row int32) {
		if _, has := at[row]; has {
			return
		}
		at[row] = int32(out.Contexts.Rows)
		out.Contexts.Data = append(out.Contexts.Data, rows(in.Contexts)[row]...)
		out.Contexts.Rows++
		out.ContextIDs = append(out.ContextIDs, uint64(row))
		if in.Group != nil {
			out.Group = append(out.Group, in.Group[row])
		}
	}
	for row := c[0]; row < c[1]; row++ {
		add(int32(row))
	}
	for _, i := range rng.Perm(q[1] - q[0]) {
		row := q[0] + i
		add(in.Owner[row])
		out.Queries.Data = append(out.Queries.Data, rows(in.Queries)[row]...)
		out.Queries.Rows++
		out.QueryIDs = append(out.QueryIDs, uint64(row))
		out.Owner = append(out.Owner, at[in.Owner[row]])
	}
	return out, Block{Contexts: [2]int{0, c[1] - c[0]}, Queries: [2]int{0, q[1] - q[0]}}
}

// eachBlock gives random blocks that cover all pairs to random makers, each with an input of its own.
func eachBlock(rng *rand.Rand, all []boundedEngine, in DistributionInput,
	do func(maker boundedEngine, of DistributionInput, share Block)) {
	lanes := cuts(rng, in.Queries.Rows)
	for k := range len(lanes) - 1 {
		rows := cuts(rng, in.Contexts.Rows) // other ones for each range of queries
		for i := range len(rows) - 1 {
			of, share := worker(rng, in, [2]int{rows[i], rows[i+1]}, [2]int{lanes[k], lanes[k+1]})
			maker := all[rng.IntN(len(all))]
			of.DType = &maker.dtype
			do(maker, of, share)
		}
	}
}

// partials counts random blocks that cover all pairs, each with another instruction set and format, and sends them
// through bytes.
func partials(t *testing.T, rng *rand.Rand, all []boundedEngine, in DistributionInput, b *Brackets) (list []*Partial) {
	t.Helper()
	whole := Whole{Contexts: int64(in.Contexts.Rows), Queries: int64(in.Queries.Rows), Digest: "test"}
	eachBlock(rng, all, in, func(maker boundedEngine, of DistributionInput, share Block) {
		p, err := maker.PartialDistribution(t.Context(), of, whole, b, share)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, sent(t, p))
	})
	return list
}

func sent(t *testing.T, p *Partial) *Partial {
	t.Helper()
	data, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	q := new(Partial)
	if err := q.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if again, err := q.MarshalBinary(); err != nil || !bytes.Equal(data, again) {
		t.Fatalf("a partial changed on its way: %v", err)
	}
	return q
}

// tree adds partials up in a random order and grouping.
func tree(t *testing.T, rng *rand.Rand, list []*Partial) *Partial {
	t.Helper()
	list = append([]*Partial{}, list...)
	for len(list) > 1 {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		sum, err := list[0].Plus(list[1])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list[2:], sum)
	}
	return list[0]
}

func inBytes(t *testing.T, p *Partial) []byte {
	t.Helper()
	data, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPartialsAddUp: whatever the blocks, the machines and the tree, the sum has the same bits, and gives what one run
// gives.
func TestPartialsAddUp(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(47, 1))
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
			for range 3 {
				list := partials(t, rng, all, in, b)
				sum := tree(t, rng, list)
				bits := inBytes(t, sum)
				for range 6 {
					if !bytes.Equal(bits, inBytes(t, tree(t, rng, list))) {
						t.Fatalf("%v groups %d: another tree gives other bits", metric, groups)
					}
				}
				got, next, err := e.FinishDistribution(t.Context(), sent(t, sum), in.Quantiles)
				if err != nil || next != nil {
					t.Fatalf("%v groups %d: a further pass %+v, %v", metric, groups, next, err)
				}
				sameStatistics(t, fmt.Sprintf("%v groups %d, %d blocks", metric, groups, len(list)), want, got)
				if a, b := want.NegativeSummary.Mean, got.NegativeSummary.Mean; metric == kernels.Cosine && a != b {
					t.Errorf("groups %d: the mean is %v, and in parts %v", groups, a, b)
				}
				if n := len(got.Sample); n < 2500 || n > 5600 {
					t.Errorf("%v groups %d: a sample of %d", metric, groups, n)
				}
			}
		}
	}
}

// TestPartialsMiss: where ranks were not kept, intervals hold the true values, and one pass with the brackets that are
// returned finds them.
func TestPartialsMiss(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 2))
	all := makers(t)
	for _, metric := range metrics {
		in := partInput(metric, 0, 50)
		e := newEngine(t, Options{})
		want, err := e.Distribution(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		s := &want.NegativeSummary
		for name, b := range map[string]*Brackets{
			"no ranges": {Ends: [2]float64{s.Min, s.Max}},
			"no ends":   {Ends: [2]float64{s.Min - 1, s.Max + 1}},
		} {
			b.Metric, b.Bins, b.Low, b.High, b.Sample = metric, in.Bins, s.Min, s.Max, in.Sample
			if metric == kernels.L2 {
				b.Ends[0] = max(0, b.Ends[0])
			}
			sum := tree(t, rng, partials(t, rng, all, in, b))
			got, next, err := e.FinishDistribution(t.Context(), sum, in.Quantiles)
			if err != nil || next == nil {
				t.Fatalf("%v, %s: %v", metric, name, err)
			}
			d := &got.NegativeSummary
			for i, q := range s.Quantiles {
				p := in.Quantiles[i] // 0 and 1 are beyond the last edges of cells
				if !(d.Low[i] <= q && q <= d.High[i]) || p > 0 && p < 1 && d.High[i]-d.Low[i] > .02*(s.Max-s.Min) {
					t.Errorf("%v, %s: quantile %v is %v, within %v to %v", metric, name, in.Quantiles[i], q, d.Low[i],
						d.High[i])
				}
			}
			sum = tree(t, rng, partials(t, rng, all, in, next))
			got, next, err = e.FinishDistribution(t.Context(), sum, in.Quantiles)
			if err != nil || next != nil {
				t.Fatalf("%v, %s: a further pass %+v, %v", metric, name, next, err)
			}
			sameStatistics(t, fmt.Sprintf("%v, %s", metric, name), want, got)
		}
	}
}

// TestPartialsRefuse: a partial twice, a missing one, and those of other wholes or brackets are errors that name the
// range.
func TestPartialsRefuse(t *testing.T) {
	ctx := context.Background()
	in := partInput(kernels.Cosine, 0, 10)
	e := newEngine(t, Options{})
	b, err := e.DistributionBrackets(ctx, in, .01)
	if err != nil {
		t.Fatal(err)
	}
	of := Whole{Contexts: int64(in.Contexts.Rows), Queries: int64(in.Queries.Rows)}
	part := func(in DistributionInput, of Whole, b *Brackets, c, q [2]int) *Partial {
		t.Helper()
		p, err := e.PartialDistribution(ctx, in, of, b, Block{Contexts: c, Queries: q})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	all := [2]int{0, 700}
	low, high := part(in, of, b, [2]int{0, 200}, all), part(in, of, b, [2]int{200, 500}, all)
	other, wider := of, *b
	other.Digest, wider.Bins = "other", 11
	swapped := in
	swapped.Owner = append([]int32{in.Owner[0] + 1}, in.Owner[1:]...)
	says := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	for want, p := range map[string]*Partial{
		"queries 0 to 699: contexts 0 to 199 are counted twice": low,
		"queries 30 to 39: contexts 10 to 19 are counted twice": part(in, of, b, [2]int{10, 20}, [2]int{30, 40}),
		"another whole":  part(in, other, b, [2]int{200, 500}, all),
		"other brackets": part(in, of, &wider, [2]int{200, 500}, all),
		fmt.Sprintf("query 0 has context %d", in.Owner[0]): part(swapped, of, b, [2]int{200, 500}, all),
	} {
		_, err := low.Plus(p)
		says(err, want)
	}
	finish := func(p *Partial) error {
		_, _, err := e.FinishDistribution(ctx, p, nil)
		return err
	}
	says(finish(low), "queries 0 to 699 with contexts 200 to 499 are not counted")
	says(finish(part(in, of, b, [2]int{0, 500}, [2]int{5, 700})), "queries 0 to 4 with contexts 0 to 499")
	gap, err := low.Plus(part(in, of, b, [2]int{300, 500}, all))
	if err != nil {
		t.Fatal(err)
	}
	says(finish(gap), "contexts 200 to 299 are not counted")
	whole, err := low.Plus(high)
	if err != nil || finish(whole) != nil {
		t.Errorf("%v, %v", err, finish(whole))
	}
	empty, err := whole.Plus(part(in, of, b, [2]int{7, 7}, all)) // adds nothing
	if err != nil || !bytes.Equal(inBytes(t, empty), inBytes(t, whole)) {
		t.Errorf("an empty block: %v", err)
	}
	if _, err := e.PartialDistribution(ctx, in, Whole{Contexts: 10, Queries: 700}, b, Block{Contexts: [2]int{0, 500},
		Queries: all}); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("beyond the whole: %v", err)
	}
}

// FuzzPartial: bytes that are no Partial are ErrPart, and whatever is one adds up and ends without a panic.
func FuzzPartial(f *testing.F) {
	e, ctx := newEngine(f, Options{Threads: 1}), context.Background()
	in := fuzzedInput()
	for _, b := range []*Brackets{{Ends: [2]float64{1, -1}},
		{Ends: [2]float64{-.9, .9}, Ranges: [][2]float64{{-.1, .1}}, Bins: 2, Low: -1, High: 1},
		{Ends: [2]float64{-.9, .9}, Ranges: [][2]float64{{-.1, .1}}, Cells: 5}} {
		for _, contexts := range [][2]int{{0, 40}, {3, 9}} {
			p, err := e.PartialDistribution(ctx, in, Whole{Contexts: 40, Queries: 50}, b,
				Block{Contexts: contexts, Queries: [2]int{0, 50}})
			if err != nil {
				f.Fatal(err)
			}
			data, err := p.MarshalBinary()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data[:len(data)-4])
			f.Add(data[:len(data)/2])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &Partial{new(statistics.Partial)}
		if err := p.p.Decode(data); err != nil { // as behind a good checksum
			if !errors.Is(err, ErrPart) && !errors.Is(err, kernels.ErrNonFinite) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if _, err := p.Plus(p); err != nil && !errors.Is(err, ErrPart) && !errors.Is(err, kernels.ErrRange) {
			t.Fatalf("untyped error %v", err)
		}
		if _, _, err := e.FinishDistribution(ctx, p, []float64{0, .5, 1}); err != nil && !errors.Is(err, ErrPart) &&
			!errors.Is(err, kernels.ErrRange) && !errors.Is(err, kernels.ErrArgument) &&
			!errors.Is(err, kernels.ErrShape) {
			t.Fatalf("untyped error %v", err)
		}
	})
}
