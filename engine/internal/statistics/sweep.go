package statistics

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// tally is what a sweep has found in a set of tasks. Tallies of disjoint sets merge by addition, so
// that neither the cutting nor threads, processes or interruptions leave a trace.
type tally struct {
	tasks      []int32 // done
	counted    int64   // cpu.Count
	sum, sum2  cpu.Sum
	below      []int64
	bins       []int64
	kept       []run
	full       bool     // kept is not complete
	other, all []leader // candidates for BestOther and Best
	tied       bool     // candidates are not complete: too many were equally good
}

// run is what one task kept.
type run struct {
	task    int32
	entries []device.Entry
}

// leader is a candidate for a maximum: a packed row and lane.
type leader struct {
	row, lane int32
	value     float32
}

func newTally(l *look) *tally {
	return &tally{below: make([]int64, len(l.brackets)), bins: make([]int64, l.bins)}
}

// merge adds o to t; sums that their type does not hold are kernels.ErrRange.
func (t *tally) merge(o *tally) error {
	if err := t.addSums(o.sum, o.sum2); err != nil {
		return err
	}
	t.tasks = append(t.tasks, o.tasks...)
	t.counted += o.counted
	for i, n := range o.below {
		t.below[i] += n
	}
	for i, n := range o.bins {
		t.bins[i] += n
	}
	t.kept = append(t.kept, o.kept...)
	t.other, t.all = append(t.other, o.other...), append(t.all, o.all...)
	t.full, t.tied = t.full || o.full, t.tied || o.tied
	return nil
}

func (t *tally) addSums(sum, sum2 cpu.Sum) (err error) {
	if sum, err = t.sum.Plus(sum); err != nil {
		return err
	}
	if sum2, err = t.sum2.Plus(sum2); err != nil {
		return err
	}
	t.sum, t.sum2 = sum, sum2
	return nil
}

// keptPairs counts the entries.
func (t *tally) keptPairs() (n int64) {
	for _, r := range t.kept {
		n += int64(len(r.entries))
	}
	return n
}

// sweep is one pass over some or all tasks.
type sweep struct {
	j    *job
	b    *bounded
	look *look
	pass int

	workers  []*sweeper
	reserved atomic.Int64 // entries that may be kept and have memory
	full     atomic.Bool  // kept entries are lost: nothing more need be kept
	marks    marks

	mu    sync.Mutex
	total *tally
}

// marks are the largest values known so far, per lane; each step of lanes has a lock.
type marks struct {
	locks      []sync.Mutex
	other, all []float32
}

// sweeper is a worker's memory.
type sweeper struct {
	count      device.Count
	arena      []device.Entry // room for entries
	other, all []device.Entry
	mine       *tally // since the last record of the checkpoint
	recorded   time.Time
}

// The sweeps of a job, as checkpoints number them.
const (
	firstPass     = iota
	histogramPass // of the result
	placingPass   // histogram that places brackets anew
	redoPass      // and what follows
)

// sweep counts the tasks that done does not hold yet, and adds them to it. pass numbers the sweeps of a job.
func (j *job) sweep(ctx context.Context, l *look, pass int, tasks []int32, done *tally) error {
	b := j.bounded
	s := &sweep{j: j, b: b, look: l, pass: pass, total: done, workers: make([]*sweeper, j.blocks.Workers)}
	if err := s.resume(); err != nil {
		return err
	}
	if l.best {
		s.begin()
	}
	s.full.Store(done.full)
	s.reserved.Store(done.keptPairs())
	skip := make(map[int32]bool, len(done.tasks))
	before := 0
	for _, task := range done.tasks {
		skip[task] = true
		before += b.pairs(int(task))
	}
	if before > 0 {
		j.progress.Add(int64(before))
	}
	todo := slices.DeleteFunc(slices.Clone(tasks), func(task int32) bool { return skip[task] })
	err := j.r.Pool.Each(ctx, len(todo), j.blocks.Workers, func(worker, i int) error {
		if s.workers[worker] == nil {
			s.workers[worker] = s.newSweeper()
		}
		w := s.workers[worker]
		if err := s.task(w, int(todo[i])); err != nil {
			return err
		}
		j.progress.Add(int64(b.pairs(int(todo[i]))))
		return s.record(w, false)
	})
	for _, w := range s.workers {
		if w != nil { // what is done is worth recording, cancelled or not
			if rerr := s.record(w, true); err == nil {
				err = rerr
			}
		}
	}
	done.full = done.full || s.full.Load()
	return err
}

// resume takes what the checkpoint has of this sweep.
func (s *sweep) resume() error {
	if s.j.log == nil {
		return nil
	}
	has := make(map[int32]bool)
	for _, t := range s.j.log.records[s.pass] {
		if err := s.b.accept(t, s.look); err != nil {
			return fmt.Errorf("engine: %w: %s: %w", distribution.ErrCheckpoint, s.j.log.path, err)
		}
		for _, task := range t.tasks {
			if has[task] {
				return fmt.Errorf("engine: %w: %s: task %d is there twice", distribution.ErrCheckpoint, s.j.log.path, task)
			}
			has[task] = true
		}
		if err := s.total.merge(t); err != nil {
			return fmt.Errorf("engine: %w: %s: %w", distribution.ErrCheckpoint, s.j.log.path, err)
		}
	}
	return nil
}

// pairs is the size of a task.
func (b *bounded) pairs(task int) int {
	row0, row1, lane0, lane1 := b.block(task)
	return (min(row1*device.Panel, b.rows.Len()) - row0*device.Panel) * (min(lane1*device.Panel, b.lanes.Len()) - lane0*device.Panel)
}

// begin sets the marks. An own pair's value is at least its canonical counterpart less epsilon. Without
// groups only own pairs are near, and D+ has them.
func (s *sweep) begin() {
	lanes := s.b.lanes.Count() * device.Panel
	s.marks = marks{make([]sync.Mutex, s.b.columns), make([]float32, lanes), make([]float32, lanes)}
	for l := range lanes {
		s.marks.other[l], s.marks.all[l] = minusInf, plusInf
		if s.b.rowGroup != nil && l < s.b.lanes.Len() {
			s.marks.all[l] = down(s.b.value(s.j.out.Positive[through(s.b.laneAt, l)]) - s.b.epsilon)
		}
	}
	for _, l := range s.total.other {
		s.marks.other[l.lane] = max(s.marks.other[l.lane], l.value)
	}
	for _, l := range s.total.all {
		s.marks.all[l.lane] = max(s.marks.all[l.lane], l.value)
	}
}

func (s *sweep) newSweeper() *sweeper {
	b, l := s.b, s.look
	w := &sweeper{mine: newTally(l), recorded: time.Now()}
	w.count = device.Count{
		Own: b.own, RowGroup: b.rowGroup, LaneGroup: b.laneGroup, CrossGroup: s.j.negatives.in.Negatives.Kind == distribution.NegativesCrossGroup,
		Min: l.low, Max: l.high, NoBest: !l.best, Margin: b.margin(), BinLow: l.binLow, BinScale: l.binScale,
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
		w.other, w.all = make([]device.Entry, 0, listRoom), make([]device.Entry, 0, listRoom)
	}
	return w
}

// margin is what a value may lie below the largest one and still be the best canonical score.
func (b *bounded) margin() float32 { return up(2*b.epsilon + 0x1p-21) }

// task counts one task into w.mine.
func (s *sweep) task(w *sweeper, task int) error {
	row0, row1, lane0, lane1 := s.b.block(task)
	if s.look.best {
		s.take(w, lane0, lane1)
	}
	want := 2*(1<<10+16) + int(1.5*s.look.expected/float64(s.b.tasks))
	c := &w.count
	for tries := 0; ; tries++ {
		s.reserve(w, want)
		c.Kept, c.Other, c.All = w.arena[:0], w.other[:0], w.all[:0]
		c.Counted, c.Sum, c.Sum2, c.KeptFull, c.OtherFull, c.AllFull = 0, cpu.Sum{}, cpu.Sum{}, false, false, false
		clear(c.Below)
		clear(c.Bins)
		if err := s.j.r.Count(c, s.b.rows, row0, row1, s.b.lanes, lane0, lane1); err != nil {
			return err
		}
		again := false
		if c.KeptFull && !s.full.Load() {
			again, want = true, 2*want+s.b.pairs(task)/16
			w.arena = nil // the next one is larger, or there is no memory
		}
		if (c.OtherFull || c.AllFull) && tries == 0 {
			again = true // from the maxima that are known now
		}
		if !again {
			break
		}
	}
	m := w.mine
	m.tasks = append(m.tasks, int32(task))
	m.counted += c.Counted
	if err := m.addSums(c.Sum, c.Sum2); err != nil {
		return err
	}
	m.full = m.full || s.full.Load()
	for i := range m.below {
		m.below[i] += c.Below[i]
	}
	for i, n := range c.Bins {
		m.bins[i] += n
	}
	if n := len(c.Kept); n > 0 && !s.full.Load() {
		m.kept = append(m.kept, run{int32(task), c.Kept[:n:n]})
		w.arena = w.arena[n:n:cap(w.arena)]
	}
	if s.look.best {
		s.give(w, row0, lane0, lane1)
	}
	return nil
}

// reserve makes room for entries, or gives up keeping any.
func (s *sweep) reserve(w *sweeper, want int) {
	if s.look.expected == 0 || s.full.Load() {
		w.arena = nil
		return
	}
	if cap(w.arena) >= want {
		return
	}
	n := int64(max(want, min(int(s.look.expected)/(2*len(s.workers)), 1<<20)))
	if room := s.j.keepRoom(); s.reserved.Add(n) > room {
		if n -= s.reserved.Load() - room; n < int64(want) {
			s.full.Store(true)
			w.arena = nil
			return
		}
	}
	w.arena = make([]device.Entry, 0, n)
}

// take copies what is known of the lanes' maxima.
func (s *sweep) take(w *sweeper, lane0, lane1 int) {
	m := &s.marks
	lock := &m.locks[lane0/s.b.laneStep]
	lock.Lock()
	defer lock.Unlock()
	copy(w.count.BestOther, m.other[lane0*device.Panel:lane1*device.Panel])
	copy(w.count.BestAll, m.all[lane0*device.Panel:lane1*device.Panel])
}

// give tells the lanes' maxima, and keeps the candidates that are still good enough.
func (s *sweep) give(w *sweeper, row0, lane0, lane1 int) {
	m, c := &s.marks, &w.count
	lock := &m.locks[lane0/s.b.laneStep]
	lock.Lock()
	for i := range (lane1 - lane0) * device.Panel {
		l := lane0*device.Panel + i
		m.other[l] = max(m.other[l], c.BestOther[i])
		m.all[l] = max(m.all[l], c.BestAll[i])
		c.BestOther[i], c.BestAll[i] = m.other[l]-c.Margin, m.all[l]-c.Margin
	}
	lock.Unlock()
	w.mine.tied = w.mine.tied || c.OtherFull || c.AllFull
	good := func(into []leader, found []device.Entry, reach []float32) []leader {
		for _, e := range found {
			if i := e.At & 0xffff; e.Value >= reach[i] {
				into = append(into, leader{int32(row0*device.Panel) + int32(e.At>>16), int32(lane0*device.Panel) + int32(i), e.Value})
			}
		}
		return into
	}
	w.mine.other = s.prune(w.mine, good(w.mine.other, c.Other, c.BestOther), m.other)
	w.mine.all = s.prune(w.mine, good(w.mine.all, c.All, c.BestAll), m.all)
}

// prune drops candidates that have been overtaken, when they are many; or all, when that does not help.
func (s *sweep) prune(t *tally, list []leader, marks []float32) []leader {
	room := s.leaderRoom()
	if len(list) <= room {
		return list
	}
	list = slices.DeleteFunc(list, func(l leader) bool {
		lock := &s.marks.locks[int(l.lane)/device.Panel/s.b.laneStep]
		lock.Lock()
		defer lock.Unlock()
		return l.value < marks[l.lane]-s.b.margin()
	})
	if len(list) > room/2 {
		t.tied, list = true, nil
	}
	return list
}

// leaderRoom is how many candidates a worker may hold.
func (s *sweep) leaderRoom() int {
	return int(s.j.room/8/12) / len(s.workers)
}

// record merges what w has found into the total; with a checkpoint about every second, after writing it there.
func (s *sweep) record(w *sweeper, last bool) error {
	if s.j.log == nil && !last || s.j.log != nil && !last && time.Since(w.recorded) < s.j.tune.Record {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j.log != nil && len(w.mine.tasks) > 0 {
		if err := s.j.log.append(s.pass, w.mine); err != nil {
			return err
		}
	}
	if err := s.total.merge(w.mine); err != nil {
		return err
	}
	w.mine, w.recorded = newTally(s.look), time.Now()
	return nil
}

// allTasks lists a bounded job's tasks.
func (b *bounded) allTasks() []int32 { return ascending(b.tasks) }
