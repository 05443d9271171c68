//go:build native && cgo && linux && (amd64 || arm64)

package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// TestCUDA: the engine on the stand-in for the driver, with the kernels of a GPU: the same bits as on the CPU, on one
// device and on two.
func TestCUDA(t *testing.T) {
	metrics := metrics
	if race.Enabled {
		metrics = metrics[:1]
	}
	twoDevices(t)
	rng := rand.New(rand.NewPCG(121, 1))
	want := newEngine(t, Options{Device: DeviceCPU, Threads: 2})
	for _, name := range []string{"cuda:0", "cuda"} {
		e, err := New(Options{Device: name, Threads: 2, DeviceMemory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		c := e.Describe()
		if both := name == DeviceCUDA && !onRealGPU(); !strings.Contains(c.Device, "cuda:0") ||
			both && !strings.Contains(c.Device, "cuda:1") {
			t.Errorf("%s: %+v", name, c)
		}
		if !onRealGPU() && !strings.HasSuffix(c.Reason, "; tiles of tensor cores: wgmma and TMA") {
			t.Errorf("%s: %s", name, c.Reason)
		}
		for _, metric := range metrics {
			e.scanRows = 0 // tiles
			sameSearches(t, want, e, vectors(rng, 3, 24, 24), vectors(rng, 1300, 24, 25), metric)
			e.scanRows = 1
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

// onRealGPU tells that the tests are to run on the machine's own driver: the bundle for a GPU machine asks for that.
func onRealGPU() bool { return os.Getenv("SLUICE_TEST_GPU") != "" }

// twoDevices opens the stand-in driver with two devices, unless the machine's GPUs are asked for.
func twoDevices(t *testing.T) {
	t.Setenv("SLUICE_CACHE", t.TempDir())
	if !onRealGPU() {
		drivertest.Open(t).Set("devices", 2)
	}
}

// TestCUDACases: random searches have the CPU's bits, at the boundary of a decision, too. SLUICE_TEST_CASES is how
// many.
func TestCUDACases(t *testing.T) {
	twoDevices(t)
	cases, _ := strconv.Atoi(os.Getenv("SLUICE_TEST_CASES"))
	e, err := New(Options{Device: DeviceCUDA, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	want, rng := newEngine(t, Options{Device: DeviceCPU, Threads: 2}), rand.New(rand.NewPCG(122, 1))
	for i := range max(cases, 20) {
		metric, dim := metrics[rng.IntN(len(metrics))], 1+rng.IntN(70)
		q, v := vectors(rng, 1+rng.IntN(5), dim, dim), vectors(rng, 1+rng.IntN(1500), dim, dim+rng.IntN(3))
		a, err := want.TopK(t.Context(), q, v, metric, 1+i%4, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.TopK(t.Context(), q, v, metric, 1+i%4, nil)
		if diff := difference(a, b); err != nil || diff != "" {
			t.Fatalf("case %d, %s, %d×%d×%d: %v\n%s", i, metric, q.Rows, v.Rows, dim, err, diff)
		}
		s := prepare(t, e, v, metric, SetOptions{NoIndex: true, ScanDims: 1 + rng.IntN(dim)})
		e.scanRows = 1 + i%2*(1<<20) // scans and tiles in turns
		g, err := s.TopK(t.Context(), q, 1+i%4, nil)
		if diff := difference(a, g); err != nil || diff != "" {
			t.Fatalf("case %d, %s, %d×%d×%d, prepared: %v\n%s", i, metric, q.Rows, v.Rows, dim, err, diff)
		}
		d, err := s.AnyAboveAll(t.Context(), q, nil, a[0][0].Score)
		if err != nil || d[0].Above {
			t.Fatalf("case %d, %s: %v, %+v is better than the best", i, metric, err, d[0])
		}
		below := math.Nextafter(a[0][0].Score, metric.Worst())
		if d, err = s.AnyAboveAll(t.Context(), q, nil, below); err != nil || !d[0].Above ||
			d[0].Score != a[0][0].Score {
			t.Fatalf("case %d, %s: %v, %+v; the best is %v", i, metric, err, d[0], a[0][0])
		}
		s.Close()
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
