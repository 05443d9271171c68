package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

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
