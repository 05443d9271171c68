package devicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// scans checks coded rows: whatever the head, a scan finds just the rows that reach the bar, with their canonical
// scores, among all, some or listed rows, at the boundary, too.
func (p *pair) scans(t *testing.T, d device.Device) {
	host, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	q, rows := p.a.Slice(0, min(p.a.N, device.ScanQueries)), p.b
	if q.Resident, err = d.Upload(q); err != nil {
		t.Fatal(err)
	}
	defer d.Release(q.Resident)
	if rows.Resident, err = d.Upload(rows); err != nil {
		t.Fatal(err)
	}
	defer d.Release(rows.Resident)
	x := p.axes()
	turned := make([]device.ScanQuery, q.N)
	for i := range turned {
		if turned[i], err = x.Query(host, p.a.Slice(i, i+1)); err != nil {
			t.Fatal(err)
		}
		if turned[i].Far() {
			return // is not scanned
		}
	}
	q.Norms = p.a.Norms[:q.N]
	for _, head := range []int{1, max(1, rows.Dim/3), rows.Dim} {
		c, err := d.Code(t.Context(), rows, x, head)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, q.N} {
			s := &device.Scan{Codes: c, Rows: rows, Queries: q.Slice(0, n), Turned: turned[:n], To: rows.N,
				Room: rows.N}
			s.From = p.rng.IntN(rows.N)
			p.scan(t, d, s)
			s.From, s.To = 0, 1+p.rng.IntN(rows.N)
			p.scan(t, d, s)
		}
		p.list(t, d, &device.Scan{Codes: c, Rows: rows, Queries: q.Slice(0, 1), Turned: turned[:1], To: rows.N,
			Room: 1})
		s := &device.Scan{Codes: c, Rows: rows, Queries: q.Slice(0, 1), Turned: turned[:1], To: rows.N, Room: 1,
			Bars: []float64{p.metric.Worst()}}
		if err := d.Scan(s); err != nil || s.Full[0] != (rows.N > 1) {
			t.Errorf("%d rows that all reach the bar, room for one: %v, full %v", rows.N, err, s.Full)
		}
		d.Free(c)
		d.Free(c) // again does nothing
		if err := d.Scan(s); !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("codes that were freed: %v", err)
		}
	}
	plain := rows
	plain.Resident = nil
	if _, err := d.Code(context.Background(), plain, x, 1); err == nil {
		t.Error("rows without a copy on the device are coded")
	}
}

// axes returns a reflection (Householder's), about a mean that is somewhat off.
func (p *pair) axes() *device.Axes {
	dim := p.b.Dim
	x := &device.Axes{Metric: p.metric, Scale: 1, Origin: make([]float32, dim), Turned: make([]float64, dim),
		Rotation: cpu.Rows{Data: make([]float32, dim*dim), N: dim, Dim: dim, Stride: dim}}
	if p.metric != kernels.Cosine {
		x.Scale = device.PowerOfTwo(p.b.Norms)
	}
	v, square := make([]float64, dim), 0.
	for k := range v {
		v[k] = p.rng.NormFloat64()
		square += v[k] * v[k]
		x.Origin[k] = float32(p.rng.NormFloat64() / math.Sqrt(float64(dim)) / 4)
	}
	for i := range dim {
		for j := range dim {
			r := -2 * v[i] * v[j] / square
			if i == j {
				r++
			}
			x.Rotation.Data[i*dim+j] = float32(r)
		}
	}
	for i := range dim {
		x.Turned[i] = ref.Dot(x.Rotation.Row(i), x.Origin)
		for j := range dim {
			e := ref.Dot(x.Rotation.Row(i), x.Rotation.Row(j))
			if i == j {
				e--
			}
			x.Skew += e * e
		}
	}
	x.Skew = math.Sqrt(x.Skew)*(1+1e-9) + 1e-13*float64(dim*dim)
	return x
}

// scan sets bars that are some row's score, or the next number on either side of it, and compares what is found.
func (p *pair) scan(t *testing.T, d device.Device, s *device.Scan) {
	t.Helper()
	s.Bars = s.Bars[:0]
	for q := range s.Queries.N {
		bar := p.score(q, p.rng.IntN(s.Rows.N))
		switch p.rng.IntN(6) {
		case 0:
			bar = math.Nextafter(bar, math.Inf(1))
		case 1:
			bar = math.Nextafter(bar, math.Inf(-1))
		case 2:
			bar = p.metric.Worst()
		case 3:
			if s.Queries.N > 1 {
				bar = math.NaN()
			}
		}
		s.Bars = append(s.Bars, bar)
	}
	if err := d.Scan(s); err != nil {
		t.Fatal(err)
	}
	for q, bar := range s.Bars {
		var want []device.Scored
		for row := s.From; row < s.To; row++ {
			if score := p.score(q, row); !math.IsNaN(bar) && !p.metric.Better(bar, score) {
				want = append(want, device.Scored{Score: score, Row: uint32(row)})
			}
		}
		got := slices.Clone(s.Found[q])
		for i := range got {
			got[i].At = 0
		}
		slices.SortFunc(got, func(a, b device.Scored) int { return cmp.Compare(a.Row, b.Row) })
		if s.Full[q] || !slices.Equal(got, want) || s.Survivors[q] < int64(len(want)) {
			t.Fatalf("query %d of %d, rows [%d, %d), bar %v: found %v (full %v, %d survivors), want %v", q, s.Queries.N,
				s.From, s.To, bar, got, s.Full[q], s.Survivors[q], want)
		}
	}
}

// list looks at listed rows with lifts: all that reach the bar with their bias are found.
func (p *pair) list(t *testing.T, d device.Device, s *device.Scan) {
	t.Helper()
	bar := p.score(0, p.rng.IntN(s.Rows.N))
	s.Bars, s.List = []float64{bar}, []int32{}
	var biases []float64
	for row := range s.Rows.N {
		if p.rng.IntN(3) == 0 {
			continue
		}
		bias := p.rng.Float64() * math.Abs(bar)
		s.List, biases = append(s.List, int32(row)), append(biases, bias)
		s.Lifts = append(s.Lifts, s.Codes.Axes().Lift(&s.Turned[0], bar, bias))
	}
	if err := d.Scan(s); err != nil {
		t.Fatal(err)
	}
	found := map[uint32]float64{}
	for _, f := range s.Found[0] {
		if int(f.At) >= len(s.List) || uint32(s.List[f.At]) != f.Row || f.Score != p.score(0, int(f.Row)) {
			t.Fatalf("%+v of the list %v", f, s.List)
		}
		found[f.Row] = f.Score
	}
	for i, row := range s.List {
		reaches := !p.metric.Better(bar, p.metric.Biased(p.score(0, int(row)), biases[i]))
		if _, ok := found[uint32(row)]; reaches && !ok {
			t.Fatalf("row %d, score %v, bias %v, is not found; the bar is %v", row, p.score(0, int(row)), biases[i],
				bar)
		}
	}
}

// scanOff is the largest deliberate error of the values of a scan of the stand-in.
const scanOff = 3e-3

// codes are the rows' coordinates in float64, with values that are off.
type codes struct {
	*set
	axes *device.Axes
}

func (c *codes) Axes() *device.Axes { return c.axes }

func (d *StandIn) HasScan() bool { return true }

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
