//go:build native

package embed

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/cuda"
)

// provider is the execution provider of a session: ONNX Runtime's CPU provider, whose graphs use Sluice's own
// operators, or its CUDA provider, which supports ONNX's operators only.
type provider struct {
	standard bool // graphs of ONNX's operators, over padded batches
	library  string
	name     string // of Runtime
	isa      string
	options  map[string]string // of the CUDA provider; nil for the CPU
}

// onCPU returns the provider that is used if no GPU is requested.
func onCPU(o Options) (*provider, error) {
	library, err := findLibrary(o.Library, libraryDigest())
	return &provider{library: library, name: "cpu", isa: cpuISA()}, err
}

// findProvider returns the provider for a device. It does not touch a GPU unless the options ask for it.
func findProvider(o Options) (*provider, error) {
	at, err := parsePlace(o.Device)
	if err != nil {
		return nil, err
	}
	if !at.gpu {
		return onCPU(o)
	}
	p, err := onCUDA(o, at.ordinal)
	if err == nil && o.Precision == Int8 {
		err = fmt.Errorf("%w: %s is computed on the CPU only", ErrDevice, Int8)
	}
	if err != nil && !at.must {
		return onCPU(o)
	}
	return p, err
}

// GPULibrary returns the path of ONNX Runtime's build for the named GPU, or ErrDevice if the GPU cannot be used.
// Models on the CPU and on the GPU can be open at the same time if all are opened with this library (Options.Library).
func GPULibrary(device string) (string, error) {
	at, err := parsePlace(device)
	if err != nil {
		return "", err
	}
	p, err := onCUDA(Options{}, at.ordinal)
	if err != nil {
		return "", err
	}
	return p.library, nil
}

// onCUDA returns the CUDA provider on a GPU. TF32 is disabled, so that products are computed in float32.
func onCUDA(o Options, ordinal int) (*provider, error) {
	if o.DeviceMemory < 0 {
		return nil, fmt.Errorf("%w: %d bytes of its memory are less than 0", ErrDevice, o.DeviceMemory)
	}
	gpus, err := cuda.Devices()
	if err != nil {
		return nil, fmt.Errorf("%w: cuda:%d: %w", ErrDevice, ordinal, err)
	}
	if ordinal >= len(gpus) {
		return nil, fmt.Errorf("%w: cuda:%d: there are %d GPUs", ErrDevice, ordinal, len(gpus))
	}
	library, err := findGPULibrary(o.Library)
	if err != nil {
		return nil, err
	}
	c := gpus[ordinal].Capability
	p := &provider{standard: true, library: library, name: DeviceCUDA, isa: fmt.Sprintf("sm_%d%d", c[0], c[1]),
		options: map[string]string{"device_id": strconv.Itoa(ordinal), "use_tf32": "0",
			"arena_extend_strategy": "kSameAsRequested"}}
	if o.DeviceMemory > 0 {
		p.options["gpu_mem_limit"] = strconv.FormatInt(o.DeviceMemory, 10)
	}
	return p, nil
}

// defaultBatchTokens keeps the activations of a batch in a core's cache: on two shared cores, all-MiniLM embedded 2.3
// times as many sentences per CPU second with 512 as with 4096; 128 to 512 were equal.
const defaultBatchTokens = 512

// batchTokens returns the default number of tokens of a batch.
func (p *provider) batchTokens() int {
	if p.options != nil {
		return defaultBatchOnCUDA
	}
	return defaultBatchTokens
}

// add adds the CUDA provider to a session's options, which opens its library and looks for its GPU.
func (p *provider) add(o *ort.SessionOptions) error {
	if p.options == nil {
		return nil
	}
	if err := openNVIDIA(filepath.Dir(p.library)); err != nil {
		return err
	}
	c, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return fmt.Errorf("%w: %s has no CUDA provider: %w", ErrDevice, p.library, err)
	}
	err = c.Update(p.options)
	if err == nil {
		err = o.AppendExecutionProviderCUDA(c)
	}
	if err = errors.Join(err, c.Destroy()); err != nil {
		return fmt.Errorf("%w: %w", ErrDevice, err)
	}
	return nil
}

// openNVIDIA opens NVIDIA's libraries in a folder created by the set-up, so that the provider finds them by name.
// Libraries that are missing there are taken from the system.
func openNVIDIA(dir string) error {
	for _, name := range []string{"libcudart.so.13", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13",
		"libcurand.so.10", "libcudnn.so.9"} {
		if path := filepath.Join(dir, name); exists(path) {
			if err := openForAll(path); err != nil {
				return fmt.Errorf("%w: %w", ErrDevice, err)
			}
		}
	}
	return nil
}
