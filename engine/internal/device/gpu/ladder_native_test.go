//go:build native && cgo && linux && (amd64 || arm64)

package gpu

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// TestLadder runs the steps of kernels/cuda/ladder on the same operands and prints what each does, on a GPU; the
// stand-in shows that their results agree, and no figure of it counts.
func TestLadder(t *testing.T) {
	n, dim, standIn := 8192, 768, os.Getenv("SLUICE_TEST_GPU") == ""
	if standIn {
		drivertest.Open(t)
	}
	if standIn = standIn || os.Getenv("SLUICE_TEST_STANDIN") != ""; standIn {
		n, dim = 50, 40
	}
	d, err := cuda.Open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	host, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(d, host)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(141, 1))
	var at [3]cuda.Ptr // both operands and the result
	values := make([]float32, 2*n*dim)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	for i, bytes := range []int{4 * n * dim, 4 * n * dim, 4 * n * n} {
		if at[i], err = d.Alloc(int64(bytes)); err != nil {
			t.Fatal(err)
		}
		defer d.Free(at[i])
	}
	err = d.Do(func(s *cuda.Stream) error {
		if err := s.Write(at[0], bytesOf(values[:n*dim])); err != nil {
			return err
		}
		return s.Write(at[1], bytesOf(values[n*dim:]))
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := Dense{at[0], n, dim, dim, 1}, Dense{at[1], n, dim, dim, 1}
	simple := func(name string) func(s *cuda.Stream) error {
		return func(s *cuda.Stream) error {
			k, err := g.kernel(name)
			if err != nil {
				return err
			}
			return s.Launch(k, [3]int{(n + 15) / 16, (n + 15) / 16, 1}, [3]int{16, 16, 1}, 0, uint64(at[0]),
				uint64(at[1]), uint64(n), uint64(n), uint64(dim), uint64(at[2]))
		}
	}
	type step struct {
		name string
		run  func(s *cuda.Stream) error
		off  float64 // of values of norm √d
	}
	steps := []step{{"slc_ladder_plain", simple("slc_ladder_plain"), 1e-4},
		{"slc_ladder_shared", simple("slc_ladder_shared"), 1e-4}}
	for _, x := range []struct {
		t   kernels.DType
		off float64
	}{{kernels.F32, 1e-4}, {kernels.BF16x3, 1e-3}, {kernels.BF16, .05}, {kernels.I8, .1}, {kernels.FP8, .3}} {
		if !g.Has(x.t) {
			continue
		}
		var temporary pieces
		defer temporary.free(g)
		var sides [2]*set
		for i, m := range []Dense{a, b} {
			if sides[i], err = g.operand(&temporary, [2]device.Side{device.Left, device.Right}[i], x.t, m); err != nil {
				t.Fatal(err)
			}
			defer g.free(sides[i])
		}
		panels := sides[0].Count()
		ways := []launch{tilesOf(sides[0], sides[1], 0, panels, 0, panels)}
		if best := g.way(sides[0], sides[1], 0, panels, 0, panels); best.kernel != ways[0].kernel {
			ways = append(ways, best)
		}
		for _, w := range ways {
			k, err := g.kernel("slc_matrix_" + w.kernel)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step{k.Name() + " " + x.t.String(), func(s *cuda.Stream) error {
				return s.Launch(k, w.grid, w.block, w.shared,
					append(w.arguments, uint64(kernels.IP), math.Float64bits(1), uint64(at[2]), uint64(n))...)
			}, x.off})
		}
	}
	out := make([]float32, n*n)
	for _, step := range steps {
		best := math.Inf(1)
		for range 3 {
			err := d.Do(func(s *cuda.Stream) error {
				took, err := s.Time(func() error { return step.run(s) })
				best = min(best, took)
				return err
			})
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if err := d.Do(func(s *cuda.Stream) error { return s.Read(bytesOf(out), at[2]) }); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			i, j := rng.IntN(n), rng.IntN(n)
			want := 0.
			for k := range dim {
				want += float64(values[i*dim+k]) * float64(values[(n+j)*dim+k])
			}
			if !(math.Abs(float64(out[i*n+j])-want) <= step.off*float64(dim)) {
				t.Fatalf("%s: %d, %d: %v, want %v", step.name, i, j, out[i*n+j], want)
			}
		}
		if !standIn {
			t.Logf("%-30s %8.3f ms  %7.2f TFLOP/s", step.name, best, 2*float64(n)*float64(n)*float64(dim)/best/1e9)
		}
	}
}
