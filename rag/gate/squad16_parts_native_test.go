//go:build native

package gate

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// squad16Parts splits the pairs of squad16 seven times at random: contexts × queries × instruction set × what was there
// before and what was added. The parts must merge to the bits of one run: counts, order statistics, extremes and
// maxima; the mean and the standard deviation within the bounds that both print.
func squad16Parts(t *testing.T, in Input) {
	machines := engines(t)
	for split := range 7 {
		rng := rand.New(rand.NewPCG(16, uint64(split)))
		all := shuffled(rng, in)
		if split%2 == 1 {
			all.Negatives.Kind = engine.NegativesCrossGroup
		}
		want, err := machines[0].Distribution(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		before := first(all, all.Contexts.Rows*(70+rng.IntN(25))/100)
		n, m := before.Contexts.Rows, before.Queries.Rows
		b, err := machines[0].DistributionBrackets(t.Context(), before, .05)
		if err != nil {
			t.Fatal(err)
		}
		var parts []*engine.Part
		used, bytes := map[string]int{}, 0
		count := func(of engine.DistributionInput, contexts, queries [2]int) {
			for _, rows := range blocks(rng, contexts) {
				for _, lanes := range blocks(rng, queries) {
					e := machines[rng.IntN(len(machines))]
					p, err := e.DistributionPart(t.Context(), of, b, engine.Block{Contexts: rows, Queries: lanes})
					if err != nil {
						t.Fatal(err)
					}
					data, err := p.MarshalBinary()
					if err != nil {
						t.Fatal(err)
					}
					travelled := new(engine.Part)
					if err := travelled.UnmarshalBinary(data); err != nil {
						t.Fatal(err)
					}
					parts, bytes = append(parts, travelled), bytes+len(data)
					used[e.Describe().ISA]++
				}
			}
		}
		count(before, [2]int{0, n}, [2]int{0, m})
		count(all, [2]int{n, all.Contexts.Rows}, [2]int{0, m})
		count(all, [2]int{0, all.Contexts.Rows}, [2]int{m, all.Queries.Rows})
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		got, err := machines[0].MergeDistribution(t.Context(), all, b, parts...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(engine.Distribution{}, "DType", "Kept", "Rechecked", "Way", "Separation",
				"SeparationError"),
			cmpopts.IgnoreFields(engine.Summary{}, "Mean", "Std", "MeanError", "StdError")); diff != "" {
			t.Errorf("split %d (-one run +merged)\n%s", split, diff)
		}
		x, y := want.NegativeSummary, got.NegativeSummary
		mean, std := math.Abs(x.Mean-y.Mean), math.Abs(x.Std-y.Std)
		if !(mean <= x.MeanError+y.MeanError) || !(std <= x.StdError+y.StdError) {
			t.Errorf("split %d: mean %v ± %v and %v ± %v, standard deviation %v ± %v and %v ± %v", split,
				x.Mean, x.MeanError, y.Mean, y.MeanError, x.Std, x.StdError, y.Std, y.StdError)
		}
		t.Logf("split %d: %d of %d contexts and %d of %d questions before; %d parts of %v, %d bytes; %d negatives, "+
			"median %.6f; "+
			"mean off by %.2g of ± %.2g, standard deviation by %.2g of ± %.2g", split, n, all.Contexts.Rows, m,
			all.Queries.Rows,
			len(parts), used, bytes, y.N, y.Quantiles[len(y.Quantiles)/2], mean, y.MeanError, std, y.StdError)
	}
}

// engines returns an engine for the best instruction set, and one for each that is available.
func engines(t *testing.T) []*engine.Engine {
	list := []*engine.Engine{newEngine(t)}
	for _, isa := range []string{"scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "amx"} {
		e, err := engine.New(engine.Options{ISA: isa})
		if errors.Is(err, kernels.ErrISA) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// shuffled returns the contexts in random order, and the questions in that of their contexts.
func shuffled(rng *rand.Rand, in Input) engine.DistributionInput {
	n, m := in.Contexts.Rows, in.Queries.Rows
	rows, lanes, at := rng.Perm(n), make([]int, m), make([]int, n)
	for i, row := range rows {
		at[row] = i
	}
	for q := range lanes {
		lanes[q] = q
	}
	slices.SortStableFunc(lanes, func(a, b int) int { return cmp.Compare(at[in.Owner[a]], at[in.Owner[b]]) })
	pick := func(v engine.Vectors, list []int) engine.Vectors {
		out := engine.Vectors{Rows: len(list), Dim: v.Dim, Data: make([]float32, 0, len(list)*v.Dim)}
		for _, row := range list {
			out.Data = append(out.Data, v.Data[row*v.Dim:(row+1)*v.Dim]...)
		}
		return out
	}
	out := engine.DistributionInput{Contexts: pick(in.Contexts, rows), Queries: pick(in.Queries, lanes),
		Quantiles: []float64{.01, .05, .25, .5, .75, .95, .99}}
	for _, row := range rows {
		out.Group, out.ContextIDs = append(out.Group, in.Groups[row]), append(out.ContextIDs, uint64(row))
	}
	for _, q := range lanes {
		out.Owner, out.QueryIDs = append(out.Owner, int32(at[in.Owner[q]])), append(out.QueryIDs, uint64(q))
	}
	return out
}

// first returns the input without all but the first n contexts and their questions.
func first(in engine.DistributionInput, n int) engine.DistributionInput {
	m, _ := slices.BinarySearch(in.Owner, int32(n))
	in.Contexts.Rows, in.Queries.Rows = n, m
	in.Group, in.ContextIDs, in.Owner, in.QueryIDs = in.Group[:n], in.ContextIDs[:n], in.Owner[:m], in.QueryIDs[:m]
	return in
}

// blocks cuts a range of rows into up to three.
func blocks(rng *rand.Rand, of [2]int) (list [][2]int) {
	at := []int{of[0], of[0] + rng.IntN(of[1]-of[0]), of[0] + rng.IntN(of[1]-of[0]), of[1]}
	slices.Sort(at)
	at = slices.Compact(at)
	for i := range len(at) - 1 {
		list = append(list, [2]int{at[i], at[i+1]})
	}
	return list
}
