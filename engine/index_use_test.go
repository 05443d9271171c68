package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// TestIndexAllocations checks that a single query, including its helpers, allocates nothing once the index has run
// one.
func TestIndexAllocations(t *testing.T) {
	race.Skip(t)
	rng, ctx := rand.New(rand.NewPCG(83, 1)), context.Background()
	e := newEngine(t, Options{Cores: cores.New(2)})
	if !scan.Has(e.r.Host) {
		t.Skip("SKIP: without the C kernels a set has no codes, and searches read plain rows")
	}
	c, q := plain(rng, 8000, 70), rows(plain(rng, 8, 70))
	list := BiasList{{Row: 3, Value: .01}, {Row: 4000, Value: .02}}
	for n, metric := range metrics {
		x := prepare(t, e, c, metric, SetOptions{Clusters: 200})
		i, bias := 0, Biases(list)
		if n == 0 {
			bias = computed{list}
		}
		allocs := testing.AllocsPerRun(50, func() {
			i++
			v := q[i%len(q)]
			best, _, err := x.Max(ctx, v, bias)
			if err != nil {
				t.Fatal(err)
			}
			if _, above, err := x.AnyAbove(ctx, v, nil, metric.Biased(best.Score, 1)); err != nil || above {
				t.Fatal(above, err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", metric, allocs)
		}
	}
}

// TestIndexConcurrent runs queries of all kinds during appends and deletions. Every result must be correct for the
// index at some moment between the call and its return.
func TestIndexConcurrent(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(89, 1)), context.Background()
	const dim, first, more = 33, 2000, 40
	e := newEngine(t, Options{})
	c := plain(rng, first+more*50, dim)
	part := func(from, to int) Vectors { return Vectors{Data: c.Data[from*dim : to*dim], Rows: to - from, Dim: dim} }
	x := prepare(t, e, part(0, first), kernels.IP, SetOptions{})
	queries := plain(rng, 20, dim)
	var stop atomic.Bool
	var wait sync.WaitGroup
	for worker := range 3 {
		wait.Go(func() {
			for round := 0; !stop.Load(); round++ {
				before := x.Rows()
				got, err := x.TopK(ctx, queries, 3, nil)
				if err != nil {
					t.Error(err)
					return
				}
				after := x.Rows()
				i := (worker + round) % queries.Rows
				best, ok, err := x.Max(ctx, rows(queries)[i], nil)
				if err != nil || !ok || best.Score < got[i][0].Score && best.Row%7 != 0 && got[i][0].Row%7 != 0 {
					t.Errorf("Max %v %v %v after TopK %v", best, ok, err, got[i])
				}
				for _, h := range got[i] {
					if h.Row >= after || h.Score != ref.Dot(rows(queries)[i], rows(c)[h.Row]) {
						t.Errorf("hit %v of %d to %d rows", h, before, after)
					}
				}
			}
		})
	}
	for i := range more {
		if err := x.Append(ctx, part(first+i*50, first+(i+1)*50)); err != nil {
			t.Fatal(err)
		}
		if err := x.Delete(7 * i); err != nil { // rows whose numbers are divisible by 7 are added and deleted
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wait.Wait()
	j := &expected{kernels.IP, rows(c)}
	for i := range more {
		j.rows[7*i] = nil
	}
	j.check(t, x, part(5, 9), nil, 4)
	if s := x.Describe(); s.Rows != c.Rows || s.Deleted != more || s.Chunks > 0 &&
		(s.Unclustered+s.Plain != more*50 || s.Bytes == 0) {
		t.Errorf("%+v", s)
	}
}

// TestIndexCancellation checks that a call ends soon after its context in every phase and returns its tokens.
func TestIndexCancellation(t *testing.T) {
	rng := rand.New(rand.NewPCG(97, 1))
	budget := cores.New(2)
	e := newEngine(t, Options{Cores: budget})
	c, q := plain(rng, 30_000, 128), plain(rng, 64, 128)
	x := prepare(t, e, c, kernels.Cosine, SetOptions{})
	for name, run := range map[string]func(context.Context) error{
		"build": func(ctx context.Context) error { _, err := e.Prepare(ctx, c, kernels.L2, SetOptions{}); return err },
		"one":   func(ctx context.Context) error { _, _, err := x.Max(ctx, rows(q)[0], nil); return err },
		"many":  func(ctx context.Context) error { _, err := x.TopK(ctx, q, 1000, nil); return err },
	} {
		for _, after := range []time.Duration{0, 50 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(context.Background(), after)
			err := run(ctx)
			late := ctx.Err() != nil
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) || err == nil && after == 0 && late {
				t.Errorf("%s after %v: %v", name, after, err)
			}
		}
		if free := budget.Free(); free != 2 {
			t.Errorf("%s: %d tokens free, want 2", name, free)
		}
	}
}

// TestIndexFallsBack checks that all rows are read, with the same results, if the bounds rule out nothing or there is
// no scan kernel.
func TestIndexFallsBack(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(101, 1)), context.Background()
	c := Vectors{Data: make([]float32, 20_000*8), Rows: 20_000, Dim: 8}
	for i := range c.Data {
		c.Data[i] = float32(rng.IntN(2)) // 256 distinct points, each many times: near rows tie
	}
	q := plain(rng, 5, 8)
	for _, isa := range []string{"", "go"} {
		e := newEngine(t, Options{ISA: isa})
		x := prepare(t, e, c, kernels.L2, SetOptions{Clusters: 300})
		if s := x.Describe(); isa == "go" && (s.Reason == "" || s.Plain != c.Rows || s.Chunks != 0) {
			t.Errorf("without a scan: %+v", s)
		}
		want, err := e.TopK(ctx, q, c, kernels.L2, 9000, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.TopK(ctx, q, 9000, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			one, err := x.TopK(ctx, Vectors{Data: rows(q)[i], Rows: 1, Dim: 8}, 9000, nil)
			if err != nil {
				t.Fatal(err)
			}
			for n, h := range want[i] {
				if got[i][n] != h || one[0][n] != h {
					t.Fatalf("query %d, hit %d: %v and %v, want %v", i, n, got[i][n], one[0][n], h)
				}
			}
		}
	}
}
