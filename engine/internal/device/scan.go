package device

import (
	"context"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// Axes are the coordinates in which rows are coded for scans: R·(c~ − origin), with c~ = c/‖c‖ for cosine and scale·c
// else. The first coordinates should have most of the variance; no result depends on that.
type Axes struct {
	Metric   kernels.Metric
	Scale    float64   // ip, l2: a power of two that brings the longest row near 1
	Rotation cpu.Rows  // R, d × d
	Skew     float64   // ≥ ‖RᵀR − I‖
	Origin   []float32 // about the mean of the rows' c~
	Turned   []float64 // R·origin
}

// Codes are rows that a device has coded for scans. Len is their number; Count and Norm are those of a set.
type Codes interface {
	Set
	Axes() *Axes
}

// ScanQueries is how many queries a scan can have at most.
const ScanQueries = 8

// ScanDim is the largest dimension of rows that are coded.
const ScanDim = 2048

// Scan reads coded rows once for a few queries.
type Scan struct {
	Codes   Codes
	Rows    cpu.Rows // that were coded, with the device's copy
	Queries cpu.Rows // with the device's copy
	Turned  []ScanQuery
	Bars    []float64 // by query: canonical score that a row must reach. NaN: none does
	// From and To are the rows that are read; or List is, for one query, with the lift of each: what it may lack of
	// the bar, as a value (Axes.Lift).
	From, To int
	List     []int32
	Lifts    []float64
	Room     int // rows that are found for a query at most, at least 1

	Found     [][]Scored // by query, in no order: all rows that reach the bar, unless Full
	Survivors []int64    // by query: rows that needed their canonical score
	Full      []bool     // by query: there were more rows than room, and Found is of no use
}

// Scored is a row with its canonical score. At is its place in the list of the scan.
type Scored struct {
	Score   float64
	Row, At uint32
}

// ScanQuery is a query in the coordinates of the rows: z·y is a row's value but for what Axes.Limit takes off.
type ScanQuery struct {
	Z      []float64 // of q~ = factor·q, for l2 of q~ − origin
	Length float64   // ≥ ‖q~‖, l2 ‖q~ − origin‖
	factor float64
	base   float64 // q~·origin; 0 for l2
	square float64 // l2: ‖q~ − origin‖²
	size   float64 // ≥ the norms of what z is the difference of
}

// tiny is more than the relative error of a sum of d products in float64, several times over.
func (x *Axes) tiny() float64 { return float64(x.Rotation.Dim+64) * 0x1p-50 }

// Query takes one finite row with its norm.
func (x *Axes) Query(host cpu.Kernels, q cpu.Rows) (s ScanQuery, err error) {
	d := x.Rotation.Dim
	s.Z, s.factor = make([]float64, d), x.Scale
	if x.Metric != kernels.L2 { // only the direction counts
		if s.factor = 0; q.Norms[0] > 0 {
			s.factor = 1 / q.Norms[0]
		}
	}
	if err := scores.Block(host, kernels.IP, s.Z, d, q, x.Rotation); err != nil {
		return s, err
	}
	origin, own := 0., 0.
	for k, v := range q.Row(0) {
		t, o := s.factor*float64(v), float64(x.Origin[k])
		origin, own = origin+o*o, own+t*t
		if x.Metric == kernels.L2 {
			s.square += (t - o) * (t - o)
		} else {
			s.base += t * o
		}
	}
	total := 0.
	for k := range s.Z {
		s.Z[k] *= s.factor
		if x.Metric == kernels.L2 {
			s.Z[k] -= x.Turned[k]
		}
		total += s.Z[k] * s.Z[k]
	}
	s.size = math.Sqrt(own) + math.Sqrt(origin) + 1
	s.Length = (math.Sqrt(total)*(1+1e-9) + x.tiny()*float64(d)*s.size) * (1 + x.Skew)
	return s, nil
}

// Far tells whether q is so far from all rows that bounds say nothing of them.
func (s *ScanQuery) Far() bool { return !(s.Length < 1e3) }

// Limit is the least value of a row whose score reaches a bar, at most: z·y ≥ limit, for l2 z·y − ½‖y‖² ≥ limit.
func (x *Axes) Limit(s *ScanQuery, bar float64) float64 {
	// The norms of rows and of the origin are at most 2.
	off := x.tiny() * float64(x.Rotation.Dim) * s.size * s.size * 16
	switch x.Metric {
	case kernels.L2:
		if bar < 0 || math.IsNaN(bar) {
			return math.Inf(1) // no distance is negative
		}
		bar *= x.Scale
		return (s.square-bar*bar)/2 - off - x.tiny()*(s.square+bar*bar)
	case kernels.IP:
		if s.factor == 0 && bar <= 0 { // every score is 0
			return math.Inf(-1)
		}
		if bar *= s.factor * x.Scale; s.factor == 0 {
			bar = math.Inf(1)
		}
	}
	if math.IsNaN(bar) {
		return math.Inf(1)
	}
	return bar - s.base - off - x.tiny()*math.Abs(bar)
}

// Lift is what a bias lets a row lack of the limit for that bar, at least.
func (x *Axes) Lift(s *ScanQuery, bar, bias float64) float64 {
	lift := bias
	switch x.Metric {
	case kernels.L2: // ((bar + b)² − bar²)/2; a negative bar counts as 0
		bar = max(bar, 0)
		lift = x.Scale * x.Scale * bias * (bar + bias/2)
	case kernels.IP:
		lift = s.factor * x.Scale * bias
	}
	return lift * (1 + 1e-9)
}

// Coded are all rows of o, coded by the device: now, or kept from before where o belongs to a prepared set. learn is
// asked for the axes of rows that are not coded yet. release ends their use. It needs the device's copy of o.
func (r *Resources) Coded(ctx context.Context, o *Operand, m kernels.Metric, scale float64, head int,
	learn func(ctx context.Context) (*Axes, error)) (c Codes, release func(), err error) {
	var in *keep
	d := Root(r.Device)
	x := &item{packing: packing{side: Left, dtype: kernels.I8, metric: m, scale: scale, head: head}, owner: o.Kept,
		device: d, bytes: CodeBytes(o.N, o.Dim)}
	if o.Kept != nil {
		o.Kept.uploads.Lock()
		defer o.Kept.uploads.Unlock()
		in = o.Kept.in(d)
	}
	if in != nil {
		if found, release := in.find(x); found != nil {
			return found.set.(Codes), release, nil
		}
		in.mu.Lock()
		in.fits(x.bytes)
		in.mu.Unlock()
	}
	axes, err := learn(ctx)
	if err != nil {
		return nil, nil, err
	}
	if c, err = r.Code(ctx, o.Rows, axes, head); err != nil {
		return nil, nil, err
	}
	if in != nil {
		x.set = c
		if end, ok := in.add(x); ok {
			return c, end, nil
		}
	}
	return c, func() { r.Free(c) }, nil
}

// CodeBytes is what codes of n rows take, with all that belongs to them.
func CodeBytes(n, dim int) int64 {
	rows := int64(workers.Ceil(n, Panel)) * Panel
	return rows * (int64(workers.Ceil(dim, 16)+1)*16 + 8 + 8 + 4)
}

// ScanHead is how many of d coordinates a scan reads first, unless it is told otherwise: about a third.
func ScanHead(d int) int { return min(d, workers.Ceil(d, 3*64)*64) }
