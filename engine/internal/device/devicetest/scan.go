package devicetest

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// scanOff is the largest deliberate error of the values of a scan of the stand-in.
const scanOff = 3e-3

// codes are the rows' coordinates in float64, with values that are off.
type codes struct {
	*set
	axes *device.Axes
}

// Axes implements device.Codes.
func (c *codes) Axes() *device.Axes { return c.axes }

// HasScan implements device.Device.
func (d *StandIn) HasScan() bool { return true }

// Code implements device.Device.
func (d *StandIn) Code(_ context.Context, rows cpu.Rows, x *device.Axes, head int) (device.Codes, error) {
	leave, err := d.enter("Code")
	if err != nil {
		return nil, err
	}
	defer leave()
	if rows.Dim != x.Rotation.Dim || head < 1 || head > rows.Dim || rows.Resident == nil {
		return nil, fmt.Errorf("%w: codes of %d×%d rows, %d first", kernels.ErrShape, rows.N, rows.Dim, head)
	}
	if err := d.fits(device.CodeBytes(rows.N, rows.Dim)); err != nil {
		return nil, err
	}
	s := &set{owner: d, dtype: kernels.I8, metric: x.Metric, n: rows.N, dim: rows.Dim, scale: x.Scale,
		rows: make([]float64, rows.N*rows.Dim)}
	for i := range rows.N {
		factor := x.Scale
		if x.Metric == kernels.Cosine {
			if factor = 0; rows.Norms[i] > 0 {
				factor = 1 / rows.Norms[i]
			}
		}
		square := 0.
		for j := range rows.Dim {
			y := -x.Turned[j]
			for k, v := range rows.Row(i) {
				y += factor * float64(v) * float64(x.Rotation.Row(j)[k])
			}
			s.row(i)[j] = y
			square += y * y
		}
		s.norm = max(s.norm, math.Sqrt(square)*(1+1e-9))
	}
	d.live.Add(1)
	d.take(d.Bytes(s.dtype, s.n, s.dim))
	return &codes{s, x}, nil
}

// Scan implements device.Device.
func (d *StandIn) Scan(s *device.Scan) error {
	leave, err := d.enter("Scan")
	if err != nil {
		return err
	}
	defer leave()
	c, ok := s.Codes.(*codes)
	if !ok || c.owner != d {
		return fmt.Errorf("%w: %w", kernels.ErrArgument, errForeign)
	}
	n := s.Queries.N
	s.Found, s.Survivors, s.Full = make([][]device.Scored, n), make([]int64, n), make([]bool, n)
	rows, lifts := s.List, s.Lifts
	if rows == nil {
		for row := s.From; row < s.To; row++ {
			rows = append(rows, int32(row))
		}
		lifts = make([]float64, len(rows))
	}
	for q := range n {
		if err := d.scanOne(s, c, q, rows, lifts); err != nil {
			return err
		}
	}
	return nil
}

// scanOne looks at listed rows for query q.
func (d *StandIn) scanOne(s *device.Scan, c *codes, q int, rows []int32, lifts []float64) error {
	t := &s.Turned[q]
	limit := c.axes.Limit(t, s.Bars[q])
	size := t.Length*c.norm + c.norm*c.norm
	if !math.IsInf(limit, 0) {
		limit -= (scanOff + 1.1*c.axes.Skew + 1e-12) * size
	}
	var left []int32
	var at []uint32
	for i, row := range rows {
		x, square := 0., 0.
		for k, y := range c.row(int(row)) {
			x, square = x+t.Z[k]*y, square+y*y
		}
		if c.metric == kernels.L2 {
			x -= square / 2
		}
		x += scanOff * size * float64(int64(mix(uint64(row)+uint64(q)<<40))) / (1 << 63)
		if x+lifts[i] >= limit {
			left, at = append(left, row), append(at, uint32(i))
		}
	}
	s.Survivors[q] = int64(len(left))
	if s.Full[q] = s.List == nil && len(left) > s.Room; s.Full[q] || len(left) == 0 {
		return nil
	}
	scores := make([]float64, len(left))
	if err := d.pairs(c.metric, scores, s.Queries.Slice(q, q+1), nil, s.Rows, left); err != nil {
		return err
	}
	for i, score := range scores {
		if s.List != nil || !c.metric.Better(s.Bars[q], score) {
			s.Found[q] = append(s.Found[q], device.Scored{Score: score, Row: uint32(left[i]), At: at[i]})
		}
	}
	return nil
}
