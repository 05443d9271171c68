package index

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/hits"
	"github.com/sluice-rag/sluice/engine/internal/matrix"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// TopK returns for each query the k ≥ 1 best rows, better first, ties by lower row. See Interface.TopK.
func (x *Index) TopK(ctx context.Context, queries kernels.Vectors, k int, bias []kernels.Biases) ([][]kernels.Hit,
	error) {
	if k < 1 {
		return nil, fmt.Errorf("engine: k: %w: %d, at least 1", kernels.ErrArgument, k)
	}
	out := make([][]kernels.Hit, queries.Rows)
	err := x.many(ctx, queries, bias, k, 0, func(i int, found *queryState) {
		hits.Sort(found.hits, x.metric)
		out[i] = slices.Clone(found.hits)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// AnyAboveAll decides for each query whether any row's biased score is strictly better than tau. All queries share one
// pass over the rows.
func (x *Index) AnyAboveAll(ctx context.Context, queries kernels.Vectors, bias []kernels.Biases,
	tau float64) ([]hits.Found, error) {
	if math.IsNaN(tau) {
		return nil, fmt.Errorf("engine: tau: %w: NaN", kernels.ErrNonFinite)
	}
	out := make([]hits.Found, queries.Rows)
	err := x.many(ctx, queries, bias, 0, tau, func(i int, found *queryState) {
		out[i] = hits.Found{Hits: slices.Clone(found.hits), Survivors: found.survivors.Load()}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// many searches for several queries and passes each result to report.
func (x *Index) many(ctx context.Context, queries kernels.Vectors, bias []kernels.Biases, k int, tau float64,
	report func(int, *queryState)) error {
	o, err := device.View("queries", queries)
	if err != nil {
		return err
	}
	s := x.now.Load()
	if bias == nil {
		bias = make([]kernels.Biases, o.N)
	}
	if len(bias) != o.N {
		return fmt.Errorf("engine: %w: %d bias lists for %d queries", kernels.ErrShape, len(bias), o.N)
	}
	if o.N == 0 {
		return nil
	}
	if err := x.checkQuery(s, "queries", o.Rows); err != nil {
		return err
	}
	if o.N == 1 {
		w, err := x.search(ctx, s, o.Row(0), bias[0], k, tau)
		if err != nil {
			return err
		}
		report(0, &w.queryState)
		x.free.put(w)
		return nil
	}
	b := &batch{x: x, s: s, lanes: make([]*lane, x.r.Pool.Threads), all: make([]*queryState, o.N)}
	for i := range b.all {
		b.all[i] = &queryState{query: newQuery(s.model, x.metric, o.Dim)}
		b.all[i].begin(s, k, tau)
	}
	err = x.r.Pool.Each(ctx, o.N, x.r.Pool.Threads,
		func(_, i int) error { return b.all[i].bias.set(ctx, i, bias[i], s) })
	if err != nil {
		return err
	}
	if err := b.run(ctx, o.Rows); err != nil {
		return err
	}
	for i, found := range b.all {
		report(i, found)
	}
	return nil
}

// batch is the search of several queries.
type batch struct {
	x     *Index
	s     *snapshot
	lanes []*lane // one per worker
	all   []*queryState
	packs []*packed
}

// room returns the largest number of queries that are scanned together, which limits the memory.
func (b *batch) room() int {
	return min(workers.Ceil(len(b.all), scan.Lanes)*scan.Lanes, scan.MaxQueries)
}

func (b *batch) lane(worker int) *lane {
	if b.lanes[worker] == nil {
		b.lanes[worker] = newLane(b.x.r, b.room())
	}
	return b.lanes[worker]
}

// run first visits the chunks nearest to each query. This decides many queries and gives the others a bar. The
// remaining queries then go over all units together.
func (b *batch) run(ctx context.Context, queries cpu.Rows) error {
	r := b.x.r
	err := r.Pool.Each(ctx, queries.N, r.Pool.Threads, func(worker, i int) error {
		return b.prime(b.lane(worker), b.all[i], queries.Row(i))
	})
	if err != nil {
		return err
	}
	b.group()
	visited := make([]bool, len(b.s.units))
	reads := slices.Clone(b.packs) // the packs that read all rows
	if b.s.model != nil && b.s.model.reason == "" {
		if reads, err = b.sample(ctx, visited); err != nil {
			return err
		}
	}
	n := len(b.s.visits)
	err = r.Pool.Each(ctx, workers.Ceil(n, runUnits), r.Pool.Threads, func(worker, task int) error {
		for _, next := range b.s.visits[task*runUnits : min(n, (task+1)*runUnits)] {
			at := int(next)
			u := b.s.units[at]
			for _, p := range b.packs {
				if visited[at] || slices.Contains(reads, p) {
					continue
				}
				if err := b.visit(b.lane(worker), p, u, at, at%probing == 0); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
	if err != nil || len(reads) == 0 {
		return err
	}
	return b.readAll(ctx, reads)
}

func (b *batch) visit(l *lane, p *packed, u unit, at int, probe bool) error {
	if u.chunk < 0 {
		return l.plain(p, u.g, u.from, u.to)
	}
	for n, k := range p.states {
		l.base[n] = float64(p.bases[n*len(b.s.units)+at])
		if k.query.far() {
			base, err := k.query.base(b.x.r, u.g, u.chunk, l.scores[:1])
			if err != nil {
				return err
			}
			l.base[n] = base
		}
	}
	if probe {
		return l.probe(p, u, at)
	}
	return l.visit(p, u, at, int(p.first.Load()))
}

// prime prepares a query and visits the chunks nearest to it.
func (b *batch) prime(l *lane, k *queryState, vector []float32) error {
	if err := k.query.set(b.x.r, vector); err != nil {
		return err
	}
	if k.query.z == nil {
		return nil
	}
	p := newPacked(b.s.model, 1)
	p.states = append(p.states, k)
	p.pack(b.s.model)
	var top nearest
	if err := top.find(b.x.r, b.s, k.query, &l.near); err != nil {
		return err
	}
	for _, t := range top.list()[:min(primed, top.count)] {
		u := b.s.units[t.unit]
		base, err := k.query.base(b.x.r, u.g, u.chunk, l.scores[:1])
		if err != nil {
			return err
		}
		l.base[0] = base
		if err := l.visit(p, u, int(t.unit), int(p.first.Load())); err != nil {
			return err
		}
		k.been = append(k.been, t.unit)
	}
	return nil
}

// group packs the queries that are not decided yet.
func (b *batch) group() {
	var p *packed
	for _, k := range b.all {
		if k.done.Load() {
			continue
		}
		if p == nil || len(p.states) == scan.MaxQueries {
			p = newPacked(b.s.model, b.room())
			b.packs = append(b.packs, p)
		}
		p.states = append(p.states, k)
		p.rows.N, p.rows.Dim, p.rows.Stride = len(p.states), k.query.Dim, k.query.Dim
		p.rows.Data = append(p.rows.Data, k.query.Data...)
		p.rows.Norms = append(p.rows.Norms, k.query.norm[0])
	}
}

// products computes the bases of all chunks for all queries of p. It uses bounded products, which are cheaper than
// canonical ones; their error is negligible in the limits.
func (b *batch) products(ctx context.Context, p *packed) error {
	n, column := len(b.s.units), 0
	p.bases = make([]float32, len(p.states)*n)
	tilde := newRows(len(p.states), p.rows.Dim)
	longest := 0.0
	for i, k := range p.states {
		if !k.query.far() {
			k.query.tilde(tilde.Row(i))
			longest = max(longest, k.query.length)
		}
	}
	for _, g := range b.s.groups {
		if len(g.chunks) == 0 {
			continue
		}
		off, err := accurate(ctx, b.x.r, kernels.IP,
			matrix.Input{Out: p.bases[column:], Stride: n, A: vectorsOf(tilde), B: vectorsOf(g.centres)})
		if err != nil {
			return err
		}
		p.off = max(p.off, off)
		column += len(g.chunks)
	}
	p.off += 0x1p-23 * longest * b.s.length // the rounding of q~
	return nil
}

// sample chooses for each pack how many planes to read at once, and returns the packs for which reading all rows is
// cheaper.
func (b *batch) sample(ctx context.Context, visited []bool) (reads []*packed, err error) {
	for _, p := range b.packs {
		p.costs = costsOf(b.x.r.Host.ISA(), len(p.states))
		p.pack(b.s.model)
		if err := b.products(ctx, p); err != nil {
			return nil, err
		}
	}
	n := len(b.s.visits)
	if n < 8*sampled {
		return nil, nil
	}
	for i := range sampled {
		visited[b.s.visits[(2*i+1)*n/(2*sampled)]] = true
	}
	useful := make([]bool, len(b.packs))
	err = b.x.r.Pool.Each(ctx, len(b.packs), b.x.r.Pool.Threads, func(worker, task int) error {
		l, p, panels, before := b.lane(worker), b.packs[task], 0, int64(0)
		for _, k := range p.states {
			before -= k.survivors.Load()
		}
		for at, yes := range visited {
			if u := b.s.units[at]; yes {
				if err := b.visit(l, p, u, at, true); err != nil {
					return err
				}
				if u.chunk >= 0 {
					panels += u.g.chunks[u.chunk].Panels * len(p.states)
				}
			}
		}
		for _, k := range p.states {
			before += k.survivors.Load()
		}
		useful[task] = b.s.selected || !useless(before, panels)
		return nil
	})
	for i, p := range b.packs {
		if !useful[i] {
			reads = append(reads, p)
		}
	}
	return reads, err
}

// readAll restarts some packs, reading the rows instead of their codes.
func (b *batch) readAll(ctx context.Context, packs []*packed) error {
	r := b.x.r
	var units []unit
	for _, g := range b.s.groups {
		units = appendPlain(units, g)
	}
	for _, p := range packs {
		for _, k := range p.states {
			k.begin(b.s, k.k, k.tau)
		}
	}
	return r.Pool.Each(ctx, len(units), r.Pool.Threads, func(worker, task int) error {
		for _, p := range packs {
			if err := b.lane(worker).plain(p, units[task].g, units[task].from, units[task].to); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}
