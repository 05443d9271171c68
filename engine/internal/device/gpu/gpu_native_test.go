//go:build native && cgo && linux && (amd64 || arm64)

package gpu_test

import (
	"os"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/engine/internal/device/gpu"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// opened is a device on the stand-in driver, whose kernels are those of kernels/cuda, run by the host.
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
	if os.Getenv("SLUICE_TEST_GPU") == "" { // of a bundle for a machine with a GPU: its own driver
		drivertest.Open(t)
	}
	g, d := opened(t)
	devicetest.Contract(t, g)
	if n := d.Live(); n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
}

// TestOlderCapability: sm_75 has no products of bfloat16.
func TestOlderCapability(t *testing.T) {
	driver := drivertest.Open(t)
	driver.Set("major", 7)
	driver.Set("minor", 5)
	g, _ := opened(t)
	if !g.Has(kernels.F32) || g.Has(kernels.BF16) || g.Has(kernels.BF16x3) || g.Has(kernels.I8) {
		t.Errorf("formats of sm_75: f32 %v, bf16 %v, bf16x3 %v, i8 %v", g.Has(kernels.F32), g.Has(kernels.BF16),
			g.Has(kernels.BF16x3), g.Has(kernels.I8))
	}
}
