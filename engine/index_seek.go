package engine

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// seeker is one query's part of a search: what it wants, and the best it has so far.
type seeker struct {
	query *query
	s     *snapshot
	bias  []Bias
	k     int     // hits wanted; 0 = any row better than tau
	tau   float64 // of k = 0
	been  []int32 // units visited before the pass that shares its reads with others

	done      atomic.Bool // a witness was found
	edge      atomic.Uint64
	survivors atomic.Int64
	mu        sync.Mutex
	hits      []Hit // a heap of at most k, the last of them on top; of k = 0, the witness
}

func (k *seeker) begin(s *snapshot, bias []Bias, want int, tau float64) {
	k.s, k.bias, k.k, k.tau, k.hits = s, bias, want, tau, k.hits[:0]
	k.done.Store(false)
	k.survivors.Store(0)
	k.edge.Store(math.Float64bits(k.query.metric.Worst()))
	if want == 0 {
		k.edge.Store(math.Float64bits(tau))
	}
}

// bar is the score that a row must at least reach to matter.
func (k *seeker) bar() float64 { return math.Float64frombits(k.edge.Load()) }

// offer takes the scores of rows without bias into account.
func (k *seeker) offer(first int, rows []int32, scores []float64) {
	metric, bar := k.query.metric, k.bar()
	for i, score := range scores {
		if k.k == 0 && metric.Better(score, bar) || k.k > 0 && !metric.Better(bar, score) {
			k.take(Hit{Row: first + int(rows[i]), Score: score})
		}
	}
}

// take adds a hit.
func (k *seeker) take(h Hit) {
	metric := k.query.metric
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.k == 0:
		if len(k.hits) == 0 && metric.Better(h.Score, k.tau) {
			k.hits = append(k.hits, h)
			k.done.Store(true)
		}
		return
	case len(k.hits) < k.k:
		k.hits = append(k.hits, h)
		siftUp(k.hits, metric)
	case closer(metric, h, k.hits[0]):
		k.hits[0] = h
		siftDown(k.hits, metric)
	default:
		return
	}
	if len(k.hits) == k.k {
		k.edge.Store(math.Float64bits(k.hits[0].Score))
	}
}

// biased tells whether the row has a bias: such rows are scored beforehand, and once.
func (k *seeker) biased(row int) bool {
	i := sort.Search(len(k.bias), func(i int) bool { return k.bias[i].Row >= row })
	return i < len(k.bias) && k.bias[i].Row == row
}

// best are the hits in order.
func (k *seeker) best() []Hit {
	slices.SortFunc(k.hits, func(a, b Hit) int {
		if closer(k.query.metric, a, b) {
			return -1
		}
		return 1
	})
	return k.hits
}

// lane is the scratch memory of one goroutine of a search.
type lane struct {
	e      *Engine
	scan   *cpu.ScanScratch
	rows   []int32
	scores []float64
	near   []float64
	need   []float32
}

func (e *Engine) newLane(queries int) *lane {
	return &lane{e: e, scan: cpu.NewScanScratch(queries), rows: make([]int32, 0, chunkRows),
		scores: make([]float64, queries*chunkRows), need: make([]float32, queries)}
}

// score gives the collected rows of g their canonical score.
func (l *lane) score(k *seeker, g *group) error {
	if len(l.rows) == 0 {
		return nil
	}
	scores := l.scores[:len(l.rows)]
	if err := l.e.kernels.ScoreRows(k.query.metric, scores, k.query.Rows, g.Rows, l.rows); err != nil {
		return err
	}
	k.survivors.Add(int64(len(l.rows)))
	k.offer(g.first, l.rows, scores)
	return nil
}

// collect adds a row to those to be scored unless it is deleted or has a bias.
func (l *lane) collect(k *seeker, g *group, row int32) bool {
	at := g.first + int(row)
	if k.s.dead.has(at) || len(k.bias) > 0 && k.biased(at) {
		return false
	}
	l.rows = append(l.rows, row)
	return true
}

// biasedRows scores the rows that have a bias.
func (l *lane) biasedRows(k *seeker) error {
	for _, b := range k.bias {
		if k.s.dead.has(b.Row) || k.done.Load() {
			continue
		}
		g := k.s.groups[sort.Search(len(k.s.groups), func(i int) bool { return k.s.groups[i].first > b.Row })-1]
		row, score := [1]int32{int32(b.Row - g.first)}, l.scores[:1]
		if err := l.e.kernels.ScoreRows(k.query.metric, score, k.query.Rows, g.Rows, row[:]); err != nil {
			return err
		}
		k.survivors.Add(1)
		k.take(Hit{Row: b.Row, Score: k.query.metric.Biased(score[0], b.Value)})
	}
	return nil
}

// packed are queries that are scanned together, in the form the scan takes, and the planes they read.
type packed struct {
	seekers []*seeker
	rows    cpu.Rows // the queries as given
	queries *cpu.Queries
	steps   []uint8
	first   int // planes read of every panel

	own, behind [cpu.ScanSections]float64
}

func newPacked(m *model, capacity int) *packed {
	p := &packed{seekers: make([]*seeker, 0, capacity)}
	if m != nil && m.reason == "" {
		p.queries, p.steps = cpu.NewQueries(capacity, m.sections), make([]uint8, 0, 2*m.sections)
	}
	return p
}

// pack prepares the scan of p.seekers.
func (p *packed) pack(m *model) {
	p.queries.Reset(len(p.seekers))
	clear(p.own[:])
	clear(p.behind[:])
	for i, k := range p.seekers {
		p.queries.Set(i, k.query.z, k.query.slop)
		for s := range m.sections {
			own, behind := p.queries.Norms(i, s)
			p.own[s] += own
			p.behind[s] += behind
		}
	}
	p.steps = m.plan(p.own[:], p.behind[:], p.steps)
	p.first = min(4, len(p.steps))
}

// visit searches the chunk of unit number at for all of p that have not been there.
func (l *lane) visit(p *packed, u unit, at int) error {
	g, c, wanted := u.g, &u.g.chunks[u.chunk], false
	for n, k := range p.seekers {
		l.need[n] = float32(math.Inf(1))
		if k.done.Load() || slices.Contains(k.been, int32(at)) {
			continue
		}
		limit, off := k.query.limit(k.bar())
		if math.IsInf(limit, -1) { // all rows can matter
			l.rows = l.rows[:0]
			for _, row := range c.rows {
				l.collect(k, g, row)
			}
			if err := l.score(k, g); err != nil {
				return err
			}
			continue
		}
		need, err := k.query.need(l.e, g, u.chunk, limit, off, l.scores[:1])
		if err != nil {
			return err
		}
		if float64(need) > k.query.length*c.radius*1.001+c.term {
			continue // even a row in the query's direction is too far
		}
		l.need[n], wanted = need, true
	}
	if !wanted {
		return nil
	}
	found, err := l.e.kernels.Scan(c.Chunk, p.queries, p.steps, p.first, l.need, l.scan)
	if err != nil {
		return err
	}
	for len(found) > 0 {
		n := found[0] >> 16
		l.rows = l.rows[:0]
		for len(found) > 0 && found[0]>>16 == n {
			if place := int(found[0] & 0xffff); place < len(c.rows) {
				l.collect(p.seekers[n], g, c.rows[place])
			}
			found = found[1:]
		}
		if math.IsInf(float64(l.need[n]), 1) {
			continue // infinite sums are not ruled out; this one has been here
		}
		if err := l.score(p.seekers[n], g); err != nil {
			return err
		}
	}
	return nil
}

// plain gives all rows [from, to) of g, at most pending, their canonical score for all of p.
func (l *lane) plain(p *packed, g *group, from, to int) error {
	n := to - from
	if err := l.e.kernels.Scores(p.seekers[0].query.metric, l.scores, n, p.rows, g.Slice(from, to)); err != nil {
		return err
	}
	for i, k := range p.seekers {
		if k.done.Load() {
			continue
		}
		scores, all := l.scores[i*n:(i+1)*n], l.scores[i*n:i*n]
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
	o := operand{Rows: q, name: name}
	return x.e.checkFinite(&o, 0, q.N)
}
