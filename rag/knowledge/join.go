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
	// joinedQueries bounds the queries of a joined search: as many as the engine's scan takes at once.
	joinedQueries = 64
	// joinedRows is from how many rows on searches are joined: fewer are searched sooner than a batch is put together.
	joinedRows = 4096
	// minClass is the binary logarithm of how many hits a joined search may find in vain for who wants one.
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

// joinedCall is a search.
type joinedCall struct {
	q    engine.Vectors
	k    int
	bias []engine.Biases

	hits [][]engine.Hit
	err  error
	done chan struct{} // closed once there is a result
	left bool          // nobody waits for it any more; joins.mu
}

// joins are the searches of a snapshot that are under way, and those that wait for them.
type joins struct {
	mu     sync.Mutex
	groups map[joinKey]*joinGroup
}

// joinGroup has a search under way; when that ends, the next ones follow, or the group does not exist any more.
type joinGroup struct {
	waiting []*joinedCall
	running []*joinedCall // of the batch that is under way; none while a search of its own is
	stop    context.CancelFunc

	begun    time.Time     // of the search that is under way
	expected int           // calls that a batch to come waits for
	come     chan struct{} // closed when they are there; nil: nobody waits for them
}

// do has a call answered: at once if nothing of its key is under way, else by the next batch.
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

// leave ends a call early. A batch that nobody waits for any more is stopped.
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

// enough starts the batch that waits for calls which have come; js.mu is held.
func (g *joinGroup) enough() {
	if g.come != nil && len(g.waiting) >= g.expected {
		close(g.come)
		g.come = nil
	}
}

// next follows a search or a batch that has ended: it starts the next batch, or ends the group.
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

// take takes the next batch out of those that wait, which stop ends early.
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

// background runs fn beside the calls of a snapshot that is in use, which stays open until then; false: the base is
// closed.
func (s *Snapshot) background(fn func()) bool {
	b := s.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	s.users++ // the vectors stay mapped, also when whoever asked has left
	b.builders.Go(func() {
		defer s.leave()
		defer panics.Log(b.log, "a search")
		fn()
	})
	return true
}

// batch answers calls by one search. After an error each is searched for by itself, so that one gets its own error
// only.
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

// search is the engine's, whose panic is the calls' error: they wait for one.
func (j joining) search(ctx context.Context, q, c engine.Vectors, metric kernels.Metric, k int, bias []engine.Biases,
) (hits [][]engine.Hit, err error) {
	defer panics.Into(&err)
	return j.Interface.TopK(ctx, q, c, metric, k, bias)
}
