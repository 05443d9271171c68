package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// TestBoundedMatrix: every instruction set × type × metric × shape stays within the bound that it
// returns, whole or in parts, and writes nothing between the rows.
func TestBoundedMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	for _, isa := range isas() {
		for _, limit := range []int64{0, 300 << 10} {
			e := newEngine(t, Options{ISA: isa.String(), MemLimit: limit})
			for _, dtype := range e.DTypes() {
				worst := 0.
				for _, shape := range [][3]int{{1, 1, 1}, {33, 31, 7}, {200, 70, 33}, {100, 260, 130}} {
					for _, metric := range metrics {
						a, b := vectors(rng, shape[0], shape[2], shape[2]+1), plain(rng, shape[1], shape[2])
						worst = max(worst, checkBounded(t, e, a, b, metric, dtype))
					}
				}
				t.Logf("%s %s: max |err|/bound %.3f", isa, dtype, worst)
			}
		}
	}
}

// TestShortDistances: distances of rows that are long and close to each other are computed from their differences, not
// from products, and the bound shows it. Positions on the earth in metres, times in seconds, and one row far from all.
func TestShortDistances(t *testing.T) {
	for name, rows := range map[string][][]float32{
		"positions": {{4186000, 834000, 4723000}, {4186500, 834800, 4722900}, {4186001, 834000, 4723000},
			{4186000, 834000, 4723000}, {-2700000, -4290000, 3855000}},
		"times": {{1.6e9, 1.6e9 + 512, 3, 4}, {1.6e9, 1.6e9, 3, 4}, {1.6e9 + 1024, 1.6e9, 3, 5},
			{1.6e9, 1.6e9, 3, 4.5}},
		"one is far": {{.5, .25}, {.25, .5}, {.5, .5}, {3e8, -3e8}},
	} {
		var flat []float32
		for _, row := range rows {
			flat = append(flat, row...)
		}
		v := Vectors{Data: flat, Rows: len(rows), Dim: len(rows[0])}
		for _, isa := range isas() {
			e := newEngine(t, Options{ISA: isa.String()})
			for _, dtype := range e.DTypes() {
				out := make([]float32, v.Rows*v.Rows)
				bound, err := e.BoundedMatrix(context.Background(), out, v.Rows, v, v, kernels.L2, dtype)
				if err != nil {
					t.Fatal(err)
				}
				most := 1e-3
				if dtype != kernels.F32 && dtype != kernels.BF16x3 {
					most = 1
				}
				for i, got := range out {
					want := ref.Score(kernels.L2, rows[i/v.Rows], rows[i%v.Rows])
					if diff := math.Abs(float64(got) - want); diff > bound || diff > most*want {
						t.Errorf("%s, %s, %s: rows %d and %d are %v apart, said %v, bound %v", name, isa, dtype,
							i/v.Rows, i%v.Rows, want, got, bound)
					}
				}
			}
		}
	}
}

func checkBounded(t *testing.T, e *Engine, a, b Vectors, metric kernels.Metric, dtype kernels.DType) (worst float64) {
	t.Helper()
	const guard = 55
	stride := b.Rows + 3
	out := make([]float32, a.Rows*stride)
	for i := range out {
		out[i] = guard
	}
	bound, err := e.BoundedMatrix(context.Background(), out, stride, a, b, metric, dtype)
	if err != nil {
		t.Fatal(err)
	}
	left, right := rows(a), rows(b)
	for i, got := range out {
		row, col := i/stride, i%stride
		if col >= b.Rows {
			if got != guard {
				t.Fatalf("wrote behind row %d", row)
			}
			continue
		}
		want := ref.Score(metric, left[row], right[col])
		diff := math.Abs(float64(got) - want)
		if math.IsInf(float64(got), 0) && math.Abs(want)+bound > math.MaxFloat32 {
			continue
		}
		if bound > 0 {
			worst = max(worst, diff/bound)
		}
		if !(diff <= bound) {
			t.Fatalf("%s %s %d×%d×%d (%d, %d): %v, canonical %v, bound %v", dtype, metric, a.Rows, b.Rows, a.Dim, row,
				col, got, want, bound)
		}
	}
	return worst
}

func TestBoundedMatrixErrors(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(62, 1)), context.Background()
	a, b := plain(rng, 5, 9), plain(rng, 7, 9)
	e, out := newEngine(t, Options{}), make([]float32, 35)
	bad := plain(rng, 5, 9)
	bad.Data[4*9+3] = float32(math.Inf(-1))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	call := func(ctx context.Context, e *Engine, out []float32, stride int, a, b Vectors, m kernels.Metric,
		d kernels.DType) error {
		_, err := e.BoundedMatrix(ctx, out, stride, a, b, m, d)
		return err
	}
	memory := kernels.ErrMemoryLimit
	if e.r.Describe().Memory > 0 { // sets lie in the device's own memory, which the limit is not for
		memory = nil
	}
	for name, c := range map[string]struct{ err, want error }{
		"stride":    {call(ctx, e, out, 6, a, b, kernels.IP, kernels.F32), kernels.ErrShape},
		"short":     {call(ctx, e, out[:34], 7, a, b, kernels.IP, kernels.F32), kernels.ErrShape},
		"dimension": {call(ctx, e, out, 7, a, plain(rng, 7, 8), kernels.IP, kernels.F32), kernels.ErrShape},
		"metric":    {call(ctx, e, out, 7, a, b, 9, kernels.F32), kernels.ErrMetric},
		"type":      {call(ctx, e, out, 7, a, b, kernels.IP, 9), kernels.ErrISA},
		"no tiles": {call(ctx, newEngine(t, Options{ISA: "go"}), out, 7, a, b, kernels.IP, kernels.I16),
			kernels.ErrISA},
		"non-finite": {call(ctx, e, out, 7, bad, b, kernels.IP, kernels.F32), kernels.ErrNonFinite},
		"memory":     {call(ctx, newEngine(t, Options{MemLimit: 1000}), out, 7, a, b, kernels.IP, kernels.F32), memory},
		"cancelled":  {call(cancelled, e, out, 7, a, b, kernels.IP, kernels.F32), context.Canceled},
		"empty":      {call(ctx, e, nil, 0, Vectors{}, b, kernels.IP, kernels.F32), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
}

// BenchmarkMatrix is the stored matrix of docs/benchmarks.
func BenchmarkMatrix(b *testing.B) {
	rng := rand.New(rand.NewPCG(63, 1))
	x, y := plain(rng, 4096, 384), plain(rng, 12288, 384)
	out := make([]float32, x.Rows*y.Rows)
	e, err := open(Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, dtype := range e.DTypes() {
		b.Run(fmt.Sprint(dtype), func(b *testing.B) {
			for b.Loop() {
				if _, err := e.BoundedMatrix(context.Background(), out, y.Rows, x, y, kernels.IP, dtype); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(2*384*float64(len(out))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// TestProduct: the digits of short rows are all there, or the range is refused.
func TestProduct(t *testing.T) {
	for name, e := range engines(t) {
		_, host := e.r.Device.(*device.CPU) // another device multiplies what AMX has no parts for
		host = host && e.gpu() == nil
		for _, c := range []struct {
			size float64
			fits bool
		}{{0x1p-20, true}, {0x1p36, true}, {0x1p41, false}, {math.Inf(1), false},
			{0x1p-50, !host || e.r.Host.ISA() != cpu.AMX}} {
			rng := rand.New(rand.NewPCG(44, 1))
			a, b := plain(rng, 33, 40), plain(rng, 70, 40)
			for k := range 40 {
				a.Data[5*a.Stride+k] *= float32(c.size)
			}
			out := make([]float32, 33*70)
			err := e.Product(context.Background(), out, 70, a, b, kernels.F32)
			if !c.fits {
				if !errors.Is(err, kernels.ErrRange) {
					t.Errorf("%s %v: %v", name, c.size, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s %v: %v", name, c.size, err)
			}
			for i, x := range rows(a) {
				for j, y := range rows(b) {
					var want, size float64
					for k := range x {
						want += float64(x[k]) * float64(y[k])
						size += math.Abs(float64(x[k]) * float64(y[k]))
					}
					if got := float64(out[i*70+j]); math.Abs(got-want) > 0x1p-20*size {
						t.Fatalf("%s %v: [%d][%d] = %v, want %v", name, c.size, i, j, got, want)
					}
				}
			}
		}
	}
}
