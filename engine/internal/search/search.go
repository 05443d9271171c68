// Package search finds rows on a device by tiles: a fast format rules out rows that cannot be among the best, and the
// remaining rows get their canonical score on the device. The results are therefore identical, bit for bit, to a
// search by canonical scores alone, on every device and in every format.
package search

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/hits"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// Part is a set of rows that were added together, already checked and with norms.
type Part struct {
	device.Operand
	First   int     // number of its first row
	Largest float64 // largest norm
}

// Input is a search of all rows of the parts for each query.
type Input struct {
	Queries device.Operand // checked and with norms
	Parts   []Part
	Metric  kernels.Metric
	K       int              // number of best rows wanted; 0: any row better than Tau
	Tau     float64          // must not be NaN
	Bias    []kernels.Biases // by query, checked; nil: no biases
	Deleted []int            // rows to leave out, ascending
	// ScanRows is the number of rows of a part from which few queries scan it, Head how many coordinates are read
	// first; 0: default.
	ScanRows, Head int
}

// Format returns the format in which rows are ruled out on a device.
func Format(d device.Device) kernels.DType {
	for _, t := range []kernels.DType{kernels.BF16, kernels.BF16x3} {
		if d.Has(t) {
			return t
		}
	}
	return kernels.F32
}

// Sizes of a search.
const (
	firstRows = 1024    // rows whose canonical scores give the first bars
	laneBlock = 64      // panels of queries at a time
	piece     = 1 << 13 // canonical scores of a call
	spare     = 1 << 12 // room for candidates of a task beyond the expected number
	minTask   = 4       // panels of rows: smaller tasks compute all canonical scores
	setShare  = 0.75    // of an operation's memory for packed rows
	rounding  = 0x1p-20 // rounding error of bars, as a share of the largest value
)

// Run searches. Queries are processed in blocks, so that their number is not limited.
func Run(ctx context.Context, r *device.Resources, in Input) ([]hits.Found, error) {
	out := make([]hits.Found, in.Queries.N)
	n := 0
	for _, p := range in.Parts {
		n += p.N
	}
	progress := r.Meter(int64(in.Queries.N) * int64(n))
	for q0 := 0; q0 < in.Queries.N; q0 += laneBlock * device.Panel {
		s := &search{Input: in, r: r, q0: q0, dtype: Format(r.Device), progress: progress}
		s.queries = in.Queries
		if in.Queries.N > laneBlock*device.Panel {
			s.queries.Rows = in.Queries.Slice(q0, min(in.Queries.N, q0+laneBlock*device.Panel))
			s.queries.Kept, s.queries.First = nil, 0
		}
		s.lanes = make([]lane, s.queries.N)
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		for i := range s.lanes {
			hits.Sort(s.lanes[i].hits, in.Metric)
			out[q0+i] = hits.Found{Hits: s.lanes[i].hits, Survivors: s.lanes[i].survivors}
		}
	}
	return out, nil
}

// search is the state of a search for a block of queries.
type search struct {
	Input
	r        *device.Resources
	q0       int
	queries  device.Operand // of the current block
	dtype    kernels.DType
	progress *workers.Meter
	coded    []*coded // by part; nil: searched by tiles

	mu    sync.Mutex // protects the lanes
	lanes []lane
	open  atomic.Int32 // number of undecided queries
}

// lane is the state of a query.
type lane struct {
	hits      []kernels.Hit // heap of the best so far, the worst on top; without K, the row that is above
	survivors int64
	biased    []int32 // rows with a bias, ascending: their scores are in hits already
}

// offer adds the canonical score of a row; s.mu is held.
func (s *search) offer(l *lane, h kernels.Hit) {
	if s.K > 0 {
		l.hits = hits.Offer(l.hits, h, s.Metric, s.K)
		return
	}
	if len(l.hits) == 0 && s.Metric.Better(h.Score, s.Tau) {
		l.hits = append(l.hits, h)
		s.open.Add(-1)
	}
}

// done reports whether no further row can change a result.
func (s *search) done() bool { return s.K == 0 && s.open.Load() == 0 }

func (s *search) run(ctx context.Context) error {
	s.open.Store(int32(len(s.lanes)))
	release, err := s.r.Hold(&s.queries)
	defer release()
	if err != nil {
		return err
	}
	end, err := s.hold()
	defer end()
	if err != nil {
		return err
	}
	s.coded = make([]*coded, len(s.Parts))
	defer s.release()
	for i := range s.Parts {
		if s.coded[i], err = s.codes(ctx, &s.Parts[i]); err != nil {
			return err
		}
	}
	if err := s.biased(ctx); err != nil {
		return err
	}
	live := 0 // rows scored and not deleted: with K of them, every query has a bar
	for i := range s.Parts {
		if s.done() {
			return nil
		}
		if live, err = s.part(ctx, i, live); err != nil {
			return err
		}
	}
	return nil
}

// hold copies rows to the device as far as it has room; the others are read from the process's memory.
func (s *search) hold() (end func(), err error) {
	var ends []func()
	end = func() {
		for _, e := range ends {
			e()
		}
	}
	own := s.r.Describe().Memory
	room := int64(setShare * float64(own))
	for i := range s.Parts {
		p := &s.Parts[i]
		bytes := device.CopyBytes(p.N, p.Dim)
		switch {
		case own > 0 && p.Kept != nil && bytes > own, own > 0 && p.Kept == nil && bytes > room:
			continue
		case p.Kept == nil:
			room -= bytes
		}
		release, err := s.r.Hold(&p.Operand)
		ends = append(ends, release)
		if err != nil {
			return end, err
		}
	}
	return end, nil
}

// release ends the use of the codes.
func (s *search) release() {
	for _, c := range s.coded {
		if c != nil {
			c.end()
		}
	}
}

// part searches a part. live is the number of rows scored so far; part returns the new number.
func (s *search) part(ctx context.Context, i, live int) (int, error) {
	p, from := &s.Parts[i], 0
	if c := s.coded[i]; c != nil && s.K == 0 { // the bar is known
		return live, s.scan(ctx, p, c, 0)
	}
	for enough := max(s.K, firstRows); from < p.N && live < enough && !s.done(); {
		to := min(p.N, from+firstRows)
		if err := s.canonical(ctx, p, from, to); err != nil {
			return live, err
		}
		s.progress.Add(int64(len(s.lanes)) * int64(to-from))
		live += to - from - s.deletedIn(p.First+from, p.First+to)
		from = to
	}
	if c := s.coded[i]; c != nil {
		return live, s.scan(ctx, p, c, from)
	}
	return live, s.tiles(ctx, p, from) // from is the first row of a panel, or the end
}

// deletedIn returns how many of the rows [from, to) are deleted.
func (s *search) deletedIn(from, to int) int {
	a, _ := slices.BinarySearch(s.Deleted, from)
	b, _ := slices.BinarySearch(s.Deleted, to)
	return b - a
}

func (s *search) deleted(row int) bool {
	_, yes := slices.BinarySearch(s.Deleted, row)
	return yes
}

// Blocks of canonical scores.
const (
	blockRows  = 256
	blockLanes = 256
)

// canonical scores the rows [from, to) of p for all queries. Tasks of the pool must call block instead.
func (s *search) canonical(ctx context.Context, p *Part, from, to int) error {
	return s.r.Pool.Each(ctx, workers.Ceil(to-from, blockRows), 0, func(_, task int) error {
		r0 := from + task*blockRows
		return s.block(ctx, p, r0, min(to, r0+blockRows))
	})
}

// block scores few rows on the calling thread.
func (s *search) block(ctx context.Context, p *Part, from, to int) error {
	var out []float64
	for q0 := 0; q0 < len(s.lanes); q0 += blockLanes {
		if err := ctx.Err(); err != nil {
			return err
		}
		q1 := min(len(s.lanes), q0+blockLanes)
		if n := (q1 - q0) * (to - from); cap(out) < n {
			out = make([]float64, n)
		}
		if err := s.r.Scores(s.Metric, out[:cap(out)], to-from, s.queries.Slice(q0, q1),
			p.Slice(from, to)); err != nil {
			return err
		}
		s.mu.Lock()
		for q := q0; q < q1; q++ {
			l := &s.lanes[q]
			for i, score := range out[(q-q0)*(to-from):][:to-from] {
				s.take(l, p.First+from+i, score)
			}
			l.survivors += int64(to - from)
		}
		s.mu.Unlock()
	}
	return nil
}

// take offers a row that has no bias and is not deleted; s.mu is held.
func (s *search) take(l *lane, row int, score float64) {
	if _, has := slices.BinarySearch(l.biased, int32(row)); has || s.deleted(row) {
		return
	}
	s.offer(l, kernels.Hit{Row: row, Score: score})
}

// bar returns the score that an unbiased row must reach to matter for a query; ok is false if no row can matter. s.mu
// is held.
func (s *search) bar(l *lane) (score float64, ok bool) {
	switch {
	case s.K == 0:
		return s.Tau, len(l.hits) == 0
	case len(l.hits) < s.K: // all rows count
		return s.Metric.Worst(), true
	}
	return l.hits[0].Score, true
}

// limits returns the largest and the smallest possible tile value of two sets.
func limits(m kernels.Metric, rows, lanes device.Set, epsilon float64) (low, high float64) {
	a, b := rows.Norm(), lanes.Norm()
	switch m {
	case kernels.IP:
		return -a*b - epsilon, a*b + epsilon
	case kernels.L2:
		return -(a+b)*(a+b)/2 - epsilon, epsilon
	}
	return -1.001 - epsilon, 1.001 + epsilon
}

// value converts a score to the corresponding tile value.
func value(m kernels.Metric, score float64, rows, lanes device.Set) float64 {
	switch m {
	case kernels.IP:
		return score * rows.Scale() * lanes.Scale()
	case kernels.L2:
		if score <= 0 {
			return 0
		}
		score *= rows.Scale()
		return -score * score / 2
	}
	return score
}

// biased gives all rows that have a bias their canonical scores: tiles know nothing of biases, and the rows that have
// one are few, as a rule.
func (s *search) biased(ctx context.Context) error {
	if s.Bias == nil {
		return nil
	}
	return s.r.Pool.Each(ctx, len(s.lanes), 0, func(_, q int) error {
		b := s.Bias[s.q0+q]
		if list, ok := b.(kernels.BiasList); b == nil || ok && len(list) == 0 {
			return nil
		}
		for i := range s.Parts {
			if err := s.biasedOf(ctx, q, b, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// biasedOf is biased for one query and one part.
func (s *search) biasedOf(ctx context.Context, q int, b kernels.Biases, part int) error {
	p := &s.Parts[part]
	var rows []int32 // of the part
	var values []float64
	score := func() error {
		err := s.scoreBiased(q, part, rows, values)
		rows, values = rows[:0], values[:0]
		return err
	}
	add := func(row int, v float64) error {
		if rows, values = append(rows, int32(row-p.First)), append(values, v); len(rows) < piece {
			return nil
		}
		return score()
	}
	if list, ok := b.(kernels.BiasList); ok {
		for i, e := range list.Between(p.First, p.First+p.N) {
			if i%workers.Stretch == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := add(e.Row, e.Value); err != nil {
				return err
			}
		}
		return score()
	}
	var block [device.MaxBlock]float32
	for from := 0; from < p.N; from += len(block) {
		if err := ctx.Err(); err != nil {
			return err
		}
		out := block[:min(len(block), p.N-from)]
		largest, err := device.ReadBias(b, kernels.RowBlock{Number: -1, First: p.First + from, Len: len(out)}, out)
		if err != nil {
			return err
		}
		for i := 0; largest > 0 && i < len(out); i++ {
			if out[i] > 0 {
				if err := add(p.First+from+i, float64(out[i])); err != nil {
					return err
				}
			}
		}
	}
	return score()
}

// scoreBiased offers rows of a part with their biases, and notes that they were offered. Where the part is scanned,
// those that cannot reach the bar are left out.
func (s *search) scoreBiased(q, part int, rows []int32, values []float64) error {
	if len(rows) == 0 {
		return nil
	}
	p := &s.Parts[part]
	found, all, err := s.sift(p, s.coded[part], q, rows, values)
	if err != nil {
		return err
	}
	if all {
		out := make([]float64, len(rows))
		if err := s.r.Pairs(s.Metric, out, s.queries.Slice(q, q+1), nil, p.Rows, rows); err != nil {
			return err
		}
		for i, score := range out {
			found = append(found, device.Scored{Score: score, Row: uint32(rows[i]), At: uint32(i)})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lanes[q]
	for _, row := range rows {
		l.biased = append(l.biased, int32(p.First)+row)
	}
	l.survivors += int64(len(found))
	for _, f := range found {
		if row := p.First + int(f.Row); !s.deleted(row) {
			s.offer(l, kernels.Hit{Row: row, Score: s.Metric.Biased(f.Score, values[f.At])})
		}
	}
	return nil
}
