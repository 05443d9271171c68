package engine

import (
	"errors"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// openCUDA opens NVIDIA GPUs.
func openCUDA([]int, int64, cpu.Kernels) (device.Device, string, func() error, error) {
	return nil, "", nil, errors.New("this build has no GPU backend")
}
