package embed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/panics"
)

// ErrBusy: so many tokens wait for an encoder that it takes no more. The error is a *BusyError.
var ErrBusy = errors.New("too many tokens wait for the encoder")

// BusyError says how full the queue is. It unwraps to ErrBusy.
type BusyError struct {
	Waiting, Limit int           // tokens; a call counts as one batch at most, because others wait for no more of it
	Retry          time.Duration // what waits will have been computed by then; 0: not known
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("embed: %v: %d, the limit is %d; try again in about %v, or open it with a longer queue", ErrBusy,
		e.Waiting, e.Limit, e.Retry.Round(time.Millisecond))
}

// RetryAfter is Retry, for servers.
func (e *BusyError) RetryAfter() time.Duration { return e.Retry }

func (e *BusyError) Unwrap() error { return ErrBusy }

// sequence are the tokens that a model reads as one.
type sequence struct {
	ids   []uint32
	types []int64 // an entry per id; nil: all 0
}

const (
	// jointTokens bounds a batch while several interactive calls wait, so that the next call waits for a short batch
	// only. It costs 2 % of the throughput (docs/adr/0025-concurrent-calls.md).
	jointTokens = 128
	// leastTokens is the size up to which a batch is not split over workers: reading the weights then takes longer
	// than the products.
	leastTokens = 32
)

// batcher joins the sequences of concurrent calls into batches. A worker that has got a core takes what waits then, a
// sequence of each call in turn, and what comes meanwhile is in the next batch: nobody waits for a batch to fill.
type batcher struct {
	workers int // batches at the same time
	budget  int // tokens of a batch
	limit   int // tokens that may wait before interactive calls are refused; 0: any
	dim     int
	padded  bool // a batch is of one call, and costs its longest sequence for each
	cores   *cores.Budget
	compute func(ctx context.Context, batch []sequence, out []float32) error

	ctx  context.Context // of the workers; ends with close
	stop context.CancelFunc
	all  sync.WaitGroup // workers

	mu      sync.Mutex
	lines   [2]line // interactive calls, batch jobs
	running map[*joint]bool
	stats   Stats
}

// line is a queue with workers of its own, whom the CPU budget serves by the class of their calls.
type line struct {
	jobs               []*job // those with sequences that wait, the next one first
	tokens             int    // that wait
	workers, computing int    // all; those of them with a batch
}

// drop takes the first call out.
func (l *line) drop() {
	l.jobs[0] = nil
	l.jobs = l.jobs[1:]
}

// job is a call.
type job struct {
	sequences []sequence
	starts    []int     // of each sequence, its first row in out; and the number of rows
	out       []float32 // rows of dim values
	report    func(n int)

	waiting []int // indices of the sequences that wait, longest first
	tokens  int   // of those
	left    int   // sequences without a result
	err     error
	done    chan struct{} // closed once there are all results, or an error
	over    bool

	reporting sync.Mutex // guards gone, and report against the end of do
	gone      bool
}

// tell reports sequences unless the call has left.
func (j *job) tell(n int) {
	j.reporting.Lock()
	defer j.reporting.Unlock()
	if j.report != nil && !j.gone {
		j.report(n)
	}
}

// quit ends the reports.
func (j *job) quit() {
	j.reporting.Lock()
	j.gone = true
	j.reporting.Unlock()
}

// joint is a batch.
type joint struct {
	parts []part
	live  map[*job]bool // who still wants it
	stop  context.CancelFunc
}

// part is a sequence of a batch.
type part struct {
	job *job
	at  int
}

// open makes b ready; its settings are set. It needs a close.
func (b *batcher) open() *batcher {
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.running = map[*joint]bool{}
	return b
}

// close ends the workers; no call may be under way.
func (b *batcher) close() {
	b.stop()
	b.all.Wait()
}

// check returns a *BusyError when a call under ctx is refused now. It is asked once for a call, before its texts are
// read: what is taken in is computed to its end.
func (b *batcher) check(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit < 1 || cores.IsBatch(ctx) {
		return nil
	}
	waiting := 0
	for _, j := range b.lines[0].jobs { // calls take turns, so a large one keeps nobody waiting for all of it
		waiting += min(j.tokens, b.budget)
	}
	if waiting < b.limit {
		return nil
	}
	b.stats.Refused++
	e := &BusyError{Waiting: waiting, Limit: b.limit}
	if s := &b.stats; s.Tokens > 0 {
		each := s.ComputeTime / time.Duration(s.Tokens) / time.Duration(b.workers)
		e.Retry = each * time.Duration(waiting)
	}
	return e
}

// do computes the rows of sequences into out; starts has the first row of each, and the number of rows. Sequences
// without a token have none. report is told how many are done; it is not called once do has returned.
func (b *batcher) do(ctx context.Context, sequences []sequence, starts []int, out []float32, report func(n int)) error {
	at := 0 // index of the call's line
	if cores.IsBatch(ctx) {
		at = 1
	}
	if len(sequences) == 1 && len(sequences[0].ids) > 0 && b.enter(at, len(sequences[0].ids)) {
		return b.alone(ctx, at, sequences, out, report)
	}
	j := &job{sequences: sequences, starts: starts, out: out, report: report, done: make(chan struct{})}
	for i, s := range sequences {
		if len(s.ids) > 0 {
			j.waiting, j.tokens = append(j.waiting, i), j.tokens+len(s.ids)
		}
	}
	if j.left = len(j.waiting); j.left == 0 {
		return ctx.Err()
	}
	slices.SortStableFunc(j.waiting, func(x, y int) int { return len(sequences[y].ids) - len(sequences[x].ids) })
	b.mu.Lock()
	l := &b.lines[at]
	l.jobs, l.tokens = append(l.jobs, j), l.tokens+j.tokens
	b.stats.Calls++
	b.start(at)
	b.mu.Unlock()
	select {
	case <-j.done:
	case <-ctx.Done():
		b.mu.Lock()
		b.leave(j)
		b.mu.Unlock()
		j.quit()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return j.err
}

// enter makes the caller a worker that has a core and computes a batch of one sequence, so that a question waits for no
// other goroutine. Where no core is free or a call waits, it returns false and changes nothing.
func (b *batcher) enter(at, tokens int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.lines[at]
	if l.workers >= b.workers || len(l.jobs) > 0 || !b.cores.TryTake() {
		return false
	}
	l.workers++
	l.computing++
	b.stats.Calls++
	b.stats.count(1, 1, tokens)
	return true
}

// alone computes the sequence of a caller that has entered.
func (b *batcher) alone(ctx context.Context, at int, s []sequence, out []float32, report func(n int)) error {
	begun := time.Now()
	err := b.computed(ctx, s, out)
	b.mu.Lock()
	b.lines[at].workers--
	b.lines[at].computing--
	b.stats.ComputeTime += time.Since(begun)
	b.start(at) // what has come meanwhile
	b.mu.Unlock()
	b.cores.Give()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && report != nil {
		report(1)
	}
	return err
}

// start starts as many workers as what waits in a line is for; b.mu is held.
func (b *batcher) start(at int) {
	l := &b.lines[at]
	for l.workers < b.workers && (l.workers-l.computing)*leastTokens < l.tokens {
		l.workers++
		b.all.Go(func() { b.work(at) })
	}
}

// leave ends a call early: what waits of it is dropped, and batches that nobody else wants are stopped. b.mu is held.
func (b *batcher) leave(j *job) {
	if j.over {
		return
	}
	j.over = true
	for i := range b.lines {
		l := &b.lines[i]
		if k := slices.Index(l.jobs, j); k >= 0 {
			l.jobs = slices.Delete(l.jobs, k, k+1)
			l.tokens -= j.tokens
		}
	}
	for r := range b.running {
		if delete(r.live, j); len(r.live) == 0 {
			r.stop()
		}
	}
	close(j.done)
}

// work computes batches of a line until nothing waits there.
func (b *batcher) work(at int) {
	ctx := b.ctx
	if at == 1 {
		ctx = cores.AsBatch(ctx)
	}
	_, release, err := b.cores.Acquire(ctx, 1)
	if err != nil { // closed
		return
	}
	defer release()
	for {
		r, stopped := b.next(at)
		if r == nil {
			return
		}
		b.run(stopped, at, r)
		if err := b.cores.Yield(ctx); err != nil {
			return
		}
	}
}

// next takes the sequences of a batch out of a line; nil ends the worker.
func (b *batcher) next(at int) (*joint, context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.lines[at]
	if len(l.jobs) == 0 {
		l.workers--
		return nil, nil
	}
	r := &joint{live: map[*job]bool{}}
	most, longest, tokens := b.share(at), 0, 0
	for len(l.jobs) > 0 {
		j := l.jobs[0]
		i := j.waiting[0]
		n := len(j.sequences[i].ids)
		cost := tokens + n
		if b.padded {
			longest = max(longest, n)
			cost = longest * (len(r.parts) + 1)
		}
		if len(r.parts) > 0 && (cost > most || b.padded && r.parts[0].job != j) {
			break
		}
		r.parts, r.live[j], tokens = append(r.parts, part{j, i}), true, tokens+n
		j.waiting, j.tokens = j.waiting[1:], j.tokens-n
		switch {
		case len(j.waiting) == 0:
			l.drop()
		case !b.padded:
			l.drop()
			l.jobs = append(l.jobs, j) // the others' turn
		}
	}
	if j := r.parts[0].job; b.padded && len(j.waiting) > 0 {
		l.drop()
		l.jobs = append(l.jobs, j)
	}
	l.tokens -= tokens
	l.computing++
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	b.running[r] = true
	b.stats.count(len(r.parts), len(r.live), tokens)
	return r, ctx
}

// share returns how many tokens a batch takes: what waits is divided among the workers that have none. b.mu is held.
func (b *batcher) share(at int) int {
	l := &b.lines[at]
	most := b.budget
	if at == 0 && len(l.jobs) > 1 {
		most = min(most, jointTokens)
	}
	idle := b.workers - l.computing
	return min(most, max((l.tokens+idle-1)/idle, leastTokens))
}

// run computes a batch and hands its rows to the calls. One that fails is computed again call by call, so that a call
// gets the errors of its own sequences only.
func (b *batcher) run(ctx context.Context, at int, r *joint) {
	begun := time.Now()
	of := map[*job][]part{}
	for _, p := range r.parts {
		of[p.job] = append(of[p.job], p)
	}
	failed := map[*job]error{}
	if err := b.rows(ctx, r.parts); err != nil {
		for j, parts := range of {
			if failed[j] = err; len(of) > 1 {
				failed[j] = b.rows(ctx, parts)
			}
		}
	}
	r.stop()
	b.mu.Lock()
	delete(b.running, r)
	b.lines[at].computing--
	b.stats.ComputeTime += time.Since(begun)
	for j := range of {
		if err := failed[j]; err != nil && !j.over {
			j.err = err
			b.leave(j)
		}
		if j.over {
			delete(of, j)
		}
	}
	b.mu.Unlock()
	b.finish(of)
}

// finish reports to calls how many of their sequences are done, and ends those without any left.
func (b *batcher) finish(done map[*job][]part) {
	for j, parts := range done {
		j.tell(len(parts))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for j, parts := range done {
		if j.left -= len(parts); j.left == 0 {
			b.leave(j)
		}
	}
}

// computed is compute, whose panic is the calls' error: they wait for a worker's goroutine.
func (b *batcher) computed(ctx context.Context, batch []sequence, out []float32) (err error) {
	defer panics.Into(&err)
	return b.compute(ctx, batch, out)
}

// rows computes the rows of parts and puts them where they belong.
func (b *batcher) rows(ctx context.Context, parts []part) error {
	sequences, n := make([]sequence, len(parts)), 0
	for i, p := range parts {
		sequences[i] = p.job.sequences[p.at]
		n += p.job.starts[p.at+1] - p.job.starts[p.at]
	}
	out := make([]float32, n*b.dim)
	if err := b.computed(ctx, sequences, out); err != nil {
		return err
	}
	for _, p := range parts {
		to := p.job.out[p.job.starts[p.at]*b.dim : p.job.starts[p.at+1]*b.dim]
		out = out[copy(to, out):]
	}
	return nil
}
