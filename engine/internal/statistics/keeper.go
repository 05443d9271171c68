package statistics

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// run holds kept entries: in memory, or n of them in the job's spill file from `at` on. Their places count from row and
// lane in the packed order.
type run struct {
	task      int32 // that kept them, of a job
	row, lane int32
	n         int32
	at        int64
	entries   []device.Entry
	of        *rowsOfPart // of a merged part: its rows in the input
	low, high float32     // of a part: the smallest and the largest value
	scores    scoreBytes  // of the entries of a part; nil: unknown
}

// newRun returns a part's run of entries.
func newRun(row, lane int32, entries []device.Entry) run {
	r := run{row: row, lane: lane, n: int32(len(entries)), entries: entries, low: plusInf, high: minusInf}
	for _, e := range entries {
		r.low, r.high = min(r.low, e.Value), max(r.high, e.Value)
	}
	return r
}

// within returns the range of the run's values; ok is false where it is not known.
func (r run) within() (low, high float32, ok bool) { return r.low, r.high, r.of != nil }

// rowsOfPart holds the rows of an input that a part has, in the part's packed order; −1 for removed ones.
type rowsOfPart struct{ contexts, queries []int32 }

// pair returns the query and the context of an entry.
func (j *job) pair(r run, at uint32) (query, context int32) {
	var rows, lanes []int32
	if r.of != nil {
		rows, lanes = r.of.contexts, r.of.queries
	} else {
		rows, lanes = j.bounded.rowAt, j.bounded.laneAt
	}
	return through(lanes, int(r.lane)+int(at&0xffff)), through(rows, int(r.row)+int(at>>16))
}

// keeper decides where kept entries go: into memory while the limit has room, then into a temporary file,
// and when that has no room either, nowhere: the pass goes on counting, and a histogram places the brackets anew.
type keeper struct {
	j        *job
	expected float64
	needed   bool         // something may be kept at all
	memory   int64        // entries
	reserved atomic.Int64 // entries that have memory
	full     atomic.Bool  // kept entries are lost: nothing more need be kept
}

func (k *keeper) begin(j *job, done *counts, w *wanted) {
	k.j, k.expected, k.memory = j, w.expected, j.keepMemory()
	k.needed = w.expected > 0 || w.ends
	k.full.Store(done.full)
	for _, r := range done.kept {
		k.reserved.Add(int64(len(r.entries)))
	}
}

// reserve makes room for entries in w.buffer, or gives up keeping any.
func (k *keeper) reserve(w *worker, want int) {
	if !k.needed || k.full.Load() {
		w.buffer = nil
		return
	}
	if cap(w.buffer) >= want {
		return
	}
	n := int64(max(want, min(int(k.expected)/(2*k.j.blocks.Workers), 1<<20)))
	if !w.spills {
		if k.reserved.Add(n) <= k.memory {
			w.buffer = make([]device.Entry, 0, n)
			return
		}
		k.reserved.Add(-n)
	}
	w.spills = true // from now on the buffer is written to the file and used again
	if k.j.spill == nil || int64(want) > max(k.memory/2, 1<<16) {
		k.full.Store(true)
		w.buffer = nil
		return
	}
	w.buffer = make([]device.Entry, 0, want)
}

// keep takes a task's entries, which lie at the beginning of w.buffer.
func (k *keeper) keep(w *worker, task int32, entries []device.Entry) {
	n := len(entries)
	r := k.j.bounded.run(task, n)
	if !w.spills {
		r.entries, w.buffer = entries[:n:n], w.buffer[n:n:cap(w.buffer)]
	} else if at, err := k.j.spill.write(bytesOf(entries)); err == nil {
		r.at = at
	} else {
		k.full.Store(true)
		w.mine.full = true
		return
	}
	w.mine.kept = append(w.mine.kept, r)
}

// keepMemory returns how many entries may stay in memory.
func (j *job) keepMemory() int64 {
	if j.tune.Kept > 0 {
		return j.tune.Kept
	}
	return j.room / 3 * 2 / entryBytes
}

// keepRoom returns how many entries may be kept in all.
func (j *job) keepRoom() int64 {
	if j.spill == nil {
		return j.keepMemory()
	}
	return j.keepMemory() + j.spill.limit/entryBytes
}

// A file of up to freeSpill bytes costs little. A larger one holds at most spillPerPair bytes for each pair that is
// counted: writing and reading that takes less time than canonical scores of all pairs, which is what it spares.
const (
	freeSpill    = 256 << 20
	spillPerPair = 1
)

const entryBytes = int64(unsafe.Sizeof(device.Entry{}))

// spill is a temporary file of kept entries and scores. It has no name where the system allows that, so that a killed
// process leaves nothing.
type spill struct {
	limit int64 // bytes

	mu   sync.Mutex
	file *os.File
	used int64
	path string // of a file that could not be unlinked
}

var errSpillFull = errors.New("no room for kept pairs on the disk")

// write appends bytes and returns where they begin. A nil spill is full.
func (s *spill) write(data []byte) (at int64, err error) {
	if s == nil {
		return 0, errSpillFull
	}
	size := int64(len(data))
	s.mu.Lock()
	if s.file == nil {
		err = s.open()
	}
	if err == nil && s.used+size > s.limit {
		err = errSpillFull
	}
	at = s.used
	if err == nil {
		s.used += size
	}
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	_, err = s.file.WriteAt(data, at)
	return at, err
}

func (s *spill) open() error {
	f, err := os.CreateTemp("", "sluice-pairs-*")
	if err != nil {
		return err
	}
	s.file = f
	if os.Remove(f.Name()) != nil {
		s.path = f.Name()
	}
	return nil
}

func (s *spill) close() error {
	if s == nil || s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.path != "" {
		err = errors.Join(err, os.Remove(s.path))
	}
	s.file = nil
	return err
}

// bytesOf returns the memory of entries or scores: the file is read by the process that wrote it, in its own byte
// order.
func bytesOf[T device.Entry | float64](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// load returns a run's entries; buffer is reused for those in the file.
func (j *job) load(r run, buffer *[]device.Entry) ([]device.Entry, error) {
	if of := r.of; of != nil {
		return r.entries, r.check(len(of.contexts), len(of.queries))
	}
	if len(r.entries) == int(r.n) {
		return r.entries, nil
	}
	if cap(*buffer) < int(r.n) {
		*buffer = make([]device.Entry, r.n)
	}
	out := (*buffer)[:r.n]
	if _, err := j.spill.file.ReadAt(bytesOf(out), r.at); err != nil {
		return nil, fmt.Errorf("engine: kept pairs in a temporary file: %w", err)
	}
	return out, nil
}

// loadRun is load into memory of its own.
func (j *job) loadRun(r run) ([]device.Entry, error) {
	var buffer []device.Entry
	return j.load(r, &buffer)
}

// counts are what was found in a set of tasks. Counts of disjoint sets merge by addition, so that neither
// the cutting nor threads, processes or interruptions leave a trace.
type counts struct {
	tasks           []int32 // done
	counted         int64   // device.Count
	sum, sum2       tiles.Sum
	below           []int64
	bins            []int64
	kept            []run
	full            bool          // kept is not complete
	best            [2][]ref.Pair // maxima that were found, for a record; the result has them all
	bestLost        bool          // maxima are not complete
	lowest, highest ref.Pair      // the extremes by tile value, canonical; Context −1: none yet
	endsLost        bool          // extremes are not known
	merged          *tileSums     // instead of sum and sum2, of parts
}

func newCounts(w *wanted) *counts {
	return &counts{below: make([]int64, len(w.brackets)), bins: make([]int64, w.bins), lowest: noPair, highest: noPair}
}

// merge adds o to c; sums that their type does not hold are kernels.ErrRange.
func (c *counts) merge(o *counts, m kernels.Metric) error {
	if err := c.addSums(o.sum, o.sum2); err != nil {
		return err
	}
	c.tasks = append(c.tasks, o.tasks...)
	c.counted += o.counted
	addTo(c.below, o.below)
	addTo(c.bins, o.bins)
	c.kept = append(c.kept, o.kept...)
	c.full, c.bestLost, c.endsLost = c.full || o.full, c.bestLost || o.bestLost, c.endsLost || o.endsLost
	c.takeEnd(m, o.lowest)
	c.takeEnd(m, o.highest)
	return nil
}

// addTo adds a list to another one of that length.
func addTo(sums, list []int64) {
	for i, n := range list {
		sums[i] += n
	}
}

func (c *counts) addSums(sum, sum2 tiles.Sum) (err error) {
	if sum, err = c.sum.Plus(sum); err != nil {
		return err
	}
	if sum2, err = c.sum2.Plus(sum2); err != nil {
		return err
	}
	c.sum, c.sum2 = sum, sum2
	return nil
}

// takeEnd widens the extremes; where a distance is the score, the largest one has the least tile value.
func (c *counts) takeEnd(m kernels.Metric, p ref.Pair) {
	if m.Ascending() {
		higher(&c.lowest, p)
		lower(&c.highest, p)
		return
	}
	lower(&c.lowest, p)
	higher(&c.highest, p)
}

// keptPairs counts the entries.
func (c *counts) keptPairs() (n int64) {
	for _, r := range c.kept {
		n += int64(r.n)
	}
	return n
}

// encode appends the counts; load reads a run's entries.
func (c *counts) encode(out []byte, load func(run) ([]device.Entry, error)) ([]byte, error) {
	out = put(out, uint64(c.counted), uint64(c.sum.Hi), c.sum.Lo, uint64(c.sum2.Hi), c.sum2.Lo)
	out = put(out, uint32(bit(c.full)|bit(c.bestLost)<<1|bit(c.endsLost)<<2))
	out = putList(putList(putList(out, c.tasks), c.below), c.bins)
	out = put(out, uint32(len(c.kept)))
	for _, r := range c.kept {
		entries, err := load(r)
		if err != nil {
			return nil, err
		}
		out = put(put(out, uint32(r.task), uint32(len(entries))), wordsOf(entries)...)
	}
	for _, list := range [][]ref.Pair{c.best[bestOther], c.best[bestAll], {c.lowest, c.highest}} {
		out = put(out, uint32(len(list)))
		for _, p := range list {
			out = put(put(out, p.Query, p.Context), p.Score)
		}
	}
	return out, nil
}

func decodeCounts(data []byte) (*counts, error) {
	r := &reader{data: data}
	c := &counts{counted: r.i64(), sum: r.sum(), sum2: r.sum()}
	flags := r.u32()
	c.full, c.bestLost, c.endsLost = flags&1 != 0, flags&2 != 0, flags&4 != 0
	c.tasks, c.below, c.bins = readList[int32](r), readList[int64](r), readList[int64](r)
	c.kept = make([]run, r.length(8))
	for i := range c.kept {
		task, n := int32(r.u32()), r.length(int(entryBytes))
		c.kept[i] = run{task: task, n: int32(n), entries: entriesOf(r.take(int(entryBytes) * n))} // accept places it
	}
	var ends []ref.Pair
	for _, list := range []*[]ref.Pair{&c.best[bestOther], &c.best[bestAll], &ends} {
		*list = make([]ref.Pair, r.length(16))
		for i := range *list {
			(*list)[i] = ref.Pair{Query: int32(r.u32()), Context: int32(r.u32()), Score: r.f64()}
		}
	}
	if r.bad || len(r.data) > 0 || flags > 7 || len(ends) != 2 {
		return nil, errShort
	}
	c.lowest, c.highest = ends[0], ends[1]
	return c, nil
}
