package embed

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrDevice: a GPU was asked for, and it cannot be used; the reason is told.
var ErrDevice = errors.New("embed: the device is not available")

// The names of devices (Options.Device).
const (
	DeviceCPU  = "cpu"  // the default
	DeviceCUDA = "cuda" // the first NVIDIA GPU; "cuda:1" is the second. ErrDevice where it cannot be used
	DeviceAuto = "auto" // the first NVIDIA GPU where it can be used, and else the CPU
)

// place is a parsed device name.
type place struct {
	gpu     bool
	ordinal int
	must    bool // ErrDevice where there is no GPU
}

func parsePlace(name string) (place, error) {
	switch name {
	case "", DeviceCPU:
		return place{}, nil
	case DeviceAuto:
		return place{gpu: true}, nil
	case DeviceCUDA:
		return place{gpu: true, must: true}, nil
	}
	if number, ok := strings.CutPrefix(name, DeviceCUDA+":"); ok {
		if n, err := strconv.ParseUint(number, 10, 16); err == nil {
			return place{gpu: true, ordinal: int(n), must: true}, nil
		}
	}
	return place{}, fmt.Errorf("%w: %q; cpu, cuda, cuda:N or auto expected", ErrDevice, name)
}

// The libraries of ONNX Runtime's build for NVIDIA GPUs, as the wheel onnxruntime-gpu 1.31.1 has them
// (third_party/cuda/onnxruntime-requirements.txt).
const (
	gpuLibrary         = "libonnxruntime.so.1.31.1"
	gpuLibraryDigest   = "sha256:5104254339ecadae808da771bd0b63b240f0dbd466514234905e54372435c303"
	gpuProvider        = "libonnxruntime_providers_cuda.so"
	gpuProviderDigest  = "sha256:d5290158115fa5569a3fe8f1f4037ee9b0e86658a96e52f852bbb7039aa88137"
	gpuProviderShared  = "libonnxruntime_providers_shared.so"
	gpuSharedDigest    = "sha256:086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d"
	gpuSetUp           = "make onnxruntime-cuda"
	defaultBatchOnCUDA = 16384 // tokens, padding included: a GPU is not filled by the 512 of a CPU's core
)
