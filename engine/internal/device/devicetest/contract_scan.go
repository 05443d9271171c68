package devicetest

import (
	"cmp"
	"context"
	"errors"
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
