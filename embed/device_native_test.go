//go:build native && cgo && linux && (amd64 || arm64)

package embed

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// TestGPUThatIsNotThere: the reason is told, and automatic choice goes on on the CPU.
func TestGPUThatIsNotThere(t *testing.T) {
	needLibrary(t)
	dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert"})
	cpu, err := findLibrary("", libraryDigest())
	if err != nil {
		t.Fatal(err)
	}
	refused := func(o Options, want ...string) {
		t.Helper()
		e, err := Open(t.Context(), dir, o)
		if err == nil {
			_ = e.Close()
		}
		if !errors.Is(err, ErrDevice) {
			t.Fatalf("%+v: %v, ErrDevice expected", o, err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not name %q", err, w)
			}
		}
	}
	t.Setenv("SLUICE_LIBCUDA", filepath.Join(t.TempDir(), "libcuda.so.1"))
	// The driver of an earlier run of this test stays.
	if _, err := cuda.Devices(); errors.Is(err, cuda.ErrUnavailable) {
		refused(Options{Device: "cuda"}, "cuda:0", "libcuda.so.1")
		if _, err := Open(t.Context(), dir, Options{Device: "cuda"}); !errors.Is(err, cuda.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	driver := drivertest.OpenSmall(t)
	cache := t.TempDir()
	t.Setenv("SLUICE_CACHE", cache)
	t.Setenv("SLUICE_ONNXRUNTIME", "")
	driver.Set("devices", 0)
	refused(Options{Device: "cuda"}, "no CUDA-capable device")
	driver.Set("devices", 1)
	refused(Options{Device: "cuda:1"}, "cuda:1", "1 GPU")
	refused(Options{Device: "cuda"}, gpuLibrary, gpuSetUp, cache)
	refused(Options{Device: "cuda", DeviceMemory: -1}, "-1 bytes")
	refused(Options{Device: "gpu"}, `"gpu"`)
	// A library that was not made for GPUs, as the one that is named, and in place of the one that is searched.
	refused(Options{Device: "cuda", Library: cpu}, cpu, "CUDA")
	refused(Options{Device: "cuda", Precision: Int8, Library: cpu}, "int8")
	refused(Options{Device: "cuda", Library: cpu + ".none"}, cpu+".none")
	lib := filepath.Join(cache, "out", "libonnxruntime-cuda-0", "lib")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, lib, gpuLibrary, "another")
	refused(Options{Device: "cuda"}, filepath.Join(lib, gpuLibrary), gpuLibraryDigest)

	e := openEncoder(t, dir, Options{Device: "auto", Library: cpu})
	if p := e.Info().Runtime.Provider; p != "cpu" {
		t.Errorf("provider %q", p)
	}
}
