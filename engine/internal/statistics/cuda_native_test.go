//go:build native && cgo && linux && (amd64 || arm64)

package statistics

import (
	"os"
	"testing"

	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
)

// TestOnCUDA runs the package's tests on the GPU's kernels, with SLUICE_EMULATED=all (make cuda-emulated).
func TestOnCUDA(t *testing.T) {
	race.Skip(t)
	if os.Getenv("SLUICE_EMULATED") != "all" {
		t.Skip("SKIP: takes minutes; make cuda-emulated runs it")
	}
	devicetest.RunOnCUDA(t, drivertest.Build(t), "-test.skip=OnCUDA|Stretches|Selection|NoInput")
}
