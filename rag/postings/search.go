package postings

import (
	"context"
	"fmt"
	"math/bits"
	"sort"

	"github.com/sluice-rag/sluice/kernels"
)

// TopK returns the k rows with the highest scores above 0, better first, then lower row; deleted rows and those that
// allowed refuses (nil allows all) are left out. k below 1 is kernels.ErrArgument.
//
// Lists are read window of rows by window of rows, and those whose bounds cannot bring a row among the best are only
// looked up (MaxScore: Turtle & Flood, Query Evaluation: Strategies and Optimizations, 1995; the windows are those of
// Lucene).
func (q *Query) TopK(ctx context.Context, k int, allowed func(row int) bool) ([]kernels.Hit, error) {
	if k < 1 {
		return nil, fmt.Errorf("postings: k: %w: %d, at least 1", kernels.ErrArgument, k)
	}
	s := newScan(q, k)
	for _, seg := range q.x.segments {
		if err := s.segment(ctx, seg, allowed); err != nil {
			return nil, err
		}
	}
	sort.Slice(s.best, func(i, j int) bool { return kernels.Cosine.Closer(s.best[i], s.best[j]) })
	return s.best, nil
}

// scan is the state of one TopK.
type scan struct {
	q      *Query
	k      int
	best   []kernels.Hit // a heap whose root is the worst
	limit  float64       // a row's score must be above: that of the root once there are k
	cursor []cursor      // by bound, descending, as the query's terms are: scores are summed in this order
	rest   []float64     // rest[i] is the sum of the bounds of cursor[i:]

	sums [window]float64     // of the rows of a window, over the lists that are read
	met  [window / 64]uint64 // which of them a list has
}

// window is how many rows are summed together: their sums lie in the first-level cache.
const window = 2048

// cursor is a place in a term's list.
type cursor struct {
	*weighted
	at   []uint32
	tf   []uint16
	next int
}

// none is the row of a cursor at the end of its list.
const none = ^uint32(0)

func (c *cursor) row() uint32 {
	if c.next < len(c.at) {
		return c.at[c.next]
	}
	return none
}

// seek moves to the first row that is not below row.
func (c *cursor) seek(row uint32) {
	at, low, step := c.at, c.next, 1
	if low >= len(at) || at[low] >= row {
		return
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
	c.next = low
}

func newScan(q *Query, k int) *scan {
	s := &scan{q: q, k: k, rest: make([]float64, len(q.terms)+1)}
	for i := range q.terms {
		s.cursor = append(s.cursor, cursor{weighted: &q.terms[i]})
	}
	for i := len(s.cursor) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1] + s.cursor[i].bound*(1+1e-12)
	}
	return s
}

// segment scans one segment.
func (s *scan) segment(ctx context.Context, seg *segment, allowed func(row int) bool) error {
	for i := range s.cursor {
		c := &s.cursor[i]
		c.at, c.tf, c.next = nil, nil, 0
		for _, l := range c.lists {
			if l.seg == seg {
				c.at, c.tf = l.at, l.tf
			}
		}
	}
	for read := s.read(len(s.cursor)); ; read = s.read(read) {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := none
		for i := range read {
			first = min(first, s.cursor[i].row())
		}
		if first == none {
			return nil
		}
		first -= first % window
		for i := range read {
			s.sum(&s.cursor[i], seg, first)
		}
		for w := range s.met {
			for met := s.met[w]; met != 0; met &= met - 1 {
				at := w*64 + bits.TrailingZeros64(met)
				row, sum := first+uint32(at), s.sums[at]
				s.sums[at] = 0
				if score, ok := s.finish(seg, row, sum, read); ok {
					r := seg.first + int(row)
					if s.q.x.gone && s.q.x.deleted(r) || allowed != nil && !allowed(r) {
						continue
					}
					s.add(kernels.Hit{Row: r, Score: score})
				}
			}
			s.met[w] = 0
		}
	}
}

// read is how many of the lists must be read, where so many were before: a row that is in none of them cannot come
// above the limit.
func (s *scan) read(before int) int {
	for before > 0 && len(s.best) == s.k && s.rest[before-1] <= s.limit {
		before--
	}
	return before
}

// sum adds what a list says of the rows of a window.
func (s *scan) sum(c *cursor, seg *segment, first uint32) {
	at, tf, next, q := c.at, c.tf, c.next, s.q
	if q.scoring.Kind == BM25 {
		length := seg.length[first:]
		for ; next < len(at) && at[next]-first < window; next++ {
			i, f := at[next]-first, float64(tf[next])
			s.sums[i] += c.weight * f / (f + q.offset + q.slope*float64(length[i]))
			s.met[i/64] |= 1 << (i % 64)
		}
	} else {
		for ; next < len(at) && at[next]-first < window; next++ {
			i := at[next] - first
			s.sums[i] += q.part(c.weighted, tf[next], 0, seg.first+int(at[next]))
			s.met[i/64] |= 1 << (i % 64)
		}
	}
	c.next = next
}

// finish adds to a row's sum what the lists say that are only looked up. It is not ok as soon as the row cannot come
// above the limit.
func (s *scan) finish(seg *segment, row uint32, sum float64, read int) (score float64, ok bool) {
	full := len(s.best) == s.k
	for i := read; i < len(s.cursor); i++ {
		if full && (sum+s.rest[i])*(1+1e-12) <= s.limit {
			return 0, false
		}
		c := &s.cursor[i]
		if c.seek(row); c.row() == row {
			sum += s.q.part(c.weighted, c.tf[c.next], seg.length[row], seg.first+int(row))
		}
	}
	return sum, sum > s.limit || !full && sum > 0
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
