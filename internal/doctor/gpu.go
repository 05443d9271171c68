package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/kernels/cuda/image"
)

const gpuName = "GPU"

// gpus reports the GPUs and which of the compiled kernels they run, or why there is no GPU. That is not a failure,
// because everything runs on the CPU as well.
func gpus(context.Context, Options) []Check {
	list, err := cuda.Devices()
	if errors.Is(err, cuda.ErrUnavailable) {
		return one(Check{Name: gpuName, Status: Missing, Detail: "none: " + reason(err),
			Hint: "nothing to do: the CPU is used; with an NVIDIA GPU, install its driver"})
	}
	if err != nil {
		return failed(gpuName, err, "the driver answers with an error: nvidia-smi, and the system's log, may say more")
	}
	parts, err := cuda.ImageParts(image.Bytes())
	if err != nil {
		return failed(gpuName, err, "this program was put together wrongly: make build")
	}
	var checks []Check
	for _, i := range list {
		checks = append(checks, gpu(i, parts))
	}
	return checks
}

// reason returns an error's text without the sentinel that it starts with.
func reason(err error) string {
	return strings.TrimPrefix(err.Error(), cuda.ErrUnavailable.Error()+": ")
}

// gpu reports one device and the part of the image that it runs.
func gpu(i cuda.Info, parts []cuda.ImagePart) Check {
	c := Check{Name: gpuName, Status: OK, Detail: fmt.Sprintf(
		"%d: %s, compute capability %d.%d, %d multiprocessors, %.1f GiB; the driver supports CUDA %s", i.Ordinal,
		i.Name, i.Capability[0], i.Capability[1], i.Multiprocessors, float64(i.Memory)/(1<<30), i.Driver)}
	fit, err := cuda.Fits(parts, i.Capability, i.DriverVersion)
	switch {
	case errors.Is(err, cuda.ErrTooOld):
		c.Status, c.Hint = Missing, "a newer NVIDIA driver (r580 is the first of CUDA 13.0); until then the CPU is used"
		c.Detail += ": " + err.Error()
	case err != nil:
		c.Status, c.Hint = Missing, "nothing to do: the CPU is used"
		c.Detail += ": " + reason(err)
	default:
		c.Detail += fmt.Sprintf("; it runs the kernels for %s", fit)
	}
	return c
}
