package doctor

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/kernels/cuda/image"
)

// noGPU requires a line with the reason why there is no GPU, not marked as a failure. A process that has opened a
// driver keeps it, so this comes first.
func noGPU(t *testing.T) {
	t.Helper()
	t.Setenv(cuda.EnvLibrary, "/none/libcuda.so.1")
	checks := gpus(t.Context(), Options{})
	want := "none: no CUDA driver: /none/libcuda.so.1"
	if !cuda.Available {
		want = "none: this program was built without the native parts"
	}
	if len(checks) != 1 || checks[0].Status != Missing || !strings.HasPrefix(checks[0].Detail, want) ||
		checks[0].Hint == "" ||
		checks[0].Bad() {
		t.Errorf("%+v, want %q", checks, want)
	}
}

func TestGPULine(t *testing.T) {
	parts, err := cuda.ImageParts(image.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	h100 := cuda.Info{Ordinal: 1, Name: "NVIDIA H100 PCIe", Capability: [2]int{9, 0}, Memory: 80 << 30,
		Driver:        "13.0 (580.65.06)",
		DriverVersion: 13000, Multiprocessors: 114}
	old, ancient := h100, h100
	old.Driver, old.DriverVersion = "12.4", 12040
	ancient.Capability = [2]int{6, 1}
	for _, c := range []struct {
		info   cuda.Info
		status Status
		want   []string
	}{
		{h100, OK,
			[]string{"1: NVIDIA H100 PCIe, compute capability 9.0, 114 multiprocessors, 80.0 GiB",
				"CUDA 13.0 (580.65.06)",
				"it runs the kernels for sm_90a"}},
		{old, Missing, []string{"the driver is too old: it supports CUDA 12.4, the compiled kernels need 13.0"}},
		{ancient, Missing, []string{"no image for this device: compute capability 6.1; there are"}},
	} {
		got := gpu(c.info, parts)
		for _, want := range c.want {
			if got.Status != c.status || got.Bad() || !strings.Contains(got.Detail, want) ||
				(got.Hint == "") != (c.status == OK) {
				t.Errorf("%+v, want %q", got, want)
			}
		}
	}
}
