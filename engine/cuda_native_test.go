//go:build native && cgo && linux && (amd64 || arm64)

package engine

import (
	"os"
	"testing"

	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
)

// TestOnCUDA runs tests of the operations on the GPU's kernels, which the host runs at a thousandth of a GPU's speed:
// the short ones, or all that the stand-in device of TestStandIn runs with SLUICE_EMULATED=all (make cuda-emulated).
func TestOnCUDA(t *testing.T) {
	race.Skip(t)
	choice := "-test.run=^Test(OpsEqualReference|Brackets|CanonicalDistribution|Product|BoundaryDecisions|Properties|OfNothing)$"
	if os.Getenv("SLUICE_EMULATED") == "all" {
		choice = "-test.skip=^Test(OnCUDA|StandIn|DeviceFaults|IndexBoundaries|CUDA.*)$"
	}
	devicetest.RunOnCUDA(t, drivertest.Build(t), choice)
}
