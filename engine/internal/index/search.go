package index

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

const (
	nearFirst = 64 // chunks that are visited in order of nearness; the others follow in order of memory
	primed    = 8  // of them before helpers start
	sampled   = 8  // chunks, spread evenly, that determine how deep to read
	probing   = 32 // one of this many chunks is visited to learn how deep to read at once
	runUnits  = 8  // units that a goroutine takes at a time: about 50 µs
)

// search is one query's search over all units, with its scratch memory.
type search struct {
	x   *Index
	ctx context.Context
	s   *snapshot
	queryState
	pack   *packed
	units  []unit
	order  []int32 // of the units, as they are visited
	lanes  []*lane
	next   atomic.Int64
	help   []func() // runs the helper with that number
	wait   sync.WaitGroup
	failed sync.Mutex
	err    error
}

// Max returns the best row; ok is false if there is no row. See Interface.Max.
func (x *Index) Max(ctx context.Context, q []float32, bias kernels.Biases) (best kernels.Hit, ok bool, err error) {
	return x.one(ctx, q, bias, 1, 0)
}

// AnyAbove reports whether any row's biased score is strictly better than tau, with any such row as witness. See
// Interface.AnyAbove.
func (x *Index) AnyAbove(ctx context.Context, q []float32, bias kernels.Biases, tau float64) (witness kernels.Hit,
	above bool, err error) {
	if math.IsNaN(tau) {
		return kernels.Hit{Row: -1, Score: x.metric.Worst()}, false,
			fmt.Errorf("engine: tau: %w: NaN", kernels.ErrNonFinite)
	}
	return x.one(ctx, q, bias, 0, tau)
}

// one searches for the best hit, or for a witness if k is 0.
func (x *Index) one(ctx context.Context, q []float32, bias kernels.Biases, k int, tau float64) (kernels.Hit, bool,
	error) {
	none := kernels.Hit{Row: -1, Score: x.metric.Worst()}
	w, err := x.search(ctx, x.now.Load(), q, bias, k, tau)
	if err != nil {
		return none, false, err
	}
	defer x.free.put(w)
	if len(w.hits) == 0 {
		return none, false, nil
	}
	return w.hits[0], true, nil
}

// search runs one query and returns its memory to x.free.
func (x *Index) search(ctx context.Context, s *snapshot, q []float32, bias kernels.Biases, k int, tau float64) (*search,
	error) {
	rows := cpu.Rows{Data: q, N: 1, Dim: len(q), Stride: len(q)}
	if err := x.checkQuery(s, "query", rows); err != nil {
		return nil, err
	}
	w := x.free.get()
	if w == nil || w.query.model != s.model || w.query.Dim != len(q) {
		w = x.newSearch(s, len(q))
	}
	w.ctx, w.s, w.err = ctx, s, nil
	if err := w.bias.set(ctx, 0, bias, s); err != nil {
		x.free.put(w)
		return nil, err
	}
	w.begin(s, k, tau)
	if err := x.r.Pool.Budget.Take(ctx); err != nil {
		return nil, err
	}
	err := w.query.set(x.r, q)
	w.pack.rows = w.query.Rows
	if err == nil {
		err = w.run()
	}
	x.r.Pool.Budget.Give()
	w.ctx, w.s, w.bias.all, w.bias.list, w.units, w.query.Data, w.pack.rows.Data = nil, nil, nil, nil, nil, nil, nil
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (x *Index) newSearch(s *snapshot, dim int) *search {
	w := &search{x: x, lanes: make([]*lane, x.r.Pool.Threads), help: make([]func(), x.r.Pool.Threads)}
	w.query = newQuery(s.model, x.metric, dim)
	w.pack = newPacked(s.model, 1)
	w.pack.states = append(w.pack.states, &w.queryState)
	w.lanes[0] = newLane(x.r, 1)
	for i := range w.help {
		w.help[i] = func() {
			defer w.wait.Done()
			defer x.r.Pool.Budget.Give()
			if err := w.assist(i); err != nil {
				w.fail(err)
			}
		}
	}
	return w
}

// assist visits units on its own goroutine, where an unrecovered panic would end the process.
func (w *search) assist(i int) (err error) {
	defer panics.Into(&err)
	if w.lanes[i] == nil {
		w.lanes[i] = newLane(w.x.r, 1)
	}
	w.walk(w.lanes[i], len(w.order))
	return nil
}

// run visits the nearest chunks, then a sample of chunks, then all others together with helpers.
func (w *search) run() error {
	if err := w.sort(); err != nil {
		return err
	}
	w.next.Store(0)
	if w.query.z != nil {
		w.pack.pack(w.query.model)
		w.walk(w.lanes[0], min(primed, len(w.order)))
		if err := w.sample(); err != nil {
			return err
		}
	}
	if !w.finished() {
		w.spread()
		w.walk(w.lanes[0], len(w.order))
		w.wait.Wait()
	}
	if w.err != nil || w.done.Load() {
		return w.err
	}
	return w.ctx.Err()
}

// spread starts helpers for the remaining units, as many as there are tokens.
func (w *search) spread() {
	for i := 1; i < len(w.help) && len(w.order)-int(w.next.Load()) > i*runUnits; i++ {
		if !w.x.r.Pool.Budget.TryTake() {
			return
		}
		w.wait.Add(1)
		go w.help[i]()
	}
}

func (w *search) finished() bool {
	return w.done.Load() || int(w.next.Load()) >= len(w.order)
}

// walk visits the units of the order up to end, or until the search is decided.
func (w *search) walk(l *lane, end int) {
	l.ahead = l.ahead[:0] // these belong to another query
	for {
		from := w.next.Load()
		to := min(from+runUnits, int64(end))
		if from >= to {
			return
		}
		if !w.next.CompareAndSwap(from, to) {
			continue
		}
		for i := from; i < to; i++ {
			if w.done.Load() {
				return
			}
			run := i + 1
			for run < to && w.order[run] == w.order[run-1]+1 {
				run++
			}
			if err := w.unit(l, w.order[i], int(run-i), i%probing == probing-1); err != nil {
				w.fail(err)
				return
			}
		}
		if w.x.r.Pool.Budget.Yield(w.ctx) != nil {
			return
		}
	}
}

func (w *search) fail(err error) {
	w.failed.Lock()
	defer w.failed.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.done.Store(true)
}

// unit visits a unit. run is the number of units, including this one, that are adjacent in memory and visited next:
// their bases are computed together.
func (w *search) unit(l *lane, at int32, run int, probe bool) error {
	u := w.units[at]
	if u.chunk < 0 {
		return l.plain(w.pack, u.g, u.from, u.to)
	}
	place := u.chunk - l.aheadFrom
	if len(l.ahead) == 0 || l.aheadOf != u.g || place < 0 || place >= len(l.ahead) {
		var err error
		l.aheadOf, l.aheadFrom, place = u.g, u.chunk, 0
		l.ahead, err = w.query.bases(w.x.r, u.g, u.chunk, min(run, len(u.g.chunks)-u.chunk), l.ahead)
		if err != nil {
			return err
		}
	}
	l.base[0] = l.ahead[place]
	if probe {
		return l.probe(w.pack, u, int(at))
	}
	return l.visit(w.pack, u, int(at), int(w.pack.first.Load()))
}

// sort orders the units by the distance of their centres, nearest first.
func (w *search) sort() error {
	w.units, w.order = w.s.units, w.order[:0]
	var top nearest
	if w.query.z != nil {
		if err := top.find(w.x.r, w.s, w.query, &w.lanes[0].near); err != nil {
			return err
		}
	}
	for _, t := range top.list() {
		w.order = append(w.order, t.unit)
	}
	skip := top.ascending()
	for _, at := range w.s.visits {
		if len(skip) > 0 && skip[0].unit == at {
			skip = skip[1:]
			continue
		}
		w.order = append(w.order, at)
	}
	return nil
}

// sample visits chunks spread over the index and evaluates the bounds after every plane, to choose how many planes to
// read at once for the others. If the bounds rule out too little, all rows are scored.
func (w *search) sample() error {
	at := int(w.next.Load())
	left := len(w.order) - at
	if w.done.Load() || left < 8*sampled {
		return nil
	}
	l, before, panels := w.lanes[0], w.survivors.Load(), 0
	for i := range sampled {
		j := at + (2*i+1)*left/(2*sampled)
		w.order[at+i], w.order[j] = w.order[j], w.order[at+i]
		if err := w.unit(l, w.order[at+i], 1, true); err != nil {
			return err
		}
		if u := w.units[w.order[at+i]]; u.chunk >= 0 {
			panels += u.g.chunks[u.chunk].Panels
		}
	}
	w.next.Store(int64(at + sampled))
	if useless(w.survivors.Load()-before, panels) && !w.s.selected && !w.done.Load() {
		return w.readAll()
	}
	return nil
}

// useless reports whether reading codes and then the remaining rows costs more than reading all rows.
func useless(survivors int64, panels int) bool {
	return survivors > int64(panels)*scan.Lanes/5
}

// readAll restarts the search, reading the rows instead of their codes.
func (w *search) readAll() error {
	w.begin(w.s, w.k, w.tau)
	w.units, w.order = nil, w.order[:0]
	for _, g := range w.s.groups {
		w.units = appendPlain(w.units, g)
	}
	for i := range w.units {
		w.order = append(w.order, int32(i))
	}
	w.next.Store(0)
	return nil
}

// nearest collects the chunks whose centres are nearest to a query.
type nearest struct {
	of    [nearFirst]nearUnit // nearest first
	count int
	index [nearFirst]nearUnit
}

type nearUnit struct {
	unit  int32
	score float64
}

// find looks at the searched chunks of s, in the leading coordinates; scratch is reused.
func (n *nearest) find(r *device.Resources, s *snapshot, q *query, scratch *[]float64) error {
	lead := cpu.Rows{Data: q.lead, N: 1, Dim: len(q.lead), Stride: len(q.lead)}
	for _, u := range s.runs {
		if cap(*scratch) < u.count {
			*scratch = make([]float64, u.count)
		}
		near := (*scratch)[:u.count]
		err := scores.Block(r.Host, kernels.IP, near, u.count, lead, u.g.leads.Slice(u.chunk, u.chunk+u.count))
		if err != nil {
			return err
		}
		for i, score := range near {
			if q.metric == kernels.L2 {
				score -= u.g.chunks[u.chunk+i].half
			}
			n.add(nearUnit{int32(u.unit + i), score})
		}
	}
	return nil
}

func (n *nearest) add(u nearUnit) {
	if n.count == nearFirst && u.score <= n.of[nearFirst-1].score {
		return
	}
	if n.count < nearFirst {
		n.count++
	}
	i := n.count - 1
	for ; i > 0 && n.of[i-1].score < u.score; i-- {
		n.of[i] = n.of[i-1]
	}
	n.of[i] = u
}

func (n *nearest) list() []nearUnit { return n.of[:n.count] }

// ascending returns the same chunks in order of memory.
func (n *nearest) ascending() []nearUnit {
	n.index = n.of
	list := n.index[:n.count]
	slices.SortFunc(list, func(a, b nearUnit) int { return int(a.unit - b.unit) })
	return list
}
