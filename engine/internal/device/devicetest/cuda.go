package devicetest

import (
	"os"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/gpu"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// RunOnCUDA runs the tests of the package that are chosen by -test.run or -test.skip again, on package gpu over the
// stand-in driver at library (drivertest.Build). Its kernels are the GPU's, run by the host, which takes its time.
func RunOnCUDA(t *testing.T, library, choice string) {
	if os.Getenv(variable) != "" {
		t.Skip("SKIP: this is the run on another device")
	}
	again(t, onCUDA, []string{cuda.EnvLibrary + "=" + library}, choice)
}

// theGPU is the process's one device of the stand-in driver.
var theGPU = sync.OnceValues(func() (*cuda.Device, error) { return cuda.Open(cuda.Options{}) })

// openCUDA returns a device on the process's GPU.
func openCUDA(k cpu.Kernels) device.Device {
	d, err := theGPU()
	if err == nil {
		var g *gpu.Device
		if g, err = gpu.New(d, k); err == nil {
			return g
		}
	}
	panic(err) // in tests only
}
