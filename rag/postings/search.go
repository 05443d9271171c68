package postings

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/bitsets"
)

// TopK returns the k rows with the highest scores above 0, better first, then lower row; deleted rows and those that
// allowed refuses (nil allows all) are left out. k below 1 is kernels.ErrArgument.
//
// Window of rows by window of rows, a filter over the bits of the terms' lists leaves the rows whose terms can bring
// them among the best. Their scores are bounded by a byte a term, and computed where that does not rule them out.
func (q *Query) TopK(ctx context.Context, k int, allowed func(row int) bool) ([]kernels.Hit, error) {
	if k < 1 {
		return nil, fmt.Errorf("postings: k: %w: %d, at least 1", kernels.ErrArgument, k)
	}
	s := newScan(q, k)
	s.allowed = allowed
	if q.x.gone {
		s.allowed = func(row int) bool { return !q.x.deleted(row) && (allowed == nil || allowed(row)) }
	}
	for _, seg := range q.x.segments {
		if err := s.segment(ctx, seg); err != nil {
			return nil, err
		}
	}
	best := s.best
	sort.Slice(best, func(i, j int) bool { return kernels.Cosine.Closer(best[i], best[j]) })
	s.end()
	return best, nil
}

// end keeps the buffers of a scan for the next one. One that has failed is not kept.
func (s *scan) end() {
	clear(s.cursor)
	x := s.q.x
	s.q, s.allowed, s.best = nil, nil, nil
	x.scans.Put(s)
}

// scan is the state of one TopK.
type scan struct {
	q       *Query
	k       int
	allowed func(row int) bool // nil: all
	best    []kernels.Hit      // a heap whose root is the worst
	limit   float64            // a row's score must be above: that of the root once there are k
	cursor  []cursor           // by bound, descending, as the query's terms are: scores are summed in this order
	rest    []float64          // rest[i] is the sum of the bounds of cursor[i:]

	filter  filter
	rows    []uint32
	bounds  []float64 // of the scores of rows
	tf      []uint16  // of rows, for each cursor; 0 where it is not in the list
	scores  [window]float64
	touched bitsets.Set // rows with a score
}

// window is how many rows are read together, as many as a bitsets.Set has: their scores lie in the first-level cache.
const window = 2048

// cursor is a place in a term's list.
type cursor struct {
	*weighted
	rows  []*dense // of the lists of all segments
	at    []uint32
	tf    []uint16
	dense *dense
	// of a list without bits: the first posting that is not before the window, and the first behind it
	next, end int
}

// none is the row of a cursor at the end of its list.
const none = ^uint32(0)

func (c *cursor) row() uint32 {
	if c.next < len(c.at) {
		return c.at[c.next]
	}
	return none
}

// open finds the postings of a window, of a list without bits.
func (c *cursor) open(first uint32) {
	if c.dense != nil {
		return
	}
	c.next = c.seek(c.next, first)
	for c.end = c.next; c.end < len(c.at) && c.at[c.end]-first < window; c.end++ {
	}
}

// in is where the postings of the window that is open are.
func (c *cursor) in(first uint32) (from, to int) {
	d := c.dense
	if d == nil {
		return c.next, c.end
	}
	if behind := int(first+window) / wordRows; behind < len(d.begins) {
		return int(d.begins[first/wordRows]), int(d.begins[behind])
	}
	return int(d.begins[first/wordRows]), len(c.at)
}

// seek finds the first posting from low on whose row is not below row.
func (c *cursor) seek(low int, row uint32) int {
	at, step := c.at, 1
	if low >= len(at) || at[low] >= row {
		return low
	}
	high := low + step
	for high < len(at) && at[high] < row {
		low, step = high, 2*step
		high = low + step
	}
	high = min(high, len(at))
	for low++; low < high; { // at[low−1] is below row, at[high] is not
		if mid := int(uint(low+high) >> 1); at[mid] < row {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

func newScan(q *Query, k int) *scan {
	n := len(q.terms)
	s, _ := q.x.scans.Get().(*scan)
	if s == nil {
		s = &scan{}
	}
	s.q, s.k, s.limit, s.best = q, k, 0, nil
	s.cursor, s.rest = s.cursor[:0], slices.Grow(s.rest[:0], n+1)[:n+1]
	s.rest[n] = 0
	for i := range q.terms {
		t := &q.terms[i]
		s.cursor = append(s.cursor, cursor{weighted: t, rows: q.x.denseLists(q, t)})
	}
	for i := len(s.cursor) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1] + s.cursor[i].bound*(1+1e-12)
	}
	s.filter.build(s.cursor, s.rest, 0)
	return s
}

// segment scans one segment.
func (s *scan) segment(ctx context.Context, seg *segment) error {
	inDense := 0. // what a row gets at most that is in no list without bits
	for i := range s.cursor {
		c := &s.cursor[i]
		c.at, c.tf, c.dense, c.next = nil, nil, nil, 0
		for j, l := range c.lists {
			if l.seg == seg {
				c.at, c.tf, c.dense = l.at, l.tf, c.rows[j]
			}
		}
		if c.dense != nil {
			inDense += c.bound * (1 + 1e-12)
		}
	}
	for first := uint32(0); first < uint32(seg.rows()); first += window {
		if err := ctx.Err(); err != nil {
			return err
		}
		if inDense <= s.limit {
			if first = s.nextSparse(first); first == none {
				return nil
			}
		}
		if s.filter.limit != s.limit {
			s.filter.build(s.cursor, s.rest, s.limit)
		}
		if s.filter.root == noRow {
			return nil
		}
		if err := s.window(seg, first); err != nil {
			return err
		}
	}
	return nil
}

// nextSparse returns the first row of the first window, from row first on, that holds a row of a list without a bit
// set. It returns none if no such window exists.
func (s *scan) nextSparse(first uint32) uint32 {
	next := none
	for i := range s.cursor {
		if c := &s.cursor[i]; c.dense == nil {
			c.next = c.seek(c.next, first)
			next = min(next, c.row())
		}
	}
	if next != none {
		next -= next % window
	}
	return next
}

// window takes the rows of a window that are above the limit.
func (s *scan) window(seg *segment, first uint32) error {
	for i := range s.cursor {
		s.cursor[i].open(first)
	}
	if s.filter.root != allRow {
		count, err := s.choose(first)
		if err != nil {
			return err
		}
		if count < fewRows || count*len(s.cursor) <= 2*s.postings(first) {
			s.look(seg, first)
			return nil
		}
	}
	s.readAll(seg, first)
	return nil
}

// fewRows of a window are looked at one by one, whatever its lists hold.
const fewRows = window / 32

// postings counts those of a window.
func (s *scan) postings(first uint32) (n int) {
	for i := range s.cursor {
		c := &s.cursor[i]
		from, to := c.in(first)
		n += to - from
	}
	return n
}

// choose finds what the filter leaves of a window, and counts it.
func (s *scan) choose(first uint32) (int, error) {
	for i := range s.cursor[:min(len(s.cursor), maxFiltered)] {
		c, has := &s.cursor[i], &s.filter.sets[i]
		if c.dense != nil {
			*has = bitsets.Set(c.dense.has[first/wordRows:])
			continue
		}
		*has = bitsets.Set{}
		for _, row := range c.at[c.next:c.end] {
			has[(row-first)/wordRows] |= 1 << (row % wordRows)
		}
	}
	return bitsets.Run(s.q.x.kernels, s.filter.sets, s.filter.steps)
}

// readAll sums the scores of all rows of a window, list by list.
func (s *scan) readAll(seg *segment, first uint32) {
	for i := range s.cursor {
		c := &s.cursor[i]
		s.sum(c, seg, first)
	}
	for w := range s.touched {
		for met := s.touched[w]; met != 0; met &= met - 1 {
			at := w*wordRows + bits.TrailingZeros64(met)
			s.take(seg.first+int(first)+at, s.scores[at])
			s.scores[at] = 0
		}
		s.touched[w] = 0
	}
}

// sum adds what a list says of the rows of a window.
func (s *scan) sum(c *cursor, seg *segment, first uint32) {
	from, to := c.in(first)
	at, tf, q := c.at[from:to], c.tf[from:to], s.q
	if q.scoring.Kind == BM25 {
		length := seg.length[first:]
		for j, row := range at {
			i, f := row-first, float64(tf[j])
			s.scores[i] += c.weight * f / (f + q.offset + q.slope*float64(length[i]))
			s.touched[i/wordRows] |= 1 << (i % wordRows)
		}
		return
	}
	for j, row := range at {
		i := row - first
		s.scores[i] += q.part(c.weighted, tf[j], 0, seg.first+int(row))
		s.touched[i/wordRows] |= 1 << (i % wordRows)
	}
}

// look computes the scores of those of the chosen rows that their bounds do not rule out. List by list, it finds what
// each row gets of it: so that the processor waits for many rows' postings at a time.
func (s *scan) look(seg *segment, first uint32) {
	s.rows, s.bounds = s.rows[:0], s.bounds[:0]
	for w, left := range &s.filter.sets[s.filter.root] {
		for ; left != 0; left &= left - 1 {
			s.rows = append(s.rows, first+uint32(w*wordRows+bits.TrailingZeros64(left)))
			s.bounds = append(s.bounds, 0)
		}
	}
	n := len(s.rows)
	s.tf = slices.Grow(s.tf[:0], n*len(s.cursor))[:n*len(s.cursor)]
	for i := range s.cursor {
		c, tf := &s.cursor[i], s.tf[i*n:][:n]
		if c.dense == nil && i < maxFiltered {
			c.sparseBounds(s.rows, tf, s.bounds, &s.filter.sets[i])
		} else {
			c.bounds(s.rows, tf, s.bounds)
		}
	}
	for j, row := range s.rows {
		if s.bounds[j]*(1+1e-9) <= s.limit {
			continue
		}
		score, length := 0., seg.length[row]
		for i := range s.cursor {
			if tf := s.tf[i*n+j]; tf > 0 {
				score += s.q.part(s.cursor[i].weighted, tf, length, seg.first+int(row))
			}
		}
		s.take(seg.first+int(row), score)
	}
}

// bounds adds to each row's bound what it gets of the list at most, and writes its tf: 0 if it is not in the list.
func (c *cursor) bounds(rows []uint32, tf []uint16, bounds []float64) {
	d := c.dense
	if d == nil {
		for j, row := range rows {
			if tf[j] = 0; c.next < c.end {
				if at := c.seek(c.next, row); at < c.end && c.at[at] == row {
					tf[j], bounds[j] = c.tf[at], bounds[j]+c.bound
				}
			}
		}
		return
	}
	unit := c.bound / fullPart
	for j, row := range rows {
		at, ok := d.find(row)
		if tf[j] = 0; !ok {
			continue
		}
		part := d.parts[at]
		bounds[j] += unit * float64(part>>8)
		if tf[j] = part & 0xff; tf[j] == manyTF {
			tf[j] = c.tf[at]
		}
	}
}

// sparseBounds is bounds of a list without bits, with the bits of its rows in the window.
func (c *cursor) sparseBounds(rows []uint32, tf []uint16, bounds []float64, bits *bitsets.Set) {
	at := c.next
	for j, row := range rows {
		if tf[j] = 0; bits[row%window/wordRows]>>(row%wordRows)&1 == 0 {
			continue
		}
		for c.at[at] != row {
			at++
		}
		tf[j], bounds[j] = c.tf[at], bounds[j]+c.bound
	}
}

// take takes a row if its score is above the limit.
func (s *scan) take(row int, score float64) {
	if score > s.limit && (s.allowed == nil || s.allowed(row)) {
		s.add(kernels.Hit{Row: row, Score: score})
	}
}

// add takes a row that is above the limit; rows come in ascending order, so one that equals the limit is not.
func (s *scan) add(h kernels.Hit) {
	if len(s.best) < s.k {
		s.best = append(s.best, h)
		if len(s.best) == s.k {
			for i := len(s.best)/2 - 1; i >= 0; i-- {
				s.sink(i)
			}
			s.limit = s.best[0].Score
		}
		return
	}
	s.best[0] = h
	s.sink(0)
	s.limit = s.best[0].Score
}

func (s *scan) sink(i int) {
	h := s.best
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && kernels.Cosine.Closer(h[child], h[child+1]) {
			child++
		}
		if kernels.Cosine.Closer(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
