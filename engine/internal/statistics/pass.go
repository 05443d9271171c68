package statistics

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// pass counts some or all tasks: one call of the device's Count for each of them. What a task found of
// maxima and extremes gets its canonical score at once, so that only the best ones are remembered.
type pass struct {
	j      *job
	b      *bounded
	wanted *wanted
	number int

	workers []*worker
	keeper  keeper
	best    bests
	ends    endMarks
	scored  atomic.Int64 // candidates for maxima and extremes that got canonical scores
	region  region       // of the tasks under way

	mu    sync.Mutex
	total *counts
}

// worker is a worker's memory.
type worker struct {
	count            device.Count
	buffer           []device.Entry // room for kept entries
	spills           bool           // the buffer is written to the spill file and used again
	other, all       []device.Entry
	beyond           []int32 // kept entries of a task at or beyond its limits
	queries, context []int32 // of pairs that get canonical scores
	scores           []float64
	mine             *counts // since the last record of the checkpoint
	recorded         time.Time
}

// The passes of a job, as checkpoints number them.
const (
	firstPass     = iota
	histogramPass // of the result
	placingPass   // histogram that places brackets anew
	redoPass      // and what follows
)

// count counts the tasks that done does not hold yet, and adds them to it. number tells the passes of a job
// apart.
func (j *job) count(ctx context.Context, w *wanted, number int, tasks []int32, done *counts) error {
	b := j.bounded
	p := &pass{j: j, b: b, wanted: w, number: number, total: done, workers: make([]*worker, j.blocks.Workers)}
	if err := p.resume(ctx); err != nil {
		return err
	}
	if err := p.begin(ctx, done); err != nil {
		return err
	}
	todo, err := p.todo(ctx, tasks)
	if err != nil {
		return err
	}
	places, err := b.places(ctx, todo)
	for i := 0; err == nil && i < len(places); i++ {
		tasks := places[i].tasks
		if err = b.enter(ctx, j, &p.region, places[i].row, places[i].column); err != nil {
			break
		}
		err = j.r.Pool.Each(ctx, len(tasks), j.blocks.Workers, func(worker, i int) error {
			w := p.worker(worker)
			if err := p.task(ctx, w, int(tasks[i])); err != nil {
				return err
			}
			j.progress.Add(int64(b.pairs(int(tasks[i]))))
			return p.record(w, false)
		})
	}
	b.drop(j, &p.region)
	if err == nil {
		err = ctx.Err()
	}
	for _, w := range p.workers {
		if w != nil { // what is done is worth recording, cancelled or not
			if rerr := p.record(w, true); err == nil {
				err = rerr
			}
		}
	}
	done.full = done.full || p.keeper.full.Load()
	if w.best && p.best.lost.Load() {
		done.bestLost = true
	}
	if w.ends && p.ends.lost.Load() {
		done.endsLost = true
	}
	j.passes++
	return err
}

// todo lists the tasks that are not done yet, and reports progress of the others.
func (p *pass) todo(ctx context.Context, tasks []int32) (left []int32, err error) {
	done := p.total.tasks
	if len(done) == 0 {
		return tasks, nil
	}
	has, before := make(map[int32]bool, len(done)), int64(0)
	err = workers.Over(ctx, len(done), func(from, to int) {
		for _, task := range done[from:to] {
			has[task] = true
			before += int64(p.b.pairs(int(task)))
		}
	})
	if err != nil {
		return nil, err
	}
	p.j.progress.Add(before)
	return left, workers.Over(ctx, len(tasks), func(from, to int) {
		for _, task := range tasks[from:to] {
			if !has[task] {
				left = append(left, task)
			}
		}
	})
}

// worker returns the memory of the worker of that number.
func (p *pass) worker(number int) *worker {
	if p.workers[number] == nil {
		p.workers[number] = p.newWorker()
	}
	return p.workers[number]
}

// begin takes over what is known of the tasks that are done.
func (p *pass) begin(ctx context.Context, done *counts) error {
	p.keeper.begin(p.j, done, p.wanted)
	p.ends.begin(p.b, p.wanted, done)
	if done.endsLost {
		p.ends.lost.Store(true)
	}
	if !p.wanted.best {
		return nil
	}
	if done.bestLost {
		p.best.lost.Store(true)
	}
	return p.best.begin(ctx, p.j, p.b)
}

// resume takes what the checkpoint has of this pass.
func (p *pass) resume(ctx context.Context) error {
	if p.j.log == nil {
		return nil
	}
	has := make(map[int32]bool)
	for _, c := range p.j.log.records[p.number] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.b.accept(c, p.wanted); err != nil {
			return fmt.Errorf("engine: %w: %s: %w", distribution.ErrCheckpoint, p.j.log.path, err)
		}
		for _, task := range c.tasks {
			if has[task] {
				return fmt.Errorf("engine: %w: %s: task %d is there twice", distribution.ErrCheckpoint, p.j.log.path,
					task)
			}
			has[task] = true
		}
		if err := p.total.merge(c, p.b.metric); err != nil {
			return fmt.Errorf("engine: %w: %s: %w", distribution.ErrCheckpoint, p.j.log.path, err)
		}
		p.j.takeBest(c)
	}
	return nil
}

func (p *pass) newWorker() *worker {
	b, l := p.b, p.wanted
	w := &worker{mine: newCounts(l), recorded: time.Now()}
	w.count = device.Count{
		CrossGroup: p.j.negatives.in.Negatives.Kind == distribution.NegativesCrossGroup,
		NoBest:     !l.best, Margin: b.margin(), BinLow: l.binLow, BinScale: l.binScale,
	}
	for _, r := range l.brackets {
		w.count.Low, w.count.High = append(w.count.Low, r.low), append(w.count.High, r.high)
	}
	w.count.Below = make([]int64, len(w.count.Low))
	if l.bins > 0 {
		w.count.Bins = make([]int64, l.bins)
	}
	if l.best {
		width := b.laneStep * device.Panel
		w.count.BestOther, w.count.BestAll = make([]float32, width), make([]float32, width)
		w.other, w.all = make([]device.Entry, 0, b.listRoom), make([]device.Entry, 0, b.listRoom)
	}
	return w
}

// margin returns how far a value may lie below the largest one and still be the best canonical score.
func (b *bounded) margin() float32 { return up(2*b.epsilon + 0x1p-21) }

// task counts one task into w.mine.
func (p *pass) task(ctx context.Context, w *worker, task int) error {
	row0, row1, lane0, lane1 := p.b.block(task)
	c, r := &w.count, &p.region
	best := p.wanted.best && !p.best.lost.Load()
	c.NoBest = !best
	if best {
		p.best.take(w, lane0, lane1)
	}
	c.Own, c.RowGroup, c.ColumnGroup = r.own, r.rowGroup, r.laneGroup
	c.Min, c.Max = p.ends.limits(p.wanted)
	want := 2*(1<<10+16) + int(1.5*p.wanted.expected/float64(p.b.tasks))
	for tries := 0; ; tries++ {
		p.keeper.reserve(w, want)
		c.Kept, c.Other, c.All = w.buffer[:0], w.other[:0], w.all[:0]
		c.Counted, c.Sum, c.Sum2, c.KeptFull, c.OtherFull, c.AllFull = 0, tiles.Sum{}, tiles.Sum{}, false, false, false
		clear(c.Below)
		clear(c.Bins)
		if err := p.j.r.Count(c, r.rows, row0-r.row0, row1-r.row0, r.lanes, lane0-r.lane0, lane1-r.lane0); err != nil {
			return err
		}
		again := false
		if c.KeptFull && !p.keeper.full.Load() {
			again, want = true, 2*want+p.b.pairs(task)/16
			w.buffer = nil // the next one is larger, or there is no memory
		}
		if (c.OtherFull || c.AllFull) && tries == 0 {
			again = true // from the maxima that are known now
		}
		if !again {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if p.j.tune.counted != nil {
		p.j.tune.counted(p)
	}
	// Whether entries are lost is read once: a record that holds the counts of a task but neither its entries nor the
	// mark that they are missing would make wrong quantiles of a checkpoint.
	full := p.keeper.full.Load() || c.KeptFull
	if err := p.settle(ctx, w, task, full, best); err != nil {
		return err
	}
	// From here on nothing fails: a task is recorded whole or not at all.
	m := w.mine
	m.tasks = append(m.tasks, int32(task))
	m.counted += c.Counted
	addTo(m.below, c.Below)
	addTo(m.bins, c.Bins)
	if full {
		m.full = true
		p.ends.lost.Store(true)
		return nil
	}
	p.keep(w, task)
	return nil
}

// settle gives canonical scores to what may be an extreme or a maximum. What it has found when it fails is true and
// does no harm.
func (p *pass) settle(ctx context.Context, w *worker, task int, full, best bool) error {
	if !full {
		if err := p.takeEnds(ctx, w, task); err != nil {
			return err
		}
	}
	if best {
		row0, _, lane0, lane1 := p.b.block(task)
		if err := p.giveBest(ctx, w, row0, lane0, lane1); err != nil {
			return err
		}
	}
	return w.mine.addSums(w.count.Sum, w.count.Sum2)
}

// keep takes the entries of a task that lie in brackets.
func (p *pass) keep(w *worker, task int) {
	kept := w.count.Kept
	// What lies between the limits was kept for a bracket.
	drop := slices.DeleteFunc(w.beyond, func(i int32) bool { return p.wanted.holds(kept[i].Value) })
	for n, i := range drop {
		next := len(kept)
		if n+1 < len(drop) {
			next = int(drop[n+1])
		}
		copy(kept[int(i)-n:], kept[i+1:next])
	}
	kept = kept[:len(kept)-len(drop)]
	if len(kept) > 0 {
		p.keeper.keep(w, int32(task), kept)
	}
}

// giveBest tells the lanes' maxima, and gives candidates that are still good enough their canonical scores.
func (p *pass) giveBest(ctx context.Context, w *worker, row0, lane0, lane1 int) error {
	c := &w.count
	if c.OtherFull || c.AllFull {
		p.best.lost.Store(true)
		return nil
	}
	p.best.give(w, lane0, lane1)
	for kind, found := range [2][]device.Entry{c.Other, c.All} {
		reach := c.BestOther
		if kind == bestAll {
			reach = c.BestAll
		}
		w.queries, w.context = w.queries[:0], w.context[:0]
		for _, e := range found {
			if i := int(e.At & 0xffff); e.Value >= reach[i] {
				w.queries = append(w.queries, through(p.b.laneAt, lane0*device.Panel+i))
				w.context = append(w.context, through(p.b.rowAt, row0*device.Panel+int(e.At>>16)))
			}
		}
		if err := p.score(ctx, w); err != nil {
			return err
		}
		p.best.improve(p.j, w, kind, lane0)
	}
	return nil
}

// score gives w's pairs canonical scores; when there are too many of them, maxima and extremes are left to a canonical
// pass, which is cheaper a pair.
func (p *pass) score(ctx context.Context, w *worker) error {
	n := len(w.queries)
	if cap(w.scores) < n {
		w.scores = make([]float64, max(n, 1024))
	}
	w.scores = w.scores[:n]
	if p.scored.Add(int64(n)) > p.j.candidateLimit() {
		p.best.lost.Store(p.wanted.best)
		p.ends.lost.Store(true)
		w.queries, w.context, w.scores = w.queries[:0], w.context[:0], w.scores[:0]
		return nil
	}
	const piece = 1 << 13 // of a task whose values are nearly all the same
	for from := 0; from < n; from += piece {
		to := min(n, from+piece)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.j.pairs(w.scores[from:to], w.queries[from:to], w.context[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// candidateLimit returns how many candidates for maxima and extremes are scored one by one.
func (j *job) candidateLimit() int64 {
	return max(j.tune.Recheck, int64(j.q.N)*64, int64(j.q.N)*int64(j.c.N)/64)
}

// record merges what w has found into the total; with a checkpoint about every second, after writing it there.
func (p *pass) record(w *worker, last bool) error {
	if p.j.log == nil && !last || p.j.log != nil && !last && time.Since(w.recorded) < p.j.tune.Record {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.j.log != nil && len(w.mine.tasks) > 0 {
		if p.best.lost.Load() {
			w.mine.bestLost = true
		}
		if p.wanted.ends && p.ends.lost.Load() {
			w.mine.endsLost = true
		}
		if err := p.j.log.append(p.number, w.mine, p.j.loadRun); err != nil {
			return err
		}
	}
	if err := p.total.merge(w.mine, p.b.metric); err != nil {
		return err
	}
	w.mine, w.recorded = newCounts(p.wanted), time.Now()
	return nil
}

// allTasks lists a bounded job's tasks.
func (b *bounded) allTasks() []int32 { return ascendingFrom(0, b.tasks) }

// pairs returns the size of a task.
func (b *bounded) pairs(task int) int {
	row0, row1, lane0, lane1 := b.block(task)
	return (min(row1*device.Panel, b.rowCount) - row0*device.Panel) * (min(lane1*device.Panel,
		b.laneCount) - lane0*device.Panel)
}

var (
	minusInf = float32(math.Inf(-1))
	plusInf  = float32(math.Inf(1))
)
