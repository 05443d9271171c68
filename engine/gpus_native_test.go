//go:build native && cgo && linux && (amd64 || arm64)

package engine

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/kernels"
)

// TestCUDA: the engine on the stand-in for the driver, with the kernels of a GPU: the same bits as on the CPU, on one
// device and on two.
func TestCUDA(t *testing.T) {
	driver := drivertest.Open(t)
	driver.Set("devices", 2)
	t.Setenv("SLUICE_CACHE", t.TempDir())
	rng := rand.New(rand.NewPCG(121, 1))
	want := newEngine(t, Options{Device: DeviceCPU, Threads: 2})
	for _, name := range []string{"cuda:0", "cuda"} {
		e, err := New(Options{Device: name, Threads: 2, DeviceMemory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		c := e.Describe()
		if both := name == DeviceCUDA; !strings.Contains(c.Device, "cuda:0") ||
			both != strings.Contains(c.Device, "cuda:1") {
			t.Errorf("%s: %+v", name, c)
		}
		for _, metric := range metrics {
			sameSearches(t, want, e, vectors(rng, 3, 24, 24), vectors(rng, 1300, 24, 25), metric)
		}
		in := partInput(kernels.Cosine, 5, 0)
		a, err := want.Distribution(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.Distribution(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		sameStatistics(t, name, a, b)
		if !strings.HasPrefix(b.Way.Device, "cuda:0") {
			t.Errorf("%+v", b.Way)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(Options{Device: "cuda:7"}); !errors.Is(err, ErrDevice) {
		t.Errorf("a GPU that is not there: %v", err)
	}
}

// TestCUDAUnavailable: the reason why there is no GPU is the driver's. A process opens one driver only, so the test has
// a process of its own.
func TestCUDAUnavailable(t *testing.T) {
	const nowhere = "/nowhere/libcuda.so.1"
	if os.Getenv(cuda.EnvLibrary) != nowhere {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCUDAUnavailable$")
		cmd.Env = append(os.Environ(), cuda.EnvLibrary+"="+nowhere)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if _, err := New(Options{Device: DeviceCUDA}); !errors.Is(err, ErrDevice) || !errors.Is(err, cuda.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
