//go:build native && cgo && linux && (amd64 || arm64)

package engine

import (
	"testing"

	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
)

// TestOnCUDA runs the tests of the operations on the GPU's kernels.
func TestOnCUDA(t *testing.T) {
	devicetest.RunOnCUDA(t, drivertest.Build(t), "^Test(Distribution|Matrix|Part|BoundedMatrix|Product)")
}
