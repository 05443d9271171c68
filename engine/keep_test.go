package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// TestKeepDistribution: the result is Distribution's, the part that is kept merges into it, has about the size that was
// asked for, and serves an input that has grown and shrunk.
func TestKeepDistribution(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	for _, metric := range metrics {
		for _, groups := range []int32{0, 4} {
			for _, limit := range []int64{1 << 30, 1 << 20, 200_000} {
				whole := partInput(metric, groups, 0)
				whole.Quantiles = []float64{.05, .25, .5, .75, .95}
				whole.Bins = 40
				for q := range whole.Owner {
					if whole.Owner[q] %= 460; q < 600 {
						whole.Owner[q] %= 450
					}
				}
				if groups > 0 && limit < 1<<20 {
					whole.Negatives.Kind = NegativesCrossGroup
				}
				old := grown(whole, 450, 600)
				e := newEngine(t, Options{Threads: 2})
				e.tune.MinSamples = 1 << 14
				name := fmt.Sprintf("%v groups %d limit %d", metric, groups, limit)
				want, err := e.Distribution(ctx, old)
				if err != nil {
					t.Fatal(err)
				}
				got, b, p, err := e.KeepDistribution(ctx, old, limit)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				sameStatistics(t, name, want, got)
				if size := p.Bytes() - 50*(450+600); limit < 1<<20 && size > 2*limit ||
					len(b.Ranges) > 0 != (limit < 1<<30) {
					t.Errorf("%s: %d bytes of entries in %v", name, size, b.Ranges)
				}
				p = travelled(t, p)
				if got, err = e.MergeDistribution(ctx, old, b, p); err != nil {
					t.Fatal(err)
				}
				sameStatistics(t, name+" merged", want, got)
				if limit < 1<<30 && got.Rechecked > 0 {
					t.Errorf("%s: %d pairs got scores again that are kept", name, got.Rechecked)
				}

				now := grown(whole, 460, 612)
				added, queries := []int32{}, []int32{}
				for i := range 10 {
					added = append(added, int32(450+i))
				}
				for i := range 12 {
					queries = append(queries, int32(600+i))
				}
				rows, err := e.DistributionPart(ctx, now, b, Block{ContextRows: added, Queries: [2]int{0, 612}})
				if err != nil {
					t.Fatal(err)
				}
				lanes, err := e.DistributionPart(ctx, now, b, Block{Contexts: [2]int{0, 450}, QueryRows: queries})
				if err != nil {
					t.Fatal(err)
				}
				left, contexts, gone := without(now, func(c int) bool { return c%97 == 3 })
				parts := []*Part{p, rows, lanes}
				for i := range parts {
					if parts[i], err = e.RemoveFromPart(ctx, now, b, parts[i], contexts, gone); err != nil {
						t.Fatal(err)
					}
				}
				if want, err = e.Distribution(ctx, left); err != nil {
					t.Fatal(err)
				}
				if got, err = e.MergeDistribution(ctx, left, b, parts...); err != nil {
					t.Fatal(err)
				}
				sameStatistics(t, name+" changed", want, got)
			}
		}
	}
}

// TestKeepDistributionSpills: with less memory than what wide brackets hold, pairs go through the file.
func TestKeepDistributionSpills(t *testing.T) {
	ctx := context.Background()
	in := partInput(kernels.Cosine, 0, 0)
	in.Quantiles = []float64{.05, .5, .95}
	e := newEngine(t, Options{Threads: 2, MemLimit: 6 << 20})
	want, err := newEngine(t, Options{}).Distribution(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	got, b, p, err := e.KeepDistribution(ctx, in, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	sameStatistics(t, "spilled", want, got)
	if got, err = e.MergeDistribution(ctx, in, b, p); err != nil {
		t.Fatal(err)
	}
	sameStatistics(t, "merged", want, got)
}

func TestKeepDistributionRefused(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	in := partInput(kernels.Cosine, 0, 0)
	if _, _, _, err := e.KeepDistribution(ctx, in, 0); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("nothing to keep: %v", err)
	}
	in.Negatives = Negatives{Kind: NegativesSample, PerQuery: 3}
	if _, _, _, err := e.KeepDistribution(ctx, in, 1<<20); !errors.Is(err, ErrPart) {
		t.Errorf("sampled negatives: %v", err)
	}
	in.Negatives, in.Queries.Rows, in.Owner = Negatives{}, 0, nil
	if _, _, _, err := e.KeepDistribution(ctx, in, 1<<20); !errors.Is(err, kernels.ErrEmpty) {
		t.Errorf("no queries: %v", err)
	}
}
