package index

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/hits"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// queryState is one query's part of a search: what it wants, and the best it has so far.
type queryState struct {
	query *query
	s     *snapshot
	bias  biases
	k     int     // hits wanted; 0 = any row better than tau
	tau   float64 // of k = 0
	been  []int32 // units visited before the pass that shares its reads with others

	done      atomic.Bool // a witness was found
	edge      atomic.Uint64
	survivors atomic.Int64
	mu        sync.Mutex
	hits      []kernels.Hit // a heap of at most k, the last of them on top; of k = 0, the witness
}

func (k *queryState) begin(s *snapshot, want int, tau float64) {
	k.s, k.k, k.tau, k.hits = s, want, tau, k.hits[:0]
	k.done.Store(false)
	k.survivors.Store(0)
	k.edge.Store(math.Float64bits(k.query.metric.Worst()))
	if want == 0 {
		k.edge.Store(math.Float64bits(tau))
	}
}

// bar returns the score that a row must at least reach to matter.
func (k *queryState) bar() float64 { return math.Float64frombits(k.edge.Load()) }

// offer takes the biased scores of rows into account.
func (k *queryState) offer(first int, rows []int32, scores []float64) {
	metric, bar := k.query.metric, k.bar()
	for i, score := range scores {
		if k.k == 0 && metric.Better(score, bar) || k.k > 0 && !metric.Better(bar, score) {
			k.take(kernels.Hit{Row: first + int(rows[i]), Score: score})
		}
	}
}

// need is query.need for the bar of now. Rows with a bias may reach a bar that no distance does: with them,
// a negative one counts as 0.
func (k *queryState) need(c *chunk, base, off float64, biased bool) float32 {
	bar := k.bar()
	if biased && k.query.metric == kernels.L2 {
		bar = max(bar, 0)
	}
	limit, more := k.query.limit(bar)
	return k.query.need(c, base, limit, more+off)
}

// take adds a hit.
func (k *queryState) take(h kernels.Hit) {
	metric := k.query.metric
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.k == 0 {
		if len(k.hits) == 0 && metric.Better(h.Score, k.tau) {
			k.hits = append(k.hits, h)
			k.done.Store(true)
		}
		return
	}
	if k.hits = hits.Offer(k.hits, h, metric, k.k); len(k.hits) == k.k {
		k.edge.Store(math.Float64bits(k.hits[0].Score))
	}
}

// lane is the scratch memory of one goroutine of a search.
type lane struct {
	r      *device.Resources
	scan   *scan.Scratch
	rows   []int32
	extra  []float64 // biases of the rows, if any has one
	scores []float64
	bias   *scan.Bias
	near   []float64
	need   []float32
	base   []float64 // of the chunk to be visited, per query
	bounds []float32

	ahead     []float64 // bases of chunks that follow each other, of a search for one query
	aheadOf   *group
	aheadFrom int
}

func newLane(r *device.Resources, queries int) *lane {
	return &lane{r: r, scan: scan.NewScratch(queries), rows: make([]int32, 0, chunkRows),
		extra:  make([]float64, 0, chunkRows),
		bias:   new(scan.Bias),
		scores: make([]float64, queries*chunkRows), need: make([]float32, max(queries, scan.Lanes)),
		base: make([]float64, queries), bounds: make([]float32, 0, chunkRows)}
}

// score gives the collected rows of g their canonical score.
func (l *lane) score(k *queryState, g *group) error {
	if len(l.rows) == 0 {
		return nil
	}
	exact := l.scores[:len(l.rows)]
	if err := scores.Pairs(l.r.Host, k.query.metric, exact, k.query.Rows, nil, g.Rows, l.rows); err != nil {
		return err
	}
	for i, b := range l.extra {
		exact[i] = k.query.metric.Biased(exact[i], b)
	}
	k.survivors.Add(int64(len(l.rows)))
	k.offer(g.first, l.rows, exact)
	return nil
}

// collect adds a row to those to be scored unless it is deleted.
func (l *lane) collect(k *queryState, g *group, row int32) bool {
	if k.s.dead.has(g.first + int(row)) {
		return false
	}
	l.rows = append(l.rows, row)
	return true
}

// packed are queries that are scanned together, in the form the scan takes, and the planes they read.
type packed struct {
	states  []*queryState
	rows    cpu.Rows // the queries as given
	queries *scan.Queries
	costs   costs
	steps   []uint8
	first   atomic.Int32 // planes read of every panel
	bases   []float32    // of a batch: query × unit
	off     float64      // what they are off

	own, behind [scan.MaxSections]float64

	mu     sync.Mutex // of what probes found
	alive  [2 * scan.MaxSections]float64
	panels float64
}

func newPacked(m *model, capacity int) *packed {
	p := &packed{states: make([]*queryState, 0, capacity), costs: costsOf(cpu.Scalar, 1)}
	if m != nil && m.reason == "" {
		p.queries, p.steps = scan.NewQueries(capacity, m.sections), make([]uint8, 0, 2*m.sections)
	}
	return p
}

// pack prepares the scan of p.states.
func (p *packed) pack(m *model) {
	p.queries.Reset(len(p.states))
	clear(p.own[:])
	clear(p.behind[:])
	for i, k := range p.states {
		p.queries.Set(i, k.query.z, k.query.slop)
		for s := range m.sections {
			own, behind := p.queries.Norms(i, s)
			p.own[s] += own
			p.behind[s] += behind
		}
	}
	p.steps = m.plan(p.own[:], p.behind[:], p.steps)
	p.first.Store(int32(min(4, len(p.steps))))
	clear(p.alive[:])
	p.panels = 0
}

// visit searches the chunk of unit number at, whose bases l.base has, for all of p that have not been there.
func (l *lane) visit(p *packed, u unit, at, first int) error {
	g, c, wanted := u.g, &u.g.chunks[u.chunk], false
	l.bias.Queries = 0
	for n, k := range p.states {
		l.need[n] = float32(math.Inf(1))
		if k.done.Load() || slices.Contains(k.been, int32(at)) {
			continue
		}
		maxBias := float32(0)
		if k.bias.all != nil {
			var err error
			if maxBias, err = k.bias.read(at, u, l.biasesOf(n)[:c.Panels*scan.Lanes]); err != nil {
				return err
			}
		}
		need := k.need(c, l.base[n], p.off, maxBias > 0)
		linear, square := k.query.lift(k.bar())
		lift := float64(maxBias) * (linear + square*float64(maxBias))
		if float64(need) > (k.query.length*c.radius+lift)*1.001+c.term {
			continue // even a row in the query's direction and with that bias is too far
		}
		l.need[n], wanted = need, true
		if maxBias > 0 {
			l.bias.SetLift(n, c.Sections, linear, square)
			l.bias.Queries |= 1 << n
		}
	}
	if !wanted {
		return nil
	}
	found, bounds, err := scan.Scan(l.r.Host, c.Chunk, p.queries, p.steps, first, l.need, l.bias, l.scan)
	for err == nil && len(found) > 0 {
		n, count := int(found[0]>>16), 1
		for count < len(found) && int(found[count]>>16) == n {
			count++
		}
		if !math.IsInf(float64(l.need[n]), 1) { // infinite bounds are not ruled out even where nothing is wanted
			err = l.settle(p, n, g, c, found[:count], bounds[:count])
		}
		found, bounds = found[count:], bounds[count:]
	}
	return err
}

// probe is visit with a look at the bounds after every plane, as far as that can be. It decides from what was
// left, here and at earlier probes, how many planes to read at once from now on.
func (l *lane) probe(p *packed, u unit, at int) error {
	minPlanes := min(p.costs.minPlanes, len(p.steps))
	clear(l.scan.Alive[:])
	if err := l.visit(p, u, at, minPlanes); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.panels = p.panels/2 + float64(u.g.chunks[u.chunk].Panels*len(p.states))
	for k := range p.steps {
		p.alive[k] = p.alive[k]/2 + float64(l.scan.Alive[k]) // what is long past counts less
	}
	p.first.Store(int32(p.depth(minPlanes)))
	return nil
}

// costs are what the planes of a (query, panel) cost, in units of one that is read in stream: a high and a low one in
// stream; for a query that a shared filter does not rule out, once and for each plane that is read again; and
// one out of order. Fewer planes than minPlanes are not tried.
type costs struct {
	minPlanes                    int
	high, low, once, again, jump float64
}

// costsOf returns the costs of n queries that are scanned together.
func costsOf(isa cpu.ISA, n int) costs {
	switch {
	case !scan.Shares(isa, n):
		return costs{minPlanes: 1, high: 1, low: 1, jump: 2}
	case isa == cpu.AMX:
		return costs{minPlanes: 3, high: 1, low: 1, once: 1.5 * float64(n), jump: .3 * float64(n)}
	default: // the product of a section costs the same with its low plane and without
		read := 12 / float64(n)
		return costs{minPlanes: 2, high: 1 + read, low: .1 + read, again: 4, jump: 9}
	}
}

// depth chooses how many planes to read of every panel before the first look at the bounds, from what
// share of panels was left after each.
func (p *packed) depth(minPlanes int) int {
	best, first, stream := math.Inf(1), minPlanes, 0.0
	for d := 1; d <= len(p.steps); d++ {
		if p.steps[d-1]%2 == 0 {
			stream += p.costs.high
		} else {
			stream += p.costs.low
		}
		if d < minPlanes {
			continue
		}
		cost := stream*p.panels + (p.costs.once+p.costs.again*float64(d))*p.alive[d-1]
		for _, left := range p.alive[d-1 : len(p.steps)-1] {
			cost += p.costs.jump * left
		}
		if cost < best {
			best, first = cost, d
		}
	}
	return first
}

// likely rows are scored first: they may spare the others.
const likely = 32

// settle scores the rows of a chunk that a scan left. Of many, those with the highest bounds come first.
func (l *lane) settle(p *packed, n int, g *group, c *chunk, found []uint32, bounds []float32) error {
	k, biased := p.states[n], l.bias.Queries>>n&1 != 0
	cut := float32(math.Inf(-1))
	// At an infinite bar no bias lifts a bound of l2 (lift), so that bounds say nothing of the bar that the likely rows
	// set.
	comparable := !biased || k.query.metric != kernels.L2 || l.need[n] > -math.MaxFloat32
	if first := likely + k.k; comparable && len(found) > 2*first {
		l.bounds = append(l.bounds[:0], bounds...)
		cut = largest(l.bounds, first)
	}
	l.rows, l.extra = l.rows[:0], l.extra[:0]
	for i, b := range bounds {
		if place := int(found[i] & 0xffff); place < len(c.rows) && !(b < cut) && l.collect(k, g, c.rows[place]) &&
			biased {
			l.addBias(k, g, n, place)
		}
	}
	if err := l.score(k, g); err != nil || math.IsInf(float64(cut), -1) || k.done.Load() {
		return err
	}
	need := k.need(c, l.base[n], p.off, biased)
	l.rows, l.extra = l.rows[:0], l.extra[:0]
	for i, b := range bounds {
		place := int(found[i] & 0xffff)
		if place < len(c.rows) && b < cut && b >= need && l.collect(k, g, c.rows[place]) && biased {
			l.addBias(k, g, n, place)
		}
	}
	return l.score(k, g)
}

// addBias collects the bias of the row that was collected last.
func (l *lane) addBias(k *queryState, g *group, n, place int) {
	row := g.first + int(l.rows[len(l.rows)-1])
	l.extra = append(l.extra, k.bias.exact(row, l.bias.Of(n)[place]))
}

// biasesOf is memory for query n's biases of a chunk.
func (l *lane) biasesOf(n int) []float32 {
	if l.bias.Rows == nil {
		l.bias = scan.NewBias(len(l.base))
	}
	return l.bias.Of(n)
}

// largest returns the n-th largest of x, which it reorders (Hoare's selection).
func largest(x []float32, n int) float32 {
	from, to := 0, len(x)-1
	for from < to {
		pivot, i, j := x[(from+to)/2], from, to
		for i <= j {
			for x[i] > pivot {
				i++
			}
			for x[j] < pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n-1 <= j:
			to = j
		case n-1 >= i:
			from = i
		default:
			return x[n-1]
		}
	}
	return x[from]
}

// plain gives all rows [from, to) of g, at most pending, their canonical score for all of p.
func (l *lane) plain(p *packed, g *group, from, to int) error {
	n := to - from
	if err := scores.Block(l.r.Host, p.states[0].query.metric, l.scores, n, p.rows, g.Slice(from, to)); err != nil {
		return err
	}
	for i, k := range p.states {
		if k.done.Load() {
			continue
		}
		scores, all := l.scores[i*n:(i+1)*n], l.scores[i*n:i*n]
		if k.bias.all != nil {
			if err := device.AddBiases(scores, k.query.metric, k.bias.all, g.first+from, l.biasesOf(0)); err != nil {
				return err
			}
		}
		l.rows = l.rows[:0]
		for j, score := range scores {
			if l.collect(k, g, int32(from+j)) {
				all = append(all, score)
			}
		}
		k.survivors.Add(int64(len(all)))
		k.offer(g.first, l.rows, all)
	}
	return nil
}

// checkQuery refuses a query that does not fit or is not finite.
func (x *Index) checkQuery(s *snapshot, name string, q cpu.Rows) error {
	if s.rows > 0 && q.Dim != s.dim {
		return fmt.Errorf("engine: %w: %s has dimension %d, the index %d", kernels.ErrShape, name, q.Dim, s.dim)
	}
	o := device.Operand{Rows: q, Name: name}
	return x.r.CheckFinite(&o, 0, q.N)
}
