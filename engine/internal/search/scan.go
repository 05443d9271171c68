package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/axes"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// Sizes of scans.
const (
	ScanRows    = 1 << 16 // rows of a part from which it is scanned if there are few queries
	scanLanes   = 16      // largest number of queries: tiles read the rows only once for more of them
	scanGrowth  = 32      // factor by which each step of a search for the k best is larger than all rows read so far
	scanRoom    = 1 << 20 // largest number of rows found in one scan
	sampleRows  = 16384   // rows that axes are learned from
	fewBiased   = 1 << 10 // up to this many biased rows, all of them get canonical scores
	learnedSeed = 0x5ca7
)

// scanned reports whether p is scanned: its rows stay on the device and there are few queries.
func (s *search) scanned(p *Part) bool {
	rows := s.ScanRows
	if rows == 0 {
		rows = ScanRows
	}
	return s.r.HasScan() && len(s.lanes) <= scanLanes && p.Kept != nil && p.Resident != nil && p.N >= rows &&
		p.Dim <= device.ScanDim && s.queries.Resident != nil && !(s.Metric != kernels.Cosine && !(p.Largest < 1e30))
}

// codes returns the codes of a part and the queries in their coordinates; nil if p is not scanned.
func (s *search) codes(ctx context.Context, p *Part) (*coded, error) {
	if !s.scanned(p) {
		return nil, nil
	}
	scale := 1.
	if s.Metric != kernels.Cosine {
		scale = device.PowerOfTwo([]float64{p.Largest})
	}
	head := s.Head
	if head == 0 {
		head = device.ScanHead(p.Dim)
	}
	c, end, err := s.r.Coded(ctx, &p.Operand, s.Metric, scale, min(head, p.Dim),
		func(ctx context.Context) (*device.Axes, error) { return s.learn(ctx, p, scale) })
	if err != nil {
		return nil, err
	}
	out := &coded{Codes: c, end: end, queries: make([]device.ScanQuery, len(s.lanes))}
	for q := range out.queries {
		if out.queries[q], err = c.Axes().Query(s.r.Host, s.queries.Slice(q, q+1)); err != nil {
			end()
			return nil, err
		}
		out.far = out.far || out.queries[q].Far()
	}
	if out.far {
		end()
		return nil, nil
	}
	return out, nil
}

// coded holds a part's codes for a search.
type coded struct {
	device.Codes
	end     func()
	queries []device.ScanQuery
	far     bool
}

// learn computes the axes of a part from a sample of its rows.
func (s *search) learn(ctx context.Context, p *Part, scale float64) (*device.Axes, error) {
	n, d := min(p.N, sampleRows), p.Dim
	x := &device.Axes{Metric: s.Metric, Scale: scale, Origin: make([]float32, d), Turned: make([]float64, d)}
	sample := cpu.Rows{Data: make([]float32, n*d), N: n, Dim: d, Stride: d}
	mean := make([]float64, d)
	for i := range n {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		row := int(int64(i) * int64(p.N) / int64(n))
		factor := scale
		if s.Metric == kernels.Cosine {
			if factor = 0; p.Norms[row] > 0 {
				factor = 1 / p.Norms[row]
			}
		}
		for k, v := range p.Row(row) {
			y := factor * float64(v)
			sample.Data[i*d+k] = float32(y)
			mean[k] += y / float64(n)
		}
	}
	for k, v := range mean {
		x.Origin[k] = float32(v)
	}
	rng := rand.New(rand.NewPCG(learnedSeed, uint64(d)))
	quiet := *s.r
	quiet.Report = nil
	var err error
	if x.Rotation, x.Skew, err = axes.Learn(ctx, &quiet, sample, rng); err != nil {
		return nil, err
	}
	return x, scores.Block(s.r.Host, kernels.IP, x.Turned, d, cpu.Rows{Data: x.Origin, N: 1, Dim: d, Stride: d},
		x.Rotation)
}

// scan goes over the rows of p from first on. A decision reads them all at once. A search for the k best reads them in
// growing steps, each with the bars that earlier steps have found.
func (s *search) scan(ctx context.Context, p *Part, c *coded, first int) error {
	for from := first; from < p.N && !s.done(); {
		to := p.N
		if s.K > 0 {
			to = min(p.N, scanGrowth*max(from, firstRows))
		}
		for q0 := 0; q0 < len(s.lanes); q0 += device.ScanQueries {
			if err := s.scanRange(ctx, p, c, q0, min(len(s.lanes), q0+device.ScanQueries), from, to); err != nil {
				return err
			}
		}
		s.progress.Add(int64(len(s.lanes)) * int64(to-from))
		from = to
	}
	return nil
}

// scanRange scans the rows [from, to) for some queries. If more rows are found for a query than there is room for, the
// range is halved.
func (s *search) scanRange(ctx context.Context, p *Part, c *coded, q0, q1, from, to int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	scan := &device.Scan{Codes: c.Codes, Rows: p.Rows, Queries: s.queries.Slice(q0, q1), Turned: c.queries[q0:q1],
		Bars: s.bars(q0, q1), From: from, To: to, Room: scanRoom}
	if !slices.ContainsFunc(scan.Bars, func(bar float64) bool { return !math.IsNaN(bar) }) {
		return nil
	}
	if err := s.r.Scan(scan); err != nil {
		return err
	}
	for q := q0; q < q1; q++ {
		if scan.Full[q-q0] {
			middle := (from + to) / 2
			if err := s.scanRange(ctx, p, c, q, q+1, from, middle); err != nil {
				return err
			}
			if err := s.scanRange(ctx, p, c, q, q+1, middle, to); err != nil {
				return err
			}
			continue
		}
		found := scan.Found[q-q0]
		slices.SortFunc(found, func(a, b device.Scored) int { return int(a.Row) - int(b.Row) })
		s.mu.Lock()
		l := &s.lanes[q]
		l.survivors += scan.Survivors[q-q0]
		for _, f := range found {
			s.take(l, p.First+int(f.Row), f.Score)
		}
		s.mu.Unlock()
	}
	return nil
}

// bars returns the bars of some queries; NaN if no row can matter for a query.
func (s *search) bars(q0, q1 int) []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	bars := make([]float64, q1-q0)
	for i := range bars {
		bar, ok := s.bar(&s.lanes[q0+i])
		if bars[i] = bar; !ok {
			bars[i] = math.NaN()
		}
	}
	return bars
}

// sift takes rows with biases for query q and returns those that may reach its bar with their bias, with their
// canonical scores. all is false if every row has to be scored.
func (s *search) sift(p *Part, c *coded, q int, rows []int32, values []float64) (left []device.Scored, all bool,
	err error) {
	bar := s.bars(q, q+1)[0]
	if c == nil || len(rows) < fewBiased || math.IsInf(bar, 0) {
		return nil, true, nil
	}
	if math.IsNaN(bar) {
		return nil, false, nil
	}
	query := &c.queries[q]
	lifts := make([]float64, len(values))
	for i, b := range values {
		lifts[i] = c.Axes().Lift(query, bar, b)
	}
	scan := &device.Scan{Codes: c.Codes, Rows: p.Rows, Queries: s.queries.Slice(q, q+1), Turned: c.queries[q : q+1],
		Bars: []float64{bar}, List: rows, Lifts: lifts, Room: max(1, len(rows))}
	if err := s.r.Scan(scan); err != nil {
		return nil, false, err
	}
	return scan.Found[0], false, nil
}
