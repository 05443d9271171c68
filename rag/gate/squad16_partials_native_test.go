//go:build native

package gate

import (
	"bytes"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine"
)

// squad16Partials adds up random blocks of squad16's pairs, counted by random instruction sets, in random trees: each
// gives the same bytes, and with them what one run gives.
func squad16Partials(t *testing.T, in Input) {
	trees := 100
	if *figures {
		trees = 1000
	}
	machines, rng := engines(t), rand.New(rand.NewPCG(16, 47))
	all := shuffled(rng, in)
	all.ContextIDs, all.QueryIDs = nil, nil // its own order is the whole's
	want, err := machines[0].Distribution(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	b, err := machines[0].DistributionBrackets(t.Context(), all, .0005)
	if err != nil {
		t.Fatal(err)
	}
	of := engine.Whole{Contexts: int64(all.Contexts.Rows), Queries: int64(all.Queries.Rows)}
	var list []*engine.Partial
	size := int64(0)
	for _, rows := range blocks(rng, [2]int{0, all.Contexts.Rows}) {
		for _, lanes := range blocks(rng, [2]int{0, all.Queries.Rows}) {
			p, err := machines[rng.IntN(len(machines))].PartialDistribution(t.Context(), all, of, b,
				engine.Block{Contexts: rows, Queries: lanes})
			if err != nil {
				t.Fatal(err)
			}
			list, size = append(list, p), size+p.Bytes()
		}
	}
	var first []byte
	var sum *engine.Partial
	for tree := range trees {
		left := append([]*engine.Partial{}, list...)
		for len(left) > 1 {
			rng.Shuffle(len(left), func(i, k int) { left[i], left[k] = left[k], left[i] })
			p, err := left[0].Plus(left[1])
			if err != nil {
				t.Fatal(err)
			}
			left = append(left[2:], p)
		}
		sum = left[0]
		data, err := sum.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(data, first) {
			t.Fatalf("tree %d has other bits", tree)
		}
	}
	got, next, err := machines[0].FinishDistribution(t.Context(), sum, all.Quantiles)
	if err != nil || next != nil {
		t.Fatalf("%+v, %v", next, err)
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(engine.Distribution{}, "DType", "Kept", "Rechecked", "Way", "Separation",
			"SeparationError"),
		cmpopts.IgnoreFields(engine.Summary{}, "Mean", "Std", "MeanError", "StdError")); diff != "" {
		t.Errorf("(-one run +partials)\n%s", diff)
	}
	t.Logf("%d trees of %d blocks, %d bytes in all; the sum %d bytes for %d negatives", trees, len(list), size,
		sum.Bytes(), got.NegativeSummary.N)
}
