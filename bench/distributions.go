package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/bench/peers"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Tolerances are errors up to which all results count as equally accurate.
const (
	sameTable  = 1e-5       // quantiles of float32 products: a few roundings
	sameBins   = 2. / 4096  // a bin, when [-1, 1] has 4,096
	cosineWork = 2          // operations per pair and dimension
	floatBytes = 4          // per value read
	seedW1     = uint64(7)  // + dimension
	seedW2     = uint64(11) // also of the stored matrix
)

// w1: 1,700 contexts and three pseudo-queries each, vectors to the full table.
func (s *session) w1(ctx context.Context, _ []string) error {
	n, dims := 1700, []int{384, 768}
	if s.o.Short {
		n, dims = 90, []int{384}
	}
	for _, d := range dims {
		if err := s.tables(ctx, "w1", seedW1+uint64(d), n, d, s.rounds(7), sameTable, s.w1Peers); err != nil {
			return err
		}
	}
	return nil
}

// w2: 20,000 contexts and three pseudo-queries each.
func (s *session) w2(ctx context.Context, _ []string) error {
	n := 20_000
	if s.o.Short {
		n = 120
	}
	return s.tables(ctx, "w2", seedW2, n, 384, s.rounds(3), sameBins, s.w2Peers)
}

// addPeers adds the peers of a workload to its benchmark.
type addPeers func(ctx context.Context, b *benchmark, p *pairs, want table) (processes, error)

// tables is the benchmark of a distribution.
func (s *session) tables(ctx context.Context, workload string, seed uint64, n, dim, rounds int, tolerance float64,
	add addPeers) (err error) {
	p, err := s.mixturePairs(ctx, seed, n, 3, dim)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	want, err := s.tableOf(ctx, p)
	if err != nil {
		return err
	}
	m := p.queries.Rows
	b := &benchmark{
		workload: workload, shape: shape(n, m, dim), pairs: float64(m) * float64(n-1), rounds: rounds,
		tolerance:  tolerance,
		operations: cosineWork * float64(m) * float64(n) * float64(dim),
		bytes:      floatBytes * float64(m+n) * float64(dim),
	}
	variants, err := s.variants(kernels.F32, kernels.BF16x3, kernels.I16)
	if err != nil {
		return err
	}
	for _, v := range variants {
		v.free = v.dtype == kernels.I16 // what the engine takes by itself where it has no better format
		b.competitors = append(b.competitors, v.distribution(p, want, false))
		if v.isa == variants[0].isa && !v.free { // elsewhere the difference to exact is the same
			b.competitors = append(b.competitors, v.distribution(p, want, true))
		}
	}
	peers, err := add(ctx, b, p, want)
	defer func() { err = errors.Join(err, peers.close()) }()
	if err != nil {
		return err
	}
	return s.run(ctx, b)
}

// distribution is Sluice's competitor: the whole result with D+, both maximum distributions and moments.
func (v variant) distribution(p *pairs, want table, interval bool) *competitor {
	mode := "exact"
	if interval {
		mode = "interval"
	}
	var last *engine.Distribution
	in := engine.DistributionInput{
		Contexts: p.contexts.Vectors, Queries: p.queries.Vectors, Owner: p.owner(), Metric: kernels.Cosine,
		Quantiles: probabilities(),
		Interval:  interval,
	}
	asked := ""
	if !v.free {
		in.DType, asked = &v.dtype, v.dtype.String()+" asked for"
	}
	return &competitor{
		Row: v.own(mode), kind: v.dtype, choice: func() string { return v.describe(asked, describeWay(last)) },
		run: func(ctx context.Context, _ int) ([]time.Duration, error) {
			return timeIt(func() (err error) { last, err = v.engine.Distribution(ctx, in); return err })
		},
		check: func(context.Context) (float64, error) {
			if !interval {
				return want.distance(table{last.PositiveSummary.Quantiles, last.NegativeSummary.Quantiles}, false), nil
			}
			return intervalError(want, last), nil
		},
	}
}

// describeWay describes how a distribution was computed.
func describeWay(d *engine.Distribution) string {
	w := d.Way
	text := fmt.Sprintf("%s, regions %d, passes %d, pairs kept %d, rechecked %d", d.DType, w.Regions, w.Passes, d.Kept,
		d.Rechecked)
	if w.Spilled > 0 {
		text += fmt.Sprintf(", %.3g MB through a file", float64(w.Spilled)/1e6)
	}
	if w.Reason != "" {
		text += " (" + w.Reason + ")"
	}
	return text
}

// intervalError returns the largest distance of an interval's ends from the exact quantile, infinite if the
// interval does not contain it.
func intervalError(want table, d *engine.Distribution) (worst float64) {
	low, high := d.NegativeSummary.Low, d.NegativeSummary.High
	if len(low) != len(want.Negative) || len(high) != len(want.Negative) {
		return math.Inf(1)
	}
	for i, x := range want.Negative {
		if !(low[i] <= x && x <= high[i]) {
			return math.Inf(1)
		}
		worst = max(worst, x-low[i], high[i]-x)
	}
	return worst
}

// w1Peers return tables.
func (s *session) w1Peers(ctx context.Context, b *benchmark, p *pairs, want table) (processes, error) {
	return s.addOffers(ctx, b, p.params(), func(ctx context.Context, o peerOffer) (float64, error) {
		var got table
		if err := o.result(ctx, &got); err != nil {
			return 0, err
		}
		return want.distance(got, false), nil
	})
}

func (p *pairs) params() map[string]any {
	return map[string]any{"contexts": p.contexts.path, "queries": p.queries.path, "per": p.k,
		"quantiles": probabilities(), "part": 0, "of": 1}
}

func noQueries(int) [][]int { return [][]int{{}} }

// counts is the result of W2's peers: the number of negatives below each of some ascending thresholds, and the
// quantiles of the positives.
type counts struct {
	Positive   []float64 `json:"positive"`
	Thresholds []float64 `json:"thresholds"`
	Below      []int64   `json:"below"`
	Pairs      int64     `json:"pairs"` // negatives in all
}

// w2Peers run as one single-threaded process per core, each with a part of the contexts: no other form of theirs
// is faster.
func (s *session) w2Peers(ctx context.Context, b *benchmark, p *pairs, want table) (processes, error) {
	var out processes
	for _, l := range s.librariesFor(b.workload) {
		group, c, err := s.processGroup(ctx, l, b.workload, p, want)
		out = append(out, group...)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if err != nil {
			s.note("%s: %v", b.workload, err)
			continue
		}
		b.competitors = append(b.competitors, c)
	}
	return out, nil
}

// processGroup is one competitor that consists of several single-threaded processes.
func (s *session) processGroup(ctx context.Context, l library, workload string, p *pairs,
	want table) (group processes, c *competitor, err error) {
	var first peers.Offer
	for part := range s.o.Threads {
		params := p.params()
		params["part"], params["of"] = part, s.o.Threads
		process, offers, err := s.start(ctx, l, 1, workload, params)
		if err != nil {
			return group, nil, err
		}
		group = append(group, process)
		first = offers[0]
	}
	c = &competitor{Row: Row{Impl: first.Impl + ", a process per core", DType: first.DType, Mode: first.Mode}}
	c.run = func(ctx context.Context, _ int) ([]time.Duration, error) {
		return timeIt(func() error {
			errs := make([]error, len(group))
			var wg sync.WaitGroup
			for i, process := range group {
				wg.Go(func() { _, errs[i] = process.Run(ctx, first.Name, noQueries(0)) })
			}
			wg.Wait()
			return errors.Join(errs...)
		})
	}
	c.check = func(ctx context.Context) (float64, error) {
		var sum counts
		for _, process := range group {
			var part counts
			if err := process.Result(ctx, first.Name, &part); err != nil {
				return 0, err
			}
			if err := sum.add(part); err != nil {
				return 0, err
			}
		}
		return want.distance(sum.table(), true), nil
	}
	return group, c, nil
}

// add adds the counts of other pairs below the same thresholds.
func (c *counts) add(o counts) error {
	if c.Thresholds == nil {
		*c = counts{Positive: o.Positive, Thresholds: o.Thresholds, Below: make([]int64, len(o.Thresholds))}
	}
	if !slices.Equal(c.Thresholds, o.Thresholds) || len(o.Below) != len(c.Below) {
		return errNotNumber
	}
	for i, n := range o.Below {
		c.Below[i] += n
	}
	c.Pairs += o.Pairs
	return nil
}

// table interpolates between two thresholds; a quantile that is not between two close ones is infinite, as are
// the extremes.
func (c counts) table() table {
	t := table{Positive: c.Positive, Negative: make([]float64, len(probabilities()))}
	for i, p := range probabilities() {
		rank, f := ref.Rank7(c.Pairs, p)
		at := float64(rank) + f
		t.Negative[i] = math.Inf(1)
		for j := range len(c.Thresholds) - 1 {
			low, high := float64(c.Below[j]), float64(c.Below[j+1])
			width := c.Thresholds[j+1] - c.Thresholds[j]
			if low <= at && at < high && width < 2.5*sameBins {
				t.Negative[i] = c.Thresholds[j] + (at-low)/(high-low)*width
			}
		}
	}
	return t
}
