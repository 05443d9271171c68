package statistics

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rag/sluice/engine/internal/device"
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
