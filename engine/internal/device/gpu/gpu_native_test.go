//go:build native && cgo && linux && (amd64 || arm64)

package gpu_test

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/engine/internal/device/gpu"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// opened returns a device on the stand-in driver, which runs the kernels of kernels/cuda on the host.
func opened(t *testing.T) (*gpu.Device, *cuda.Device) {
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
	g, err := gpu.New(d, host)
	if err != nil {
		t.Fatal(err)
	}
	return g, d
}

func TestContract(t *testing.T) {
	if os.Getenv("SLUICE_TEST_GPU") == "" { // a test bundle on a machine with a GPU uses the real driver
		drivertest.Open(t)
	}
	g, d := opened(t)
	devicetest.Contract(t, g)
	if n := d.Live(); n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
}

// TestContractWithoutMaps runs the checks of TestContract with the kernels for architectures without wgmma.
func TestContractWithoutMaps(t *testing.T) {
	race.Skip(t)
	drivertest.Open(t).Set("maps", 0)
	g, _ := opened(t)
	if tiles := g.Describe().Tiles; !strings.HasPrefix(tiles, "mma.sync") {
		t.Fatalf("tiles by %q", tiles)
	}
	devicetest.Contract(t, g)
}

// TestOlderCapability checks that sm_75 has no products of bfloat16 and int8, and sm_86 none of e4m3.
func TestOlderCapability(t *testing.T) {
	driver := drivertest.Open(t)
	for arch, want := range map[[2]int64][]kernels.DType{
		{7, 5}: {kernels.F32},
		{8, 6}: {kernels.F32, kernels.BF16x3, kernels.BF16, kernels.I8},
		{8, 9}: {kernels.F32, kernels.BF16x3, kernels.BF16, kernels.I8, kernels.FP8},
	} {
		driver.Set("major", arch[0])
		driver.Set("minor", arch[1])
		g, _ := opened(t)
		var has []kernels.DType
		for f := range kernels.DTypes {
			if g.Has(f) {
				has = append(has, f)
			}
		}
		if !slices.Equal(has, want) {
			t.Errorf("formats of sm_%d%d: %v, want %v", arch[0], arch[1], has, want)
		}
	}
}

// TestNoNumbers checks that a non-finite value anywhere in a set makes the set's norm non-finite, in every format.
func TestNoNumbers(t *testing.T) {
	drivertest.Open(t)
	g, _ := opened(t)
	for f := range kernels.DTypes {
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			if !g.Has(f) {
				continue
			}
			for _, at := range []int{0, 34, 69} {
				rows := cpu.Rows{Data: make([]float32, 70), N: 2, Dim: 35, Stride: 35}
				rows.Data[3], rows.Data[at] = 1, float32(x)
				s, err := g.New(device.Left, f, kernels.IP, 2, 35, 1)
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Pack(s, rows, nil, 0, 1); err != nil || s.Norm() <= math.MaxFloat64 {
					t.Errorf("%s: %v at %d: norm %v, %v", f, x, at, s.Norm(), err)
				}
				g.Free(s)
			}
		}
	}
	if _, err := g.New(device.Left, kernels.I8, kernels.IP, 1, 1<<17+1, 1); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("a dimension whose sums no int32 holds: %v", err)
	}
}
