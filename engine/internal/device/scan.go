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

// Codes is a set of rows that a device has coded for scans. Len is the number of rows; Count and Norm are as in Set.
type Codes interface {
	Set
	Axes() *Axes
}

// ScanQueries is the largest number of queries of a scan.
const ScanQueries = 8

// ScanDim is the largest dimension of coded rows.
const ScanDim = 2048

// Scan reads coded rows once for a small number of queries.
type Scan struct {
	Codes   Codes
	Rows    cpu.Rows // the rows that were coded, with the device's copy
	Queries cpu.Rows // with the device's copy
	Turned  []ScanQuery
	Bars    []float64 // by query: canonical score that a row must reach; NaN: no row can
	// The scan reads the rows [From, To), or for a single query the rows of List, each with its lift: by how much its
	// value may fall short of the bar (Axes.Lift).
	From, To int
	List     []int32
	Lifts    []float64
	Room     int // capacity per query for rows that are found, at least 1

	Found     [][]Scored // by query, unordered: all rows that reach the bar, unless Full
	Survivors []int64    // by query: rows that needed their canonical score
	Full      []bool     // by query: more rows than Room were found, and Found must not be used
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
	size   float64 // ≥ the norms of the two vectors whose difference is z
}

// tiny returns several times the largest relative error of a float64 sum of d products.
func (x *Axes) tiny() float64 { return float64(x.Rotation.Dim+64) * 0x1p-50 }

// Query prepares one finite row with its norm.
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

// Far reports whether q is so far from all rows that the bounds rule out nothing.
func (s *ScanQuery) Far() bool { return !(s.Length < 1e3) }

// Limit returns a lower bound of the values of rows whose score reaches the bar: z·y ≥ limit, for l2 z·y − ½‖y‖² ≥
// limit.
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

// Lift returns by how much a row with the given bias may fall short of the limit for that bar.
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

// Coded returns codes of all rows of o. They are computed by the device, unless o belongs to a prepared set that has
// them. learn is called to obtain the axes if the rows are not coded yet. release ends the use of the codes. The
// device must hold a copy of o.
func (r *Resources) Coded(ctx context.Context, o *Operand, m kernels.Metric, scale float64, head int,
	learn func(ctx context.Context) (*Axes, error)) (c Codes, release func(), err error) {
	if o.Kept != nil {
		o.Kept.uploads.Lock()
		defer o.Kept.uploads.Unlock()
	}
	x := &item{packing: packing{side: Left, dtype: kernels.I8, metric: m, scale: scale, head: head},
		bytes: CodeBytes(o.N, o.Dim)}
	x, release, err = r.obtain(o, x, func() error {
		axes, err := learn(ctx)
		if err != nil {
			return err
		}
		codes, err := r.Code(ctx, o.Rows, axes, head)
		if err == nil {
			x.set = codes
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return x.set.(Codes), release, nil
}

// CodeBytes returns the memory of the codes of n rows, including everything that is stored with them.
func CodeBytes(n, dim int) int64 {
	rows := int64(workers.Ceil(n, Panel)) * Panel
	return rows * (int64(workers.Ceil(dim, 16)+1)*16 + 8 + 8 + 4)
}

// ScanHead returns the default number of coordinates, of d, that a scan reads first: about a third.
func ScanHead(d int) int { return min(d, workers.Ceil(d, 3*64)*64) }
