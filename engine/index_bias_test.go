package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// manyBiases gives about a share of n rows a bias of up to largest.
func manyBiases(rng *rand.Rand, n int, share, largest float64) BiasList {
	var list BiasList
	for row := range n {
		if rng.Float64() < share {
			list = append(list, Bias{Row: row, Value: float64(float32(largest * rng.Float64()))})
		}
	}
	return list
}

// agree compares an index with the engine's own operations over the same rows, of which deleted ones count no
// more: the k best of each query, one by one and together, and the decisions at the k-th best score.
func agree(t *testing.T, e *Engine, x preparedSet, c, queries Vectors, metric kernels.Metric, k int, bias []Biases,
	deleted map[int]bool) {
	t.Helper()
	ctx := context.Background()
	all, err := e.TopK(ctx, queries, c, metric, k+len(deleted), bias)
	if err != nil {
		t.Fatal(err)
	}
	together, err := x.TopK(ctx, queries, k, bias)
	if err != nil {
		t.Fatal(err)
	}
	j := &expected{metric, rows(c)}
	for i, q := range rows(queries) {
		var want []Hit
		for _, h := range all[i] {
			if !deleted[h.Row] && len(want) < k {
				want = append(want, h)
			}
		}
		one, err := x.TopK(ctx, Vectors{Data: q, Rows: 1, Dim: len(q)}, k, bias[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string][]Hit{"together": together[i], "alone": one[0]} {
			if diff := difference(want, append([]Hit(nil), got...)); diff != "" {
				t.Fatalf("%s query %d %s (-engine +index):\n%s", metric, i, name, diff)
			}
		}
		for _, tau := range []float64{want[0].Score, math.Nextafter(want[0].Score, metric.Worst()), want[k-1].Score} {
			h, above, err := x.AnyAbove(ctx, q, bias[i], tau)
			if err != nil || above != metric.Better(want[0].Score, tau) || !j.witness(q, bias[i], h, above, tau) ||
				deleted[h.Row] {
				t.Fatalf("%s query %d, tau %v, maximum %v: %v %v %v", metric, i, tau, want[0], h, above, err)
			}
		}
		if i >= 3 {
			continue
		}
		tau := want[0].Score
		decisions, err := x.AnyAboveAll(ctx, queries, bias, tau)
		if err != nil {
			t.Fatal(err)
		}
		for n, d := range decisions {
			best := all[n][0]
			for _, h := range all[n] {
				if !deleted[h.Row] {
					best = h
					break
				}
			}
			if d.Above != metric.Better(best.Score, tau) || !j.witness(rows(queries)[n], bias[n], d.Hit, d.Above, tau) {
				t.Fatalf("%s query %d, tau %v: %+v, maximum %v", metric, n, tau, d, best)
			}
		}
	}
}

// TestIndexManyBiases: lists of few and of many rows over many chunks, small and large beside the scores (distances
// become negative), with rows deleted and appended.
func TestIndexManyBiases(t *testing.T) {
	race.Skip(t)
	for _, isa := range isas() {
		for _, metric := range metrics {
			t.Run(isa.String()+"/"+metric.String(), func(t *testing.T) {
				rng, ctx := rand.New(rand.NewPCG(103, uint64(isa))), context.Background()
				e := newEngine(t, Options{ISA: isa.String(), Threads: 3})
				first, more, small := 5000, 1500, 300
				if !scan.Has(e.r.Host) {
					first, more, small = 500, 100, 30 // a row costs fifty times as much
				}
				c, q := plain(rng, first+more+small, 70), plain(rng, 8, 70)
				part := func(from, to int) Vectors {
					return Vectors{Data: c.Data[from*70 : to*70], Rows: to - from, Dim: 70}
				}
				x := prepare(t, e, part(0, first), metric, SetOptions{Clusters: 120})
				if err := x.Append(ctx, part(first, first+more)); err != nil {
					t.Fatal(err)
				}
				if err := x.Append(ctx, part(first+more, c.Rows)); err != nil {
					t.Fatal(err)
				}
				if s := x.Describe(); s.Chunks > 0 && (s.Chunks < 72 || s.Plain != small) {
					t.Fatalf("%+v", s)
				}
				bias := make([]Biases, q.Rows)
				for i, largest := range []float64{.05, .3, 1, 5, 1e-3, 1e-40, 100} {
					list := manyBiases(rng, c.Rows, []float64{.3, .01, .9}[i%3], largest)
					if bias[i] = list; i%2 == 1 {
						bias[i] = computed{list}
					}
				}
				agree(t, e, x, c, q, metric, 10, bias, nil)
				deleted := map[int]bool{}
				for i := range q.Rows { // the best rows, and one with a bias that would be best
					best, ok, err := x.Max(ctx, rows(q)[i], bias[i])
					if err != nil || !ok {
						t.Fatal(err)
					}
					deleted[best.Row] = true
					if err := x.Delete(best.Row); err != nil {
						t.Fatal(err)
					}
				}
				agree(t, e, x, c, q, metric, 10, bias, deleted)
			})
		}
	}
}

// TestIndexBoundsBiasedRows: rows with a bias are ruled out by bounds like the others, and not scored one by one.
func TestIndexBoundsBiasedRows(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(107, 1)), context.Background()
	e := newEngine(t, Options{})
	if !scan.Has(e.r.Host) {
		t.Skip("SKIP: without C kernels all rows are scored")
	}
	c, q := plain(rng, 8000, 70), plain(rng, 8, 70)
	for _, metric := range metrics {
		x := prepare(t, e, c, metric, SetOptions{Clusters: 100})
		for i, vector := range rows(q) {
			bias := manyBiases(rng, c.Rows, .3, .05)
			best, _, err := x.Max(ctx, vector, bias)
			if err != nil {
				t.Fatal(err)
			}
			d, err := x.AnyAboveAll(ctx, Vectors{Data: vector, Rows: 1, Dim: 70}, []Biases{bias}, best.Score)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s query %d: %d rows have a bias, %d were scored", metric, i, len(bias), d[0].Survivors)
			if d[0].Above || d[0].Survivors > int64(len(bias)/20) {
				t.Errorf("%s query %d: %+v with %d biases", metric, i, d[0], len(bias))
			}
		}
	}
}

// reader are biases that a test computes; it counts the blocks that were read.
type reader struct {
	read  func(b RowBlock, out []float32) error
	count *atomic.Int64
}

func (r reader) Read(b RowBlock, out []float32) error {
	r.count.Add(1)
	return r.read(b, out)
}

// TestIndexReadsBiases: blocks hold each row once and keep their numbers; a search asks for no more than these
// blocks, each once, and for few where it ends early.
func TestIndexReadsBiases(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(109, 1)), context.Background()
	e := newEngine(t, Options{})
	if !scan.Has(e.r.Host) {
		t.Skip("SKIP: without C kernels there are no blocks with numbers")
	}
	c, q := plain(rng, 7000, 40), plain(rng, 1, 40)
	part := func(from, to int) Vectors { return Vectors{Data: c.Data[from*40 : to*40], Rows: to - from, Dim: 40} }
	x := prepare(t, e, part(0, 5000), kernels.Cosine, SetOptions{Clusters: 80})
	first := x.Blocks()
	for _, more := range []Vectors{part(5000, 6500), part(6500, 7000)} {
		if err := x.Append(ctx, more); err != nil {
			t.Fatal(err)
		}
	}
	blocks, seen := x.Blocks(), make([]bool, c.Rows)
	for n, b := range blocks {
		if b.Number >= 0 && b.Number != n || b.Len < 1 || b.Len > 1024 || b.Number < 0 && b.Rows != nil {
			t.Fatalf("block %d: %d of %d rows", n, b.Number, b.Len)
		}
		for i := range b.Len {
			if row := b.Row(i); seen[row] {
				t.Fatalf("row %d is in two blocks", row)
			}
			seen[b.Row(i)] = true
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		t.Fatalf("row %d is in no block", i)
	}
	for n, b := range first {
		if !reflect.DeepEqual(b, blocks[n]) {
			t.Fatalf("block %d was %v, is %v", n, b, blocks[n])
		}
	}
	var count atomic.Int64
	known := func(b RowBlock, out []float32) error {
		if len(out) != b.Len || slices.Max(out) != 0 || b.Number >= 0 && !reflect.DeepEqual(b, blocks[b.Number]) {
			t.Errorf("asked for block %d with room for %d", b.Number, len(out))
		}
		out[0] = .25
		return nil
	}
	if _, above, err := x.AnyAbove(ctx, q.Data, reader{known, &count}, 2); above || err != nil ||
		count.Load() != int64(len(blocks)) {
		t.Errorf("%v %v: %d of %d blocks read", above, err, count.Load(), len(blocks))
	}
	count.Store(0)
	if _, above, err := x.AnyAbove(ctx, q.Data, reader{known, &count}, -.5); !above || err != nil || count.Load() > 2 {
		t.Errorf("%v %v: %d of %d blocks read to find a witness", above, err, count.Load(), len(blocks))
	}
	failing := errors.New("no postings")
	for name, tt := range map[string]struct {
		read func(RowBlock, []float32) error
		want error
	}{
		"failing": {func(RowBlock, []float32) error { return failing }, failing},
		"NaN": {func(_ RowBlock, out []float32) error { out[len(out)-1] = float32(math.NaN()); return nil },
			kernels.ErrNonFinite},
		"infinite": {func(_ RowBlock, out []float32) error { out[0] = float32(math.Inf(1)); return nil },
			kernels.ErrNonFinite},
		"negative": {func(_ RowBlock, out []float32) error { out[0] = -1e-40; return nil }, kernels.ErrArgument},
	} {
		bias := reader{tt.read, &count}
		_, _, one := x.Max(ctx, q.Data, bias)
		_, many := x.TopK(ctx, plain(rng, 3, 40), 2, []Biases{nil, bias, nil})
		_, _, plainOne := e.AnyAbove(ctx, q.Data, c, kernels.Cosine, bias, 3)
		_, plainMany := e.TopK(ctx, q, c, kernels.Cosine, 2, []Biases{bias})
		for _, err := range []error{one, many, plainOne, plainMany} {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	zero := func(_ RowBlock, out []float32) error { out[0] = float32(math.Copysign(0, -1)); return nil }
	if _, ok, err := x.Max(ctx, q.Data, reader{zero, &count}); !ok || err != nil {
		t.Errorf("−0 is refused: %v", err)
	}
}
