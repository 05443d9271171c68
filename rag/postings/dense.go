package postings

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-rag/sluice/kernels/cpu/bitsets"
)

// wordRows is how many rows a word of bits is about.
const wordRows = 64

// dense is a term's list of one segment by rows: which rows have the term, and what they get of it. It is nil of lists
// with fewer postings than two a word, which are read posting by posting: it takes at most eight bytes a posting.
type dense struct {
	has    []uint64 // a bit a row, whole windows
	begins []uint32 // of each word's postings in the list
	parts  []uint16 // of each posting: above, its part in units of 1/255 of the term's bound, rounded up; below, its tf
}

const (
	fullPart = 255
	manyTF   = 255 // stands for this tf and any larger one
)

// find is where a row's posting is in the list.
func (d *dense) find(row uint32) (at int, ok bool) {
	w := d.has[row/wordRows]
	bit := uint64(1) << (row % wordRows)
	return int(d.begins[row/wordRows]) + bits.OnesCount64(w&(bit-1)), w&bit != 0
}

// denseLists are a term's lists by rows. They are made when a term is first searched for, and kept: all of one kind of
// score take less than twice the memory of the index.
func (x *Index) denseLists(q *Query, t *weighted) []*dense {
	key := q.key(t.text)
	x.mu.Lock()
	lists, ok := x.dense[key]
	x.mu.Unlock()
	if ok {
		return lists
	}
	lists, bytes := make([]*dense, len(t.lists)), 64
	for i, l := range t.lists {
		if lists[i] = q.newDense(t, l); lists[i] != nil {
			bytes += 12*len(lists[i].has) + 2*len(lists[i].parts)
		}
	}
	limit := 1 << 20
	for _, s := range x.segments {
		limit += 8 * len(s.at)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dense == nil || len(x.dense) > maxBounds || x.denseBytes > limit {
		x.dense, x.denseBytes = map[boundKey][]*dense{}, 0
	}
	x.dense[key] = lists
	x.denseBytes += bytes
	return lists
}

// newDense makes a pass over a list; nil for one with few postings.
func (q *Query) newDense(t *weighted, l list) *dense {
	words := (l.seg.rows() + window - 1) / window * window / wordRows
	if len(l.at) < 2*words {
		return nil
	}
	d := &dense{has: make([]uint64, words), begins: make([]uint32, words), parts: make([]uint16, len(l.at))}
	for j, at := range l.at {
		d.has[at/wordRows] |= 1 << (at % wordRows)
		share := q.part(t, l.tf[j], l.seg.length[at], l.seg.first+int(at)) / t.bound
		part := uint16(min(math.Ceil(share*fullPart*(1+2e-12)), fullPart)) // that of a deleted row may be more
		d.parts[j] = part<<8 | min(l.tf[j], manyTF)
	}
	n := 0
	for w, has := range d.has {
		d.begins[w] = uint32(n)
		n += bits.OnesCount64(has)
	}
	return d
}

// filter finds the rows that can have more than a limit by what each term gives at most: the rows whose terms' bounds
// add up to more. It is a program of one step a node of that sum's decision diagram (Bryant, Graph-Based Algorithms for
// Boolean Function Manipulation, 1986): a node finds, of the rows that have its term, those that one node below finds,
// and those that the other one finds.
type filter struct {
	limit float64 // that it was made for
	rest  float64 // what the terms that it does not know give at most
	steps []bitsets.Step
	known [maxFiltered][]span // the nodes of each term
	root  int32               // the set of the rows that the filter finds

	// The rows of a window: those of each term, which are for the caller to set, none, all, and those of each step.
	sets []bitsets.Set
}

// span are the limits from low on and below high, for which a node finds the same rows.
type span struct {
	low, high float64
	node      int32
}

// maxFiltered is how many terms a filter knows: those with the highest bounds.
const maxFiltered = 10

// The sets behind those of the terms: two that need no step, and the first step's.
const (
	noRow     = maxFiltered
	allRow    = maxFiltered + 1
	firstStep = maxFiltered + 2
)

// build makes the filter for a limit; rest[i] is the sum of the bounds of cursors[i:].
func (f *filter) build(cursors []cursor, rest []float64, limit float64) {
	n := min(len(cursors), maxFiltered)
	f.limit, f.rest, f.steps = limit, rest[n], f.steps[:0]
	for i := range f.known {
		f.known[i] = f.known[i][:0]
	}
	f.root = f.node(cursors[:n], rest, 0, limit*(1-1e-9)-f.rest).node
	n = firstStep + len(f.steps)
	f.sets = slices.Grow(f.sets[:0], n)[:n]
	for w := range f.sets[allRow] {
		f.sets[noRow][w], f.sets[allRow][w] = 0, ^uint64(0)
	}
}

// node is the node of the rows whose terms from the i-th on add up to more than limit.
func (f *filter) node(cursors []cursor, rest []float64, i int, limit float64) span {
	all := rest[i] - f.rest
	switch {
	case limit < 0:
		return span{math.Inf(-1), 0, allRow}
	case i == len(cursors) || limit >= all:
		return span{all, math.Inf(1), noRow}
	}
	for _, s := range f.known[i] {
		if limit >= s.low && limit < s.high {
			return s
		}
	}
	bound := cursors[i].bound
	with, without := f.node(cursors, rest, i+1, limit-bound), f.node(cursors, rest, i+1, limit)
	f.steps = append(f.steps, bitsets.Step{Set: int32(i), Both: with.node, Either: without.node})
	s := span{max(with.low+bound, without.low), min(with.high+bound, without.high), int32(firstStep + len(f.steps) - 1)}
	f.known[i] = append(f.known[i], s)
	return s
}
