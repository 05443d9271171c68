package search

import (
	"context"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// tiles goes over the rows of p from first on, which is the first row of a panel. They are packed as a whole, which a
// prepared set keeps, or as many at a time as fit in memory.
func (s *search) tiles(ctx context.Context, p *Part, first int) error {
	if first >= p.N || s.done() {
		return nil
	}
	scale := 1.
	if s.Metric != kernels.Cosine {
		scale = device.PowerOfTwo([]float64{p.Largest})
	}
	longest := device.PowerOfTwo(s.queries.Norms) // its inverse is about the longest query's norm
	if s.Metric == kernels.L2 && !(scale < 0x1p40*longest) {
		return s.canonical(ctx, p, first, p.N) // all distances are nearly equal
	}
	lanes, end, err := s.r.Packed(ctx, &s.queries, device.Right, s.dtype, s.Metric, s.laneScale(scale), nil)
	if err != nil {
		return err
	}
	defer end()
	room := int64(setShare * float64(s.r.SetMemory()))
	if s.r.Bytes(s.dtype, p.N, p.Dim) <= room {
		rows, end, err := s.r.Packed(ctx, &p.Operand, device.Left, s.dtype, s.Metric, scale, nil)
		if err != nil {
			return err
		}
		defer end()
		return s.set(ctx, p, 0, first/device.Panel, rows, lanes)
	}
	step := max(device.Panel, int(room/max(1, s.r.Bytes(s.dtype, device.Panel, p.Dim)))*device.Panel)
	for from := first; from < p.N && !s.done(); from += step {
		piece := p.Operand
		piece.Rows, piece.Kept = p.Slice(from, min(p.N, from+step)), nil
		rows, end, err := s.r.Packed(ctx, &piece, device.Left, s.dtype, s.Metric, scale, nil)
		if err != nil {
			return err
		}
		err = s.set(ctx, p, from, 0, rows, lanes)
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

// laneScale returns the scale of the queries: distances need the same scale on both sides.
func (s *search) laneScale(rows float64) float64 {
	switch s.Metric {
	case kernels.IP:
		return device.PowerOfTwo(s.queries.Norms)
	case kernels.L2:
		return rows
	}
	return 1
}

// set goes over the panels of a packed set, starting at panel; the set's first row is row first of p.
func (s *search) set(ctx context.Context, p *Part, first, panel int, rows, lanes device.Set) error {
	t := &tiling{search: s, p: p, first: first, rows: rows, lanes: lanes, epsilon: s.r.Bound(rows, lanes)}
	t.low, t.high = limits(s.Metric, rows, lanes, t.epsilon)
	t.slack = rounding * (t.high - t.low)
	if !(t.high-t.low < 1e30) { // too large for float32
		return s.canonical(ctx, p, first+panel*device.Panel, first+rows.Len())
	}
	work := float64(lanes.Count()*device.Panel*device.Panel) * float64(rows.Dimension())
	step := workers.Clamp(int(float64(s.r.Describe().CountWork)/work), minTask, device.MaxSide)
	return s.r.Pool.Each(ctx, workers.Ceil(rows.Count()-panel, step), 0, func(_, task int) error {
		row0 := panel + task*step
		row1 := min(rows.Count(), row0+step)
		if s.done() {
			return nil
		}
		if err := t.count(ctx, row0, row1); err != nil {
			return err
		}
		s.progress.Add(int64(len(s.lanes)) * int64(min(rows.Len(), row1*device.Panel)-row0*device.Panel))
		return nil
	})
}

// tiling is a set of rows together with the queries.
type tiling struct {
	*search
	p           *Part
	first       int // row of p that is the first of the set
	rows, lanes device.Set
	epsilon     float64
	low, high   float64 // of tile values
	slack       float64 // rounding error of bars in float32
}

// count finds candidates among the panels [row0, row1). If there are more than fit, the range is halved.
func (t *tiling) count(ctx context.Context, row0, row1 int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if row1-row0 <= minTask {
		return t.block(ctx, t.p, t.first+row0*device.Panel, t.first+min(t.rows.Len(), row1*device.Panel))
	}
	c := t.wanted(row1 - row0)
	if c == nil {
		return nil
	}
	if err := t.r.Count(c, t.rows, row0, row1, t.lanes, 0, t.lanes.Count()); err != nil {
		return err
	}
	if c.OtherFull {
		middle := (row0 + row1) / 2
		if err := t.count(ctx, row0, middle); err != nil {
			return err
		}
		return t.count(ctx, middle, row1)
	}
	return t.settle(ctx, c.Other, row0)
}

// wanted returns a count of pairs whose score may reach their query's bar; nil if all queries are decided.
//
// A device lists the pairs that come within Margin of the best value so far of their query. Here this value is not the
// value of a pair but the bar, raised above all possible values by the amount that Margin is larger. It therefore
// never changes during the count, and each query keeps its own bar.
func (t *tiling) wanted(panels int) *device.Count {
	width := t.lanes.Count() * device.Panel
	bars, lowest := make([]float64, width), t.high
	t.mu.Lock()
	open := false
	for i := range bars {
		bars[i] = t.high
		if i >= len(t.search.lanes) {
			continue
		}
		if score, ok := t.bar(&t.search.lanes[i]); ok && !(t.Metric == kernels.L2 && score <= 0 && t.K == 0) {
			bars[i] = min(max(value(t.Metric, score, t.rows, t.lanes), t.low), t.high)
			open = true
		}
		lowest = min(lowest, bars[i])
	}
	t.mu.Unlock()
	if !open {
		return nil
	}
	shift := t.high - lowest
	c := &device.Count{Min: float32(math.Inf(-1)), Max: float32(math.Inf(1)), Own: make([]int32, width),
		BestOther: make([]float32, width), BestAll: make([]float32, width)}
	c.Margin = -scan.Down(-(shift + t.epsilon + t.slack))
	for i, bar := range bars {
		c.Own[i] = -1
		c.BestOther[i] = -scan.Down(-(bar + shift))
		c.BestAll[i] = c.BestOther[i]
	}
	expected := spare + len(t.search.lanes)*(16+2*max(1, t.K)*panels*device.Panel/firstRows)
	c.Other = make([]device.Entry, 0, min(expected, 1<<22, len(t.search.lanes)*panels*device.Panel+1))
	return c
}

// settle computes the canonical scores of candidates; row0 is the panel that their rows are counted from.
func (t *tiling) settle(ctx context.Context, found []device.Entry, row0 int) error {
	var lanes, rows []int32
	base := t.first + row0*device.Panel // row of the part
	for len(found) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(piece, len(found))
		lanes, rows = lanes[:0], rows[:0]
		t.mu.Lock()
		for _, e := range found[:n] {
			q, row := int(e.At&0xffff), base+int(e.At>>16)
			if q < len(t.search.lanes) && row < t.p.N && t.matters(q, e.Value) {
				lanes, rows = append(lanes, int32(q)), append(rows, int32(row))
			}
		}
		t.mu.Unlock()
		if err := t.score(t.p, lanes, rows); err != nil {
			return err
		}
		found = found[n:]
	}
	return nil
}

// matters reports whether a value may still reach the bar, which may have risen since the count; t.mu is held.
func (t *tiling) matters(q int, v float32) bool {
	score, ok := t.bar(&t.search.lanes[q])
	return ok && float64(v) >= value(t.Metric, score, t.rows, t.lanes)-t.epsilon-t.slack
}

// score offers the canonical scores of pairs of queries of the block and rows of the part.
func (s *search) score(p *Part, lanes, rows []int32) error {
	if len(rows) == 0 {
		return nil
	}
	out := make([]float64, len(rows))
	if err := s.r.Pairs(s.Metric, out, s.queries.Rows, lanes, p.Rows, rows); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, score := range out {
		l := &s.lanes[lanes[i]]
		l.survivors++
		s.take(l, p.First+int(rows[i]), score)
	}
	return nil
}
