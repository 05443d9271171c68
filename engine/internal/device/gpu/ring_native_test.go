//go:build native && cgo && linux && (amd64 || arm64)

package gpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// onStandIn returns a device on the stand-in driver.
func onStandIn(t *testing.T) *Device {
	t.Helper()
	d, err := cuda.Open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(d, host)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// gaussian returns normally distributed rows.
func gaussian(rng *rand.Rand, n, dim int) cpu.Rows {
	r := cpu.Rows{Data: make([]float32, n*dim), N: n, Dim: dim, Stride: dim}
	for i := range r.Data {
		r.Data[i] = float32(rng.NormFloat64())
	}
	return r
}

// packed packs both sides in the given format, for inner products.
func packed(t *testing.T, g *Device, f kernels.DType, a, b cpu.Rows) (l, r *set) {
	t.Helper()
	var sets [2]*set
	for i, x := range []cpu.Rows{a, b} {
		s, err := g.New([]device.Side{device.Left, device.Right}[i], f, kernels.IP, x.N, x.Dim, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Free(s) })
		if err := g.Pack(s, x, nil, 0, s.Count()); err != nil {
			t.Fatal(err)
		}
		sets[i] = s.(*set)
	}
	return sets[0], sets[1]
}

// farthest returns the largest ratio of a matrix's error to its bound; NaN counts as infinite.
func farthest(t *testing.T, g *Device, l, r *set, a, b cpu.Rows, row0, row1, lane0, lane1 int) float64 {
	t.Helper()
	m, n := min(row1*32, a.N)-row0*32, min(lane1*32, b.N)-lane0*32
	out := make([]float32, m*n)
	if err := g.Matrix(out, n, l, row0, row1, r, lane0, lane1); err != nil {
		t.Fatal(err)
	}
	bound, most := g.Bound(l, r), 0.
	for i := range m {
		for j := range n {
			want := 0.
			for k, x := range a.Row(row0*32 + i) {
				want += float64(x) * float64(b.Row(lane0*32 + j)[k])
			}
			if off := math.Abs(float64(out[i*n+j])-want) / bound; !(off <= most) {
				most = off
				if math.IsNaN(off) {
					return math.Inf(1)
				}
			}
		}
	}
	return most
}

// TestRing gives many tiles to few blocks, with the last ones cut off by the call, by the set and by the dimension.
// Every value must be written and lie within the bound, and the counts must equal those of the kernels for other
// architectures.
func TestRing(t *testing.T) {
	race.Skip(t)
	driver := drivertest.Open(t)
	driver.Set("multiprocessors", 2)
	g := onStandIn(t)
	if got := g.Describe().Tiles; got != "wgmma and TMA" {
		t.Fatalf("tiles by %q", got)
	}
	rng := rand.New(rand.NewPCG(17, 90))
	both, bytes := []kernels.DType{kernels.BF16, kernels.BF16x3}, []kernels.DType{kernels.I8, kernels.FP8}
	for _, c := range []struct {
		dim     int // steps: 1, 1, 3.5 with padding, and more than the ring has stages
		formats []kernels.DType
	}{{1, append(both, bytes...)}, {64, both}, {128, bytes}, {200, both}, {450, both}, {800, bytes}} {
		dim := c.dim
		a, b := gaussian(rng, 300, dim), gaussian(rng, 410, dim)
		for _, f := range c.formats {
			l, r := packed(t, g, f, a, b)
			if w := g.way(l, r, 0, l.Count(), 0, r.Count()); w.kernel != f.String()+"_sm90" || w.grid[0] != 2 {
				t.Errorf("%s: %s on a grid of %v", f, w.kernel, w.grid)
			}
			for _, c := range [][4]int{{0, l.Count(), 0, r.Count()}, {3, 8, 1, 12}} {
				if off := farthest(t, g, l, r, a, b, c[0], c[1], c[2], c[3]); !(off <= 1) {
					t.Errorf("%s, dimension %d, panels %v: the error is %.3g of the bound", f, dim, c, off)
				} else {
					t.Logf("%s, dimension %d, panels %v: the largest error is %.3g of the bound", f, dim, c, off)
				}
			}
		}
	}
}

// counted returns the results of a call of Count in a canonical order.
func counted(t *testing.T, g *Device, l, r *set) device.Count {
	t.Helper()
	n, m := l.n, r.n
	c := device.Count{Low: []float32{-20, 3}, High: []float32{-19, 4}, Min: -60, Max: 60, Margin: .5,
		BinLow: -100, BinScale: .5, Own: make([]int32, m), RowGroup: make([]int32, n), ColumnGroup: make([]int32, m),
		Below: make([]int64, 2), Bins: make([]int64, 100),
		BestOther: make([]float32, r.Count()*32), BestAll: make([]float32, r.Count()*32),
		Kept: make([]device.Entry, 0, n*m), Other: make([]device.Entry, 0, n*m), All: make([]device.Entry, 0, n*m)}
	for i := range c.BestOther {
		c.BestOther[i], c.BestAll[i] = -math.MaxFloat32, -math.MaxFloat32
	}
	for i := range n {
		c.RowGroup[i] = int32(i % 7)
	}
	for i := range m {
		c.Own[i], c.ColumnGroup[i] = int32(i*5%n), int32(i%7)
	}
	if err := g.Count(&c, l, 0, l.Count(), r, 0, r.Count()); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]device.Entry{c.Kept, c.Other, c.All} {
		slices.SortFunc(list, func(a, b device.Entry) int { return int(a.At) - int(b.At) })
	}
	return c
}

// TestRingCounts checks that the kernels of sm_90a and those for all architectures return the same counts, lists and
// best values for integers that are small enough for bfloat16 and for exact sums. Candidates for maxima depend on the
// order of tiles, so only those with the best values are compared.
func TestRingCounts(t *testing.T) {
	driver := drivertest.Open(t)
	rng := rand.New(rand.NewPCG(17, 91))
	whole := func(n, dim int) cpu.Rows {
		r := gaussian(rng, n, dim)
		for i, x := range r.Data {
			r.Data[i] = float32(math.Round(float64(x)))
		}
		return r
	}
	a, b := whole(290, 100), whole(330, 100)
	for _, f := range []kernels.DType{kernels.BF16, kernels.BF16x3, kernels.I8, kernels.FP8} {
		driver.Set("multiprocessors", 1)
		driver.Set("maps", 1)
		ring := onStandIn(t)
		l, r := packed(t, ring, f, a, b)
		got := counted(t, ring, l, r)
		driver.Set("maps", 0)
		plain := onStandIn(t)
		l, r = packed(t, plain, f, a, b)
		if l.maps != 0 {
			t.Fatal("a set has maps that the driver did not make")
		}
		want := counted(t, plain, l, r)
		// Values of eight bits are the same, but no whole numbers, so that parts of a sum are rounded in other places.
		if f == kernels.I8 || f == kernels.FP8 {
			for _, s := range [][2]*tiles.Sum{{&got.Sum, &want.Sum}, {&got.Sum2, &want.Sum2}} {
				if off := math.Abs(s[0].Float64() - s[1].Float64()); !(off <= 1e-5*math.Abs(s[1].Float64())) {
					t.Errorf("%s: sums %v, %v", f, *s[0], *s[1])
				}
				*s[0] = *s[1]
			}
		}
		if got.Counted != want.Counted || got.Counted != 290*330-330 || !slices.Equal(got.Below, want.Below) ||
			!slices.Equal(got.Bins, want.Bins) || !slices.Equal(got.Kept, want.Kept) || len(got.Kept) < 100 ||
			got.Sum != want.Sum || got.Sum2 != want.Sum2 || !slices.Equal(got.BestOther, want.BestOther) ||
			!slices.Equal(got.BestAll, want.BestAll) {
			t.Errorf("%s: counted %d, %d; below %v, %v; kept %d, %d; sums %v %v, %v %v", f, got.Counted, want.Counted,
				got.Below, want.Below, len(got.Kept), len(want.Kept), got.Sum, got.Sum2, want.Sum, want.Sum2)
		}
		for _, lists := range [][2][]device.Entry{{got.Other, want.Other}, {got.All, want.All}} {
			best := func(list []device.Entry) map[uint32]float32 { // best values of each column
				m := map[uint32]float32{}
				for _, e := range list {
					column := e.At & 0xffff
					if old, ok := m[column]; !ok || e.Value > old {
						m[column] = e.Value
					}
				}
				return m
			}
			x, y := best(lists[0]), best(lists[1])
			for column, v := range x {
				if y[column] != v {
					t.Errorf("%s: column %d: best candidate %v, %v", f, column, v, y[column])
				}
			}
			if len(x) != len(y) || len(x) == 0 {
				t.Errorf("%s: %d columns with candidates, %d", f, len(x), len(y))
			}
		}
	}
}

// TestRingSwizzle: maps whose swizzle is not the one in the descriptors of the products give wrong values, so that the
// emulation would show it.
func TestRingSwizzle(t *testing.T) {
	driver := drivertest.Open(t)
	rng := rand.New(rand.NewPCG(17, 92))
	a, b := gaussian(rng, 64, 64), gaussian(rng, 64, 64)
	for _, bytes := range []int64{128, 64, 32, 0} {
		driver.Set("swizzle", bytes)
		g := onStandIn(t)
		l, r := packed(t, g, kernels.BF16, a, b)
		if off := farthest(t, g, l, r, a, b, 0, l.Count(), 0, r.Count()); (off <= 1) != (bytes == 128) {
			t.Errorf("maps with a swizzle of %d bytes: the error is %.3g of the bound", bytes, off)
		}
	}
}

// TestRingFallsBack checks that without maps, or without an image for sm_90a, the other kernels are used and the
// device reports it.
func TestRingFallsBack(t *testing.T) {
	driver := drivertest.Open(t)
	rng := rand.New(rand.NewPCG(17, 93))
	a, b := gaussian(rng, 40, 70), gaussian(rng, 33, 70)
	for _, c := range []struct {
		set   string
		value int64
		why   string
	}{{"maps", 0, "mma.sync and cp.async: cuda: cuTensorMapEncodeTiled: CUDA_ERROR_NOT_FOUND"},
		{"minor", 3, "mma.sync and cp.async: the kernels are those of PTX compute_90"}} {
		driver.Reset()
		driver.Set(c.set, c.value)
		g := onStandIn(t)
		if got := g.Describe().Tiles; !strings.HasPrefix(got, c.why) {
			t.Errorf("%s %d: tiles by %q", c.set, c.value, got)
		}
		l, r := packed(t, g, kernels.BF16, a, b)
		if w := g.way(l, r, 0, 2, 0, 2); w.kernel != "tensor" {
			t.Errorf("%s %d: kernel %s", c.set, c.value, w.kernel)
		}
		if off := farthest(t, g, l, r, a, b, 0, l.Count(), 0, r.Count()); !(off <= 1) {
			t.Errorf("%s %d: the error is %.3g of the bound", c.set, c.value, off)
		}
	}
	// A driver that refuses a map later: sets that have maps and sets without are multiplied by the other kernels.
	driver.Reset()
	g := onStandIn(t)
	l, _ := packed(t, g, kernels.BF16, a, a)
	driver.Set("maps", 0)
	_, r := packed(t, g, kernels.BF16, a, b)
	if w := g.way(l, r, 0, 2, 0, 2); l.maps == 0 || r.maps != 0 || w.kernel != "tensor" ||
		!strings.Contains(g.Describe().Tiles, "cuTensorMapEncodeTiled") {
		t.Errorf("kernel %s, tiles by %q", w.kernel, g.Describe().Tiles)
	}
	if off := farthest(t, g, l, r, a, b, 0, l.Count(), 0, r.Count()); !(off <= 1) {
		t.Errorf("the error is %.3g of the bound", off)
	}
}
