//go:build cgo && amd64

package ladder

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// newPairs makes rows of multiples of 1/64, whose products float32 holds exactly, so that every order of summation
// gives the same counts.
func newPairs(n, m, dim int) (rows, panels Pairs) {
	rng := rand.New(rand.NewPCG(61, 1))
	make2 := func(n int) (rows, panels []float32) {
		rows, panels = make([]float32, n*dim), make([]float32, n*dim)
		for i := range n {
			for k := range dim {
				x := float32(rng.IntN(13)-6) / 64
				rows[i*dim+k], panels[i/32*32*dim+k*32+i%32] = x, x
			}
		}
		return rows, panels
	}
	rows = Pairs{N: n, M: m, Dim: dim, Limits: [5]float32{-.05, -.02, 0, .02, .05}}
	panels = rows
	rows.Rows, panels.Rows = make2(n)
	rows.Columns, panels.Columns = make2(m)
	return rows, panels
}

func (p Pairs) of(s Step, panels Pairs) Pairs {
	if s >= Panels {
		return panels
	}
	return p
}

// shipped counts with slc_tiles_f32_avx512, which counts a tile while it multiplies the next.
func shipped(t testing.TB, p Pairs) (count func() []int64) {
	k, err := cpu.Open(cpu.AVX512.String())
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	pack := func(side tiles.Side, data []float32, n int) *tiles.Panels {
		rows := cpu.Rows{Data: data, N: n, Dim: p.Dim, Stride: p.Dim}
		out, err := tiles.NewPanels(k, side, kernels.F32, kernels.IP, n, p.Dim, 1)
		if err == nil {
			var s tiles.Stats
			s, err = tiles.Pack(k, out, rows, nil, 0, out.Count())
			out.Merge(s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	left, right := pack(tiles.Left, p.Rows, p.N), pack(tiles.Right, p.Columns, p.M)
	c := tiles.Count{Min: float32(math.Inf(-1)), Max: float32(math.Inf(1)), Own: make([]int32, p.M),
		Below:  make([]int64, 5),
		NoBest: true, Low: p.Limits[:], High: p.Limits[:], Kept: make([]tiles.Entry, 0, p.N*p.M/8+1<<14)}
	for i := range c.Own {
		c.Own[i] = -1
	}
	return func() []int64 {
		clear(c.Below)
		c.Kept, c.Counted, c.KeptFull = c.Kept[:0], 0, false
		if err := c.Add(k, left, 0, left.Count(), right, 0, right.Count()); err != nil {
			t.Fatal(err)
		}
		return c.Below
	}
}

func steps() map[Step]string {
	return map[Step]string{Dot: "1 a dot product a pair", Lanes: "2 in 16 lanes", Panels: "3 panels, counted by masks",
		Signs: "4 panels, counted by signs"}
}

func need(t testing.TB, isa cpu.ISA) {
	if !slices.Contains(cpu.Available(), isa) {
		t.Skipf("SKIP: no %s here", isa)
	}
}

// TestSteps checks that every step gives the same counts as the production kernel.
func TestSteps(t *testing.T) {
	need(t, cpu.AVX512VNNI)
	rows, panels := newPairs(64, 96, 128)
	want := shipped(t, rows)()
	if want[0] == 0 || want[4] == 64*96 {
		t.Fatalf("counts %v say nothing", want)
	}
	for s, name := range steps() {
		if got := rows.of(s, panels).Count(s); !slices.Equal(got[:], want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// share reports the best of some runs as a percentage of the peak rate, measured alternately with them.
func share(b *testing.B, operations float64, run func(), peak func(int) float64) {
	best, top := 0.0, 0.0
	for b.Loop() {
		begin := time.Now()
		run()
		best = max(best, operations/time.Since(begin).Seconds())
		begin = time.Now()
		n := peak(1 << 17)
		top = max(top, n/time.Since(begin).Seconds())
	}
	b.ReportMetric(best/1e9, "G/s")
	b.ReportMetric(100*best/top, "%peak")
}

// BenchmarkTiles measures the steps of the bounded tiles: 320 x 256 pairs of 384 dimensions, five limits.
func BenchmarkTiles(b *testing.B) {
	need(b, cpu.AVX512VNNI)
	rows, panels := newPairs(320, 256, 384)
	operations := 2. * 320 * 256 * 384
	for s := Dot; s <= Signs; s++ {
		b.Run(steps()[s], func(b *testing.B) {
			p := rows.of(s, panels)
			share(b, operations, func() { p.Count(s) }, PeakF32)
		})
	}
	b.Run("5 signs, while the next tile is multiplied (shipped)", func(b *testing.B) {
		count := shipped(b, rows)
		share(b, operations, func() { count() }, PeakF32)
	})
}

// BenchmarkScan measures the steps of the index scan: 1,024 rows of 384 dimensions, 32 queries, all planes, no row
// left.
func BenchmarkScan(b *testing.B) {
	need(b, cpu.AVX512VNNI)
	for _, step := range []struct {
		name string
		isa  cpu.ISA
		at   int // queries per call
	}{
		{"1 scalar", cpu.Scalar, 1}, {"2 avx2", cpu.AVX2, 1}, {"3 VNNI, a query at a time", cpu.AVX512VNNI, 1},
		{"4 VNNI, 8 queries share the unpacking", cpu.AVX512VNNI, 8},
		{"5 VNNI, 32 queries share it (shipped)", cpu.AVX512VNNI, 32},
	} {
		b.Run(step.name, func(b *testing.B) {
			k, err := cpu.Open(step.isa.String())
			if err != nil {
				b.Fatal(err)
			}
			chunk, queries, limits := newScan(b, step.at)
			planes := []uint8{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}
			scratch, bias := scan.NewScratch(step.at), scan.NewBias(step.at)
			share(b, 2*1024*384*32, func() {
				for range 32 / step.at {
					found, _, err := scan.Scan(k, chunk, queries, planes, len(planes), limits, bias, scratch)
					if err != nil || len(found) > 0 {
						b.Fatal(len(found), err)
					}
				}
			}, PeakI8)
		})
	}
}

// newScan makes a chunk, and queries that no row is close to.
func newScan(b *testing.B, n int) (*scan.Chunk, *scan.Queries, []float32) {
	const dim = 384
	rng := rand.New(rand.NewPCG(67, 1))
	y := cpu.Rows{Data: make([]float32, scan.MaxRows*dim), N: scan.MaxRows, Dim: dim, Stride: dim}
	for i := range y.Data {
		y.Data[i] = float32(rng.NormFloat64())
	}
	sections := dim / scan.Section
	c, err := scan.NewChunk(cpu.Aligned(scan.Bytes(scan.MaxPanels, sections)), scan.MaxPanels, sections, false)
	if err != nil {
		b.Fatal(err)
	}
	c.SetShape(y)
	for p := range c.Panels {
		if _, err := c.Pack(p, y.Slice(p*scan.Lanes, (p+1)*scan.Lanes), 0); err != nil {
			b.Fatal(fmt.Errorf("panel %d: %w", p, err))
		}
	}
	q, z, limits := scan.NewQueries(n, sections), make([]float64, dim), make([]float32, scan.MaxQueries)
	q.Reset(n)
	for i := range n {
		for k := range z {
			z[k] = rng.NormFloat64()
		}
		q.Set(i, z, 0)
	}
	for i := range limits {
		limits[i] = 1e6
	}
	return c, q, limits
}
