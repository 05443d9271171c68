package postings

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/sluice-rag/sluice/kernels"
)

// TopK returns the k rows with the highest scores above 0, better first, then lower row; deleted rows and those that
// allowed refuses (nil allows all) are left out. k below 1 is kernels.ErrArgument.
//
// Lists are read together, row by row, and those whose bounds cannot bring a row among the best are only looked up
// (MaxScore: Turtle & Flood, Query Evaluation: Strategies and Optimizations, 1995).
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
	cursor []cursor      // by bound, ascending
	below  []float64     // below[i] is the sum of the bounds of cursor[:i]
	parts  []float64     // of the row in question, by term of the query
}

// cursor is a place in a term's list.
type cursor struct {
	term  int
	bound float64
	at    []uint32
	tf    []uint16
	next  int
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
	s := &scan{q: q, k: k, parts: make([]float64, len(q.terms)), below: make([]float64, len(q.terms)+1)}
	for i := range q.terms {
		s.cursor = append(s.cursor, cursor{term: i, bound: q.terms[i].bound})
	}
	slices.SortStableFunc(s.cursor, func(a, b cursor) int {
		switch {
		case a.bound < b.bound:
			return -1
		case a.bound > b.bound:
			return 1
		}
		return 0
	})
	for i, c := range s.cursor {
		s.below[i+1] = s.below[i] + c.bound*(1+1e-12)
	}
	return s
}

// stretch is how many rows are scored between two looks at the context.
const stretch = 1 << 14

// segment scans one segment.
func (s *scan) segment(ctx context.Context, seg *segment, allowed func(row int) bool) error {
	for i := range s.cursor {
		c := &s.cursor[i]
		c.at, c.tf, c.next = nil, nil, 0
		for _, l := range s.q.terms[c.term].lists {
			if l.seg == seg {
				c.at, c.tf = l.at, l.tf
			}
		}
	}
	first := s.essential(0)
	for n := 1; ; n++ {
		if n%stretch == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		row := none
		for i := first; i < len(s.cursor); i++ {
			row = min(row, s.cursor[i].row())
		}
		if row == none {
			return nil
		}
		score, ok := s.score(seg, row, first)
		if !ok {
			continue
		}
		r := seg.first + int(row)
		if s.q.x.gone && s.q.x.deleted(r) || allowed != nil && !allowed(r) {
			continue
		}
		s.add(kernels.Hit{Row: r, Score: score})
		first = s.essential(first)
	}
}

// essential is the first of the cursors, from first on, that a row above the limit needs one of.
func (s *scan) essential(first int) int {
	for first < len(s.cursor) && len(s.best) == s.k && s.below[first+1] <= s.limit {
		first++
	}
	return first
}

// score computes the score of a row that an essential cursor stands at, and moves these on. It is not ok as soon as the
// row cannot come above the limit.
func (s *scan) score(seg *segment, row uint32, first int) (score float64, ok bool) {
	length, r := seg.length[row], seg.first+int(row)
	clear(s.parts)
	sum := 0.0
	for i := first; i < len(s.cursor); i++ {
		c := &s.cursor[i]
		if c.row() == row {
			p := s.q.part(&s.q.terms[c.term], c.tf[c.next], length, r)
			s.parts[c.term] = p
			sum += p
			c.next++
		}
	}
	full := len(s.best) == s.k
	for i := first - 1; i >= 0; i-- {
		if full && (sum+s.below[i+1])*(1+1e-12) <= s.limit {
			return 0, false
		}
		c := &s.cursor[i]
		if c.seek(row); c.row() == row {
			p := s.q.part(&s.q.terms[c.term], c.tf[c.next], length, r)
			s.parts[c.term] = p
			sum += p
		}
	}
	for _, p := range s.parts { // in the order of Score: the same bits
		score += p
	}
	return score, score > s.limit || !full && score > 0
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
