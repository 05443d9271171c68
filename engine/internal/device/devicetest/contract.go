package devicetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Contract checks that a device does what device.Device says, on small and nasty sets. Whatever passes it fits
// under every operation.
func Contract(t *testing.T, d device.Device) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		for _, shape := range [][3]int{{1, 1, 1}, {33, 70, 9}, {65, 32, 64}, {40, 130, 130}} {
			p := newPair(t, rng, metric, shape[0], shape[1], shape[2])
			t.Run(fmt.Sprintf("%s %v", metric, shape), func(t *testing.T) {
				p.canonical(t, d)
				for dtype := kernels.F32; dtype < kernels.DTypes; dtype++ {
					if d.Has(dtype) {
						p.tiles(t, d, dtype)
					}
				}
				if d.HasScan() {
					p.scans(t, d)
				}
			})
		}
	}
	for _, dtype := range []kernels.DType{kernels.I8, kernels.FP8} {
		if d.Has(dtype) {
			t.Run("codes "+dtype.String(), func(t *testing.T) { hostileCodes(t, d, dtype) })
		}
	}
	foreign(t, d)
}

// pair is two sets and the canonical scores between them.
type pair struct {
	rng    *rand.Rand
	metric kernels.Metric
	a, b   cpu.Rows
	scores []float64 // [row of a][row of b]
}

func newPair(t *testing.T, rng *rand.Rand, metric kernels.Metric, m, n, dim int) *pair {
	t.Helper()
	p := &pair{rng: rng, metric: metric, scores: make([]float64, m*n)}
	for _, side := range []struct {
		rows *cpu.Rows
		n    int
	}{{&p.a, m}, {&p.b, n}} {
		v := testvectors.Any(rng, side.n, dim, dim+rng.IntN(3))
		*side.rows = cpu.Rows{Data: v.Data, N: v.Rows, Dim: v.Dim, Stride: v.Stride}
	}
	p.reference()
	return p
}

// reference computes norms and scores.
func (p *pair) reference() {
	for _, rows := range []*cpu.Rows{&p.a, &p.b} {
		for i := range rows.N {
			rows.Norms = append(rows.Norms, ref.Norm(rows.Row(i)))
		}
	}
	for i := range p.scores {
		p.scores[i] = ref.Score(p.metric, p.a.Row(i/p.b.N), p.b.Row(i%p.b.N))
	}
}

func (p *pair) score(i, j int) float64 { return p.scores[i*p.b.N+j] }

// resident runs fn on rows in the process's memory, and on the device's copies if it makes such.
func (p *pair) resident(t *testing.T, d device.Device, fn func(a, b cpu.Rows)) {
	t.Helper()
	fn(p.a, p.b)
	a, b := p.a, p.b
	var err error
	if a.Resident, err = d.Upload(a); err != nil {
		t.Fatal(err)
	}
	defer d.Release(a.Resident)
	if b.Resident, err = d.Upload(b); err != nil {
		t.Fatal(err)
	}
	defer d.Release(b.Resident)
	fn(a, b)
	fn(a, p.b)
}

// canonical scores have the reference's bits, of whole sets, of views and of pairs.
func (p *pair) canonical(t *testing.T, d device.Device) {
	p.resident(t, d, func(a, b cpu.Rows) {
		i0, j0 := p.rng.IntN(a.N), p.rng.IntN(b.N)
		for _, from := range [][2]int{{0, 0}, {i0, j0}} {
			x, y := a.Slice(from[0], a.N), b.Slice(from[1], b.N)
			stride := y.N + 2
			out := make([]float64, x.N*stride)
			if err := d.Scores(p.metric, out, stride, x, y); err != nil {
				t.Fatal(err)
			}
			for i := range x.N {
				for j := range y.N {
					if want := p.score(from[0]+i, from[1]+j); out[i*stride+j] != want {
						t.Fatalf("score of %d, %d from %v on: %v, want %v", i, j, from, out[i*stride+j], want)
					}
				}
			}
			var rowsA, rowsB []int32
			for range 50 {
				rowsA, rowsB = append(rowsA, p.rng.Int32N(int32(x.N))), append(rowsB, p.rng.Int32N(int32(y.N)))
			}
			for _, list := range [][]int32{rowsA, nil} {
				one := x
				if list == nil {
					one = x.Slice(0, 1)
				}
				if err := d.Pairs(p.metric, out[:0:0], one, nil, y, nil); err != nil && one.N == 1 {
					t.Fatalf("no pairs: %v", err)
				}
				got := make([]float64, len(rowsB))
				if err := d.Pairs(p.metric, got, one, list, y, rowsB); err != nil {
					t.Fatal(err)
				}
				for k := range got {
					i := 0
					if list != nil {
						i = int(list[k])
					}
					if want := p.score(from[0]+i, from[1]+int(rowsB[k])); got[k] != want {
						t.Fatalf("pair %d, %d from %v on: %v, want %v", i, rowsB[k], from, got[k], want)
					}
				}
			}
		}
		if err := d.Pairs(p.metric, make([]float64, 1), a, []int32{int32(a.N)}, b,
			[]int32{0}); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("a row beyond the last: %v", err)
		}
	})
}

// scales brings the largest vectors near 1.
func (p *pair) scales() (a, b float64) {
	switch p.metric {
	case kernels.Cosine:
		return 1, 1
	case kernels.L2:
		s := min(device.PowerOfTwo(p.a.Norms), device.PowerOfTwo(p.b.Norms))
		return s, s
	}
	return device.PowerOfTwo(p.a.Norms), device.PowerOfTwo(p.b.Norms)
}

// tiles checks sets in one format: values and stored scores within the bound, and what Count finds.
func (p *pair) tiles(t *testing.T, d device.Device, dtype kernels.DType) {
	scaleA, scaleB := p.scales()
	order := make([]int32, p.b.N)
	for i, j := range p.rng.Perm(p.b.N) {
		order[i] = int32(j)
	}
	p.resident(t, d, func(a, b cpu.Rows) {
		rows, err := d.New(device.Left, dtype, p.metric, a.N, a.Dim, scaleA)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Free(rows)
		lanes, err := d.New(device.Right, dtype, p.metric, b.N, b.Dim, scaleB)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Free(lanes)
		if rows.Len() != a.N || rows.Count() != (a.N+device.Panel-1)/device.Panel || rows.Dimension() != a.Dim ||
			rows.Scale() != scaleA {
			t.Fatalf("a set of %d vectors in %d panels of dimension %d, scale %v", rows.Len(), rows.Count(),
				rows.Dimension(), rows.Scale())
		}
		if err := d.Pack(rows, a, nil, 0, rows.Count()); err != nil {
			t.Fatal(err)
		}
		half := lanes.Count() / 2 // in two calls, in any order
		if err := errors.Join(d.Pack(lanes, b, order, half, lanes.Count()),
			d.Pack(lanes, b, order, 0, half)); err != nil {
			t.Fatal(err)
		}
		p.matrix(t, d, rows, lanes, order)
		c := &checked{pair: p, d: d, rows: rows, lanes: lanes, order: order, epsilon: d.Bound(rows, lanes)}
		c.all(t)
		for range 4 {
			c.some(t)
		}
	})
}

// matrix checks stored scores against the bound in the metric's unit.
func (p *pair) matrix(t *testing.T, d device.Device, rows, lanes device.Set, order []int32) {
	stride := p.b.N + 1
	out := make([]float32, p.a.N*stride)
	if err := d.Matrix(out, stride, rows, 0, rows.Count(), lanes, 0, lanes.Count()); err != nil {
		t.Fatal(err)
	}
	epsilon := d.Bound(rows, lanes)
	for i := range p.a.N {
		for j := range p.b.N {
			got, want := float64(out[i*stride+j]), p.score(i, int(order[j]))
			slack := 0x1p-22*math.Abs(want) + 0x1p-140
			switch p.metric {
			case kernels.Cosine:
				slack += epsilon
			case kernels.IP:
				slack += epsilon / rows.Scale() / lanes.Scale()
			default:
				slack += math.Sqrt(2*epsilon) / rows.Scale()
			}
			if !(math.Abs(got-want) <= slack) && !(math.IsInf(got, 0) && math.Abs(want)+slack > math.MaxFloat32) {
				t.Fatalf("stored score of %d, %d: %v, want %v ± %v", i, j, got, want, slack)
			}
		}
	}
	if d.Matrix(out, stride, rows, 0, rows.Count()+1, lanes, 0, 1) == nil {
		t.Error("a panel beyond the last is no error")
	}
}

// foreign sets, freed sets and freed copies are refused.
func foreign(t *testing.T, d device.Device) {
	if _, err := d.New(device.Left, kernels.DType(99), kernels.IP, 1, 1, 1); err == nil || d.Has(99) {
		t.Errorf("an unknown format: %v", err)
	}
	s, err := d.New(device.Left, kernels.F32, kernels.IP, 5, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := cpu.Rows{Data: make([]float32, 20), N: 5, Dim: 4, Stride: 4}
	if err := d.Pack(s, rows, nil, 0, 2); err == nil {
		t.Error("a panel beyond the last is packed")
	}
	if err := d.Pack(s, rows.Slice(0, 4), nil, 0, 1); err == nil {
		t.Error("five vectors are packed from four rows")
	}
	if err := d.Pack(nil, rows, nil, 0, 1); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("no set: %v", err)
	}
	d.Free(s)
	d.Free(s) // again does nothing
	if err := d.Pack(s, rows, nil, 0, 1); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("a freed set: %v", err)
	}
	copied, err := d.Upload(rows)
	if err != nil {
		t.Fatal(err)
	}
	d.Release(copied)
	d.Release(nil)
	if copied == nil {
		return // the device reads the process's memory
	}
	rows.Resident = copied
	if err := d.Scores(kernels.IP, make([]float64, 25), 5, rows, rows); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("a copy that was given back: %v", err)
	}
	if !slices.Contains([]string{"cpu", "stand-in"}, d.Describe().Name) && d.Describe().Memory == 0 {
		t.Error("a device with copies has memory of its own")
	}
}

// hostileCodes checks a format of eight bits with a step for each vector on vectors that are made against it: stored
// scores are within the bound, and where all of the rounding goes one way, they come near it.
func hostileCodes(t *testing.T, d device.Device, dtype kernels.DType) {
	for _, dim := range []int{1, 31, 33, 384, 768} {
		for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
			all := hostile(dtype, dim)
			madeOf(metric, all, all).within(t, d, dtype)
			if metric != kernels.IP || dim == 1 {
				continue
			}
			for _, c := range []struct {
				a, b  int
				least float64 // of the bound
			}{{0, 1, .7}, {2, 3, .7}, {4, 4, 0}, {4, 5, 0}, {11, 3, 0}} { // each has a bound of its own
				reached := madeOf(metric, all.Slice(c.a, c.a+1), all.Slice(c.b, c.b+1)).within(t, d, dtype)
				if !(reached >= c.least) || reached > 1 {
					t.Errorf("dimension %d, vectors %d, %d: the error is %.3g of the bound", dim, c.a, c.b, reached)
				}
			}
		}
	}
}

func madeOf(metric kernels.Metric, a, b cpu.Rows) *pair {
	p := &pair{rng: rand.New(rand.NewPCG(8, 1)), metric: metric, a: a, b: b, scores: make([]float64, a.N*b.N)}
	p.reference()
	return p
}

// hostile are vectors of which each has its largest number at its beginning, so that steps are powers of two: numbers
// in the middle between two codes, all rounded down, and the direction in which they are off; the same with signs in
// turn; numbers that no sum holds beside the largest product; zeros; denormals; one number only. Behind them come their
// opposites in direction.
func hostile(dtype kernels.DType, dim int) cpu.Rows {
	largest, middle, lost := float32(127), float32(6.5), float32(1)
	if dtype == kernels.FP8 {
		largest, middle, lost = 448, 68, 3.75
	}
	var made [][]float32
	add := func(first float32, of func(k int) float32) {
		row := make([]float32, dim)
		for k := range row {
			row[k] = of(k)
		}
		row[0] = first
		made = append(made, row)
	}
	sign := func(k int) float32 { return float32(1 - 2*(k&1)) }
	add(largest, func(int) float32 { return middle })
	add(0, func(int) float32 { return largest })
	add(largest, func(k int) float32 { return sign(k) * middle })
	add(0, func(k int) float32 { return sign(k) * largest })
	add(largest, func(int) float32 { return lost })
	add(largest, func(k int) float32 { return -lost })
	add(largest/8, func(int) float32 { return largest / 1024 })
	add(0, func(int) float32 { return 0 })
	add(0x1p-140, func(k int) float32 { return 0x1p-149 * float32(k%3) })
	add(largest, func(int) float32 { return 0x1p-130 })
	add(-largest, func(int) float32 { return 0 })
	add(math.Nextafter32(largest, 0), func(k int) float32 { return largest * float32(k) / float32(dim) })
	rows := cpu.Rows{N: 2 * len(made), Dim: dim, Stride: dim}
	for _, minus := range []float32{1, -1} {
		for _, row := range made {
			for _, x := range row {
				rows.Data = append(rows.Data, minus*x)
			}
		}
	}
	return rows
}

// within checks stored scores, and returns the largest error as a share of the bound of tile values.
func (p *pair) within(t *testing.T, d device.Device, dtype kernels.DType) (reached float64) {
	t.Helper()
	scaleA, scaleB := p.scales()
	var sets [2]device.Set
	order := make([]int32, p.b.N)
	for i := range order {
		order[i] = int32(i)
	}
	for i, rows := range []cpu.Rows{p.a, p.b} {
		s, err := d.New(device.Side(i), dtype, p.metric, rows.N, rows.Dim, []float64{scaleA, scaleB}[i])
		if err != nil {
			t.Fatal(err)
		}
		defer d.Free(s)
		if err := d.Pack(s, rows, nil, 0, s.Count()); err != nil {
			t.Fatal(err)
		}
		sets[i] = s
	}
	p.matrix(t, d, sets[0], sets[1], order)
	out := make([]float32, p.a.N*p.b.N)
	if err := d.Matrix(out, p.b.N, sets[0], 0, sets[0].Count(), sets[1], 0, sets[1].Count()); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", p.metric, err))
	}
	for i, x := range out {
		reached = max(reached, math.Abs(float64(x)-p.scores[i])*scaleA*scaleB/d.Bound(sets[0], sets[1]))
	}
	return reached
}
