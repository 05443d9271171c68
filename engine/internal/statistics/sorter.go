package statistics

import (
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// sorter puts kept entries into runs that each hold the values of few cells and the pairs of a block of 2¹⁶ contexts ×
// 2¹⁶ queries: they are counted, then memory is shared out, then they are put.
type sorter struct {
	cells       cells
	first, step []int // of each bracket: its first cell, and how many cells a slice takes
	slices      []int // of each bracket: the number of its first slice; behind the last one, the upper end's
	blocks      [2]int
	counts      [][]int64 // by worker and bucket
	next        []atomic.Int64
	ends        []int64 // where each bucket's entries end
	entries     []device.Entry
	w           *wanted
}

const (
	blockBits  = 16
	sliceLimit = 1 << 12 // slices of all brackets at most
)

func newSorter(j *job, p *Part, w *wanted) *sorter {
	s := &sorter{w: w, slices: []int{1}}
	side := 1 << blockBits
	s.blocks = [2]int{workers.Ceil(len(p.contexts), side), workers.Ceil(len(p.queries), side)}
	if len(w.brackets) > 0 {
		from, to := j.bounded.fine(w)
		s.cells = newCells(from, to, maxCells)
	}
	for _, x := range w.brackets {
		first, last := s.cells.of(float64(x.low)), s.cells.of(float64(x.high))
		step := workers.Ceil(last-first+1, sliceLimit/len(w.brackets))
		s.first, s.step = append(s.first, first), append(s.step, step)
		s.slices = append(s.slices, s.slices[len(s.slices)-1]+workers.Ceil(last-first+1, step))
	}
	s.counts = make([][]int64, j.blocks.Workers)
	for i := range s.counts {
		s.counts[i] = make([]int64, s.buckets())
	}
	return s
}

func (s *sorter) buckets() int { return (s.slices[len(s.slices)-1] + 1) * s.blocks[0] * s.blocks[1] }

// placeOf returns the packed row and lane of an entry.
func placeOf(r run, e device.Entry) (row, lane int) {
	return int(r.row) + int(e.At>>16), int(r.lane) + int(e.At&0xffff)
}

// bucket returns where an entry belongs: its slice, and in it its block.
func (s *sorter) bucket(row, lane int, value float32) int {
	slice := 0
	if i := s.w.bracketOf(value); i >= 0 {
		slice = s.slices[i] + (s.cells.of(float64(value))-s.first[i])/s.step[i]
	} else if value >= s.w.high {
		slice = s.slices[len(s.slices)-1]
	}
	return (slice*s.blocks[0]+row>>blockBits)*s.blocks[1] + lane>>blockBits
}

func (s *sorter) count(worker int, r run, e device.Entry) {
	row, lane := placeOf(r, e)
	s.counts[worker][s.bucket(row, lane, e.Value)]++
}

// share gives each bucket its place in memory.
func (s *sorter) share() {
	s.next, s.ends = make([]atomic.Int64, s.buckets()), make([]int64, s.buckets())
	at := int64(0)
	for i := range s.next {
		s.next[i].Store(at)
		for _, mine := range s.counts {
			at += mine[i]
		}
		s.ends[i] = at
	}
	s.entries = make([]device.Entry, at)
}

func (s *sorter) put(r run, e device.Entry) {
	row, lane := placeOf(r, e)
	at := s.next[s.bucket(row, lane, e.Value)].Add(1) - 1
	const mask = 1<<blockBits - 1
	s.entries[at] = device.Entry{Value: e.Value, At: uint32(row&mask)<<16 | uint32(lane&mask)}
}

// runs returns the buckets that hold something.
func (s *sorter) runs() (kept []run) {
	from := int64(0)
	for i, end := range s.ends {
		if end > from {
			block := i % (s.blocks[0] * s.blocks[1])
			row, lane := block/s.blocks[1]<<blockBits, block%s.blocks[1]<<blockBits
			kept = append(kept, newRun(int32(row), int32(lane), s.entries[from:end:end]))
		}
		from = end
	}
	return kept
}
