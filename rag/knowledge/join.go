package knowledge

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/kernels"
)

const (
	// joinedQueries bounds the queries of a joined search. It is the number that one scan of the engine handles.
	joinedQueries = 64
	// joinedRows is the minimum number of rows for joining searches. Searching fewer rows takes less time than forming
	// a batch.
	joinedRows = 4096
	// minClass is the binary logarithm of the smallest class of k. A search for one hit may find up to 1<<minClass
	// hits.
	minClass = 3
)

// A batch waits for the callers of the one before it, who often ask again at once, for as long as awaited says: a share
// of the time that the search before has taken, which two searches of half as many queries would lose.
const (
	awaitedShare = 8
	minAwaited   = 100 * time.Microsecond // shorter waits are skipped
	maxAwaited   = 5 * time.Millisecond
)

// joining is the engine that the searches of a snapshot use. It batches searches: those that arrive while a search of
// the same vectors is running are answered together by the next call of the engine, which reads the vectors once for
// all of them. A search starts at once if none is running. The hits equal those of separate searches bit for bit.
type joining struct {
	engine.Interface
	s *Snapshot
}

func (s *Snapshot) joined() joining { return joining{s.base.cfg.Engine, s} }

// TopK implements engine.Interface.
func (j joining) TopK(
	ctx context.Context, q, c engine.Vectors, metric kernels.Metric, k int, bias []engine.Biases,
) ([][]engine.Hit, error) {
	alone := c.Set == nil || c.Rows < j.s.base.joinedRows || q.Rows < 1 || q.Rows > joinedQueries/2 ||
		q.Set != nil || q.Dim != c.Dim || k < 1 || bias != nil && len(bias) != q.Rows || cores.IsBatch(ctx)
	if alone {
		return j.Interface.TopK(ctx, q, c, metric, k, bias)
	}
	call := &joinedCall{q: q, k: k, bias: bias, done: make(chan struct{})}
	return j.s.joins.do(ctx, j, c, joinKey{c.Set, metric, max(minClass, bits.Len(uint(k-1)))}, call)
}

// joinKey names searches that one call of the engine can answer: of the same vectors, by the same metric, for about as
// many hits (k up to the next power of two).
type joinKey struct {
	set    any
	metric kernels.Metric
	class  int
}

// joinedCall is a search that waits for its result.
type joinedCall struct {
	q    engine.Vectors
	k    int
	bias []engine.Biases

	hits [][]engine.Hit
	err  error
	done chan struct{} // closed when the result is available
	left bool          // the caller has stopped waiting; guarded by joins.mu
}

// joins holds the running searches of a snapshot and the searches that wait for them.
type joins struct {
	mu     sync.Mutex
	groups map[joinKey]*joinGroup
}

// joinGroup is a group of searches with one key, one of which is running. When it ends, the next batch starts or the
// group is removed.
type joinGroup struct {
	waiting []*joinedCall
	running []*joinedCall // calls of the running batch; empty while a single search runs
	stop    context.CancelFunc

	begun    time.Time     // start of the running search
	expected int           // number of calls that the next batch waits for
	come     chan struct{} // closed when they have arrived; nil: no batch waits
}

// do executes a call: at once if no search with its key is running, or else with the next batch.
func (js *joins) do(
	ctx context.Context, j joining, c engine.Vectors, key joinKey, call *joinedCall,
) ([][]engine.Hit, error) {
	js.mu.Lock()
	g := js.groups[key]
	if g == nil {
		if js.groups == nil {
			js.groups = map[joinKey]*joinGroup{}
		}
		js.groups[key] = &joinGroup{begun: time.Now()}
		js.mu.Unlock()
		defer js.next(j, c, key)
		return j.Interface.TopK(ctx, call.q, c, key.metric, call.k, call.bias)
	}
	g.waiting = append(g.waiting, call)
	g.enough()
	js.mu.Unlock()
	select {
	case <-call.done:
		return call.hits, call.err
	case <-ctx.Done():
	}
	js.leave(key, call)
	return nil, ctx.Err()
}

// leave abandons a call. A batch is stopped when all its callers have left.
func (js *joins) leave(key joinKey, call *joinedCall) {
	js.mu.Lock()
	defer js.mu.Unlock()
	call.left = true
	g := js.groups[key]
	if g == nil {
		return
	}
	if i := slices.Index(g.waiting, call); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	if slices.Contains(g.running, call) && !slices.ContainsFunc(g.running, (*joinedCall).wanted) {
		g.stop()
	}
}

func (c *joinedCall) wanted() bool { return !c.left }

// enough starts the waiting batch if the expected calls have arrived; js.mu must be held.
func (g *joinGroup) enough() {
	if g.come != nil && len(g.waiting) >= g.expected {
		close(g.come)
		g.come = nil
	}
}

// next is called when a search or batch ends. It starts the next batch or removes the group.
func (js *joins) next(j joining, c engine.Vectors, key joinKey) {
	js.mu.Lock()
	g := js.groups[key]
	ended := max(len(g.running), 1)
	g.running, g.stop = nil, nil
	if len(g.waiting) == 0 {
		delete(js.groups, key)
		js.mu.Unlock()
		return
	}
	g.expected = min(ended+len(g.waiting), joinedQueries)
	awaited := min(time.Since(g.begun)/awaitedShare, maxAwaited)
	var come chan struct{}
	if awaited >= minAwaited {
		come = make(chan struct{})
		g.come = come
		g.enough()
	}
	js.mu.Unlock()
	run := func() {
		defer js.next(j, c, key)
		if come != nil {
			select {
			case <-come:
			case <-time.After(awaited):
			}
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		j.batch(ctx, c, key.metric, js.take(key, stop))
	}
	if !j.s.background(run) { // the base is closed
		for _, call := range js.take(key, func() {}) {
			call.err = ErrClosed
			close(call.done)
		}
		js.next(j, c, key)
	}
}

// take removes the next batch from the waiting calls. stop cancels that batch.
func (js *joins) take(key joinKey, stop context.CancelFunc) []*joinedCall {
	js.mu.Lock()
	defer js.mu.Unlock()
	g := js.groups[key]
	n, queries := 0, 0
	for n < len(g.waiting) && queries+g.waiting[n].q.Rows <= joinedQueries {
		queries += g.waiting[n].q.Rows
		n++
	}
	g.running, g.stop, g.begun, g.come = slices.Clone(g.waiting[:n]), stop, time.Now(), nil
	g.waiting = slices.Delete(g.waiting, 0, n)
	return g.running
}

// background runs fn in a goroutine and keeps the snapshot open until fn returns. It returns false if the base is
// closed.
func (s *Snapshot) background(fn func()) bool {
	b := s.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	s.users++ // keeps the vectors mapped even if all callers have left
	b.builders.Go(func() {
		defer s.leave()
		defer panics.Log(b.log, "a search")
		fn()
	})
	return true
}

// batch answers calls with one search. If that fails, each call is searched separately, so that each gets only its own
// error.
func (j joining) batch(ctx context.Context, c engine.Vectors, metric kernels.Metric, batch []*joinedCall) {
	if len(batch) == 0 { // all have left
		return
	}
	all, k := engine.Vectors{Dim: c.Dim}, 0
	var bias []engine.Biases
	for _, call := range batch {
		stride := max(call.q.Stride, call.q.Dim)
		for i := range call.q.Rows {
			all.Data = append(all.Data, call.q.Data[i*stride:][:c.Dim]...)
		}
		all.Rows += call.q.Rows
		k = max(k, call.k)
		if call.bias != nil && bias == nil {
			bias = make([]engine.Biases, all.Rows-call.q.Rows, joinedQueries)
		}
		if bias != nil {
			bias = append(bias, call.bias...)
			bias = append(bias, make([]engine.Biases, all.Rows-len(bias))...)
		}
	}
	hits, err := j.search(ctx, all, c, metric, k, bias)
	for _, call := range batch {
		switch {
		case err == nil:
			call.hits, hits = hits[:call.q.Rows:call.q.Rows], hits[call.q.Rows:]
			for i, h := range call.hits {
				call.hits[i] = h[:min(call.k, len(h)):min(call.k, len(h))]
			}
		case len(batch) == 1:
			call.err = err
		default:
			call.hits, call.err = j.search(ctx, call.q, c, metric, call.k, call.bias)
		}
		close(call.done)
	}
}

// search calls the engine and converts a panic into an error, because the waiting calls need a result.
func (j joining) search(ctx context.Context, q, c engine.Vectors, metric kernels.Metric, k int, bias []engine.Biases,
) (hits [][]engine.Hit, err error) {
	defer panics.Into(&err)
	return j.Interface.TopK(ctx, q, c, metric, k, bias)
}
