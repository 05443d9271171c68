//go:build native && cgo && linux && (amd64 || arm64)

package gorgonia

import (
	"errors"
	"math"
	"testing"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/kernels"
)

func openGPU(t *testing.T) *GPU {
	t.Helper()
	drivertest.Open(t)
	g, err := NewGPU(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// sent returns a tensor on the GPU with those numbers.
func sent(t *testing.T, g *GPU, data []float32, shape ...int) *tensor.Dense {
	t.Helper()
	d := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32), tensor.WithEngine(g))
	host := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
	if err := g.Memcpy(d, host); err != nil {
		t.Fatal(err)
	}
	return d
}

func back(t *testing.T, g *GPU, d tensor.Tensor) []float32 {
	t.Helper()
	host := tensor.New(tensor.WithShape(d.Shape()...), tensor.Of(tensor.Float32))
	if err := g.Memcpy(host, d.(*tensor.Dense)); err != nil {
		t.Fatal(err)
	}
	return host.Float32s()
}

// near compares with float64 sums, within the error of a float32 sum.
func near(t *testing.T, got, a, b []float32, m, k, n int) {
	t.Helper()
	for i := range m {
		for j := range n {
			sum, size := 0., 0.
			for x := range k {
				p := float64(a[i*k+x]) * float64(b[x*n+j])
				sum, size = sum+p, size+math.Abs(p)
			}
			if !(math.Abs(float64(got[i*n+j])-sum) <= float64(k+2)*0x1p-23*size) {
				t.Fatalf("%d×%d×%d at %d, %d: %v, want %v", m, k, n, i, j, got[i*n+j], sum)
			}
		}
	}
}

// TestGPUProducts: tensors made by the engine live on the GPU, and products run there: whole, transposed, into a given
// tensor, with vectors.
func TestGPUProducts(t *testing.T) {
	g := openGPU(t)
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 2}, {33, 40, 70}, {130, 17, 9}} {
		m, k, n := s[0], s[1], s[2]
		a, b := numbers(1, m*k), numbers(2, k*n)
		da, db := sent(t, g, a, m, k), sent(t, g, b, k, n)
		if da.IsNativelyAccessible() || da.Engine() != tensor.Engine(g) {
			t.Fatal("the tensor lies in the process's memory")
		}
		c, err := tensor.MatMul(da, db)
		if err != nil {
			t.Fatal(err)
		}
		near(t, back(t, g, c), a, b, m, k, n)
		reuse := tensor.New(tensor.WithShape(m, n), tensor.Of(tensor.Float32), tensor.WithEngine(g))
		if _, err := tensor.MatMul(da, db, tensor.WithReuse(reuse)); err != nil {
			t.Fatal(err)
		}
		near(t, back(t, g, reuse), a, b, m, k, n)
		turned := make([]float32, len(b))
		for i := range k {
			for j := range n {
				turned[j*k+i] = b[i*n+j]
			}
		}
		dt := sent(t, g, turned, n, k)
		must(dt.T())
		if c, err = tensor.MatMul(da, dt); err != nil {
			t.Fatal(err)
		}
		near(t, back(t, g, c), a, b, m, k, n)
		v := sent(t, g, b[:k], k)
		if c, err = tensor.MatVecMul(da, v); err != nil {
			t.Fatal(err)
		}
		near(t, back(t, g, c), a, b[:k], m, k, 1)
	}
}

// TestGPUMemory: what is not for the GPU is refused with a reason, and memory comes back.
func TestGPUMemory(t *testing.T) {
	g := openGPU(t)
	a := sent(t, g, []float32{1, 2, 3, 4}, 2, 2)
	if err := g.Memset(a, float32(7)); err != nil || back(t, g, a)[3] != 7 {
		t.Errorf("Memset: %v", err)
	}
	if g.Memclr(a); back(t, g, a)[0] != 0 {
		t.Error("Memclr leaves what was there")
	}
	b := sent(t, g, []float32{5, 6, 7, 8}, 2, 2)
	if err := g.Memcpy(a, b); err != nil || back(t, g, a)[2] != 7 {
		t.Errorf("a copy on the GPU: %v", err)
	}
	host := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 2, 3, 4}))
	for name, err := range map[string]error{
		"another size":    g.Memcpy(a, tensor.New(tensor.WithShape(3), tensor.Of(tensor.Float32))),
		"host to host":    g.Memcpy(host, host),
		"a wrong type":    g.Memset(a, 3),
		"an operand":      g.MatMul(a, b, a),
		"a host's tensor": g.MatMul(a, host, b),
	} {
		if !errors.Is(err, kernels.ErrArgument) && !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := g.Accessible(a); !errors.Is(err, ErrOnGPU) {
		t.Errorf("Accessible: %v", err)
	}
	if _, err := tensor.Add(a, b); err == nil {
		t.Error("a sum is computed in memory that is not there")
	}
	if err := errors.Join(g.Release(a), g.Release(b)); err != nil || g.gpu.Live() != 0 {
		t.Errorf("%v; %d pieces are left", err, g.gpu.Live())
	}
	if err := g.Release(a); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("released again: %v", err)
	}
}
