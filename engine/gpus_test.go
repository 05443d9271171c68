package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// TestOnGPU runs tests of the package again, on the CPU and a stand-in for a GPU that is asked for: not those that are
// about the CPU's formats and memory, take minutes on the stand-in, or open devices of their own.
func TestOnGPU(t *testing.T) {
	if !cuda.Available {
		t.Skip("SKIP: takes a minute, and runs with the tag native")
	}
	devicetest.RunAgainGPU(t, "^Test(Device|IndexBound|IndexAllocations|IndexReads|IndexM|BoundedDistribution|Biased|"+
		"KeepDistribution|OnCUDA|StandIn|NewRefuses|Describe|Format|BoundedMatrixErrors|PartsOfCoarse|.*Memory|Set|OneTile|"+
		"Resume|Killed|Checkpoint|Many|Brackets|CUDA|Auto|NoGPU|GPU|Resident|Dependencies|Vendoring|Cancel)")
}

// withGPUs returns an engine on the CPU with so many stand-ins as GPUs.
func withGPUs(t testing.TB, o Options, gpus int, change func(d *devicetest.StandIn)) (*Engine, []*devicetest.StandIn) {
	t.Helper()
	var all []*devicetest.StandIn
	var opens atomic.Int32
	e, err := newOn(o, func(k cpu.Kernels) device.Device { return device.NewCPU(k) },
		func(_ []int, _ int64, k cpu.Kernels) (device.Device, string, func() error, error) {
			if opens.Add(1) > 1 {
				t.Error("the GPUs are opened twice")
			}
			var of []device.Device
			for range gpus {
				d := devicetest.NewStandIn(k)
				d.Memory = 64 << 20
				if change != nil {
					change(d)
				}
				all, of = append(all, d), append(of, d)
			}
			if gpus == 1 {
				return of[0], "", func() error { return nil }, nil
			}
			return device.NewSeveral(of), "", func() error { return nil }, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		for i, d := range all {
			if d.Live() != 0 {
				t.Errorf("GPU %d: %d sets and copies are left", i, d.Live())
			}
		}
	})
	return e, all
}

func TestDeviceNames(t *testing.T) {
	for name, want := range map[string]struct {
		forced   bool
		ordinals []int
	}{"": {}, "auto": {}, "cuda": {forced: true}, "cuda:0": {true, []int{0}}, "cuda:12": {true, []int{12}}} {
		_, forced, ordinals, err := parseDevice(name)
		if err != nil || forced != want.forced || !cmp.Equal(ordinals, want.ordinals) {
			t.Errorf("%q: %v, %v, %v", name, forced, ordinals, err)
		}
	}
	for _, name := range []string{"gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:1,2"} {
		_, err := New(Options{Device: name})
		if !errors.Is(err, ErrDevice) || !errors.Is(err, kernels.ErrArgument) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := New(Options{DeviceMemory: -1}); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("negative memory: %v", err)
	}
}

// TestNoGPU: a GPU that was asked for and is not there is an error with the reason; one that was not is not.
func TestNoGPU(t *testing.T) {
	for _, name := range []string{"cuda", "cuda:1"} {
		if _, err := open2(Options{Device: name}); !errors.Is(err, ErrDevice) || !errors.Is(err, errNoGPU) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv(EnvDevice, "cuda")
	if _, err := open2(Options{}); !errors.Is(err, errNoGPU) {
		t.Errorf("%s: %v", EnvDevice, err)
	}
	if e, err := open2(Options{Device: "cpu"}); err != nil || e.gpus != nil {
		t.Errorf("the option goes before the environment: %v", err)
	}
	t.Setenv(EnvDevice, "")
	e, err := open2(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := e.Describe(); c.Device != "cpu" || !strings.Contains(c.Reason, "too little to compute") {
		t.Errorf("before: %+v", c)
	}
	if _, err := e.Costs(t.Context()); !errors.Is(err, ErrDevice) || !errors.Is(err, errNoGPU) {
		t.Errorf("costs: %v", err)
	}
	if c := e.Describe(); !strings.Contains(c.Reason, errNoGPU.Error()) {
		t.Errorf("after: %+v", c)
	}
	d, err := e.Distribution(t.Context(), partInput(kernels.Cosine, 0, 0))
	if err != nil || d.Way.Device != "cpu" || !strings.Contains(d.Way.Choice, errNoGPU.Error()) {
		t.Errorf("%+v, %v", d.Way, err)
	}
}

func open2(o Options) (*Engine, error) {
	return newOn(o, func(k cpu.Kernels) device.Device { return device.NewCPU(k) }, noGPU)
}

// TestGPUEqualsCPU: every operation has the CPU's bits on one GPU, on two, and where the memory of one does not do, so
// that tiles become smaller and the CPU takes over. The race detector, with which this takes long, sees one metric: the
// goroutines are the same for each.
func TestGPUEqualsCPU(t *testing.T) {
	metrics := metrics
	if race.Enabled {
		metrics = metrics[:1]
	}
	rng, ctx := rand.New(rand.NewPCG(117, 1)), context.Background()
	want := newEngine(t, Options{Device: DeviceCPU, Threads: 2})
	for name, c := range map[string]struct {
		gpus   int
		change func(*devicetest.StandIn)
		way    string
	}{
		"one":         {1, nil, "GPU: asked for"},
		"two":         {2, nil, "GPU: asked for"},
		"little room": {1, func(d *devicetest.StandIn) { d.Room = 100_000 }, "of its memory at a time"},
		"no room":     {1, func(d *devicetest.StandIn) { d.Fault = device.ErrMemory; d.FailAt("Pairs", 1) }, "CPU: "},
	} {
		e, all := withGPUs(t, Options{Device: DeviceCUDA, Threads: 2}, c.gpus, nil)
		for _, d := range all {
			if c.change != nil {
				c.change(d)
			}
		}
		for _, metric := range metrics {
			in := partInput(metric, 5, 0)
			a, err := want.Distribution(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			b, err := e.Distribution(ctx, in)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, metric, err)
			}
			sameStatistics(t, name, a, b)
			if !strings.Contains(b.Way.Choice, c.way) {
				t.Errorf("%s: %q, %q", name, b.Way.Choice, b.Way.Device)
			}
			q, v := vectors(rng, 20, 24, 24), vectors(rng, 1800, 24, 25)
			sameSearches(t, want, e, q, v, metric)
		}
	}
}

// sameSearches compares every search of v with plain vectors, and with a prepared set from which rows are deleted and
// to which some are added.
func sameSearches(t *testing.T, want, e *Engine, q, v Vectors, metric kernels.Metric) {
	t.Helper()
	rng, ctx := rand.New(rand.NewPCG(5, 5)), context.Background()
	bias := make([]Biases, q.Rows)
	for i := range bias {
		switch list := manyBiases(rng, v.Rows, .02, .3); i % 3 {
		case 0:
			bias[i] = list
		case 1:
			bias[i] = computed{list}
		}
	}
	for _, k := range []int{1, 1100} {
		for _, b := range [][]Biases{nil, bias} {
			w, err := want.TopK(ctx, q, v, metric, k, b)
			if err != nil {
				t.Fatal(err)
			}
			g, err := e.TopK(ctx, q, v, metric, k, b)
			if diff := difference(w, g, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatalf("%s, k %d: %v\n%s", metric, k, err, diff)
			}
		}
	}
	x, y := prepare(t, want, v, metric, SetOptions{}), prepare(t, e, v, metric, SetOptions{})
	for step := range 3 {
		tau := 0.
		for _, b := range [][]Biases{nil, bias} {
			w, err := x.TopK(ctx, q, 7, b)
			if err != nil {
				t.Fatal(err)
			}
			g, err := y.TopK(ctx, q, 7, b)
			if diff := difference(w, g, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatalf("%s, step %d: %v\n%s", metric, step, err, diff)
			}
			tau = w[0][0].Score // the boundary: strictly better than the best is nothing
			wd, err := x.AnyAboveAll(ctx, q, b, tau)
			if err != nil {
				t.Fatal(err)
			}
			gd, err := y.AnyAboveAll(ctx, q, b, tau)
			if err != nil || gd[0].Above {
				t.Fatalf("%s, step %d: %v, %+v at the boundary", metric, step, err, gd[0])
			}
			for i := range wd {
				if wd[i].Above != gd[i].Above || gd[i].Above && !metric.Better(gd[i].Score, tau) {
					t.Fatalf("%s, step %d, query %d: %+v, want %+v", metric, step, i, gd[i], wd[i])
				}
			}
		}
		gone := []int{step, 17 * step, v.Rows - 1 - step}
		more := vectors(rng, 40*(step+1), v.Dim, v.Dim)
		if err := errors.Join(x.Delete(gone...), y.Delete(gone...), x.Append(ctx, more),
			y.Append(ctx, more)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResident: what a GPU holds of a prepared set stays when rows come and go, and goes with the set.
func TestResident(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(118, 1)), context.Background()
	e, gpus := withGPUs(t, Options{Device: DeviceCUDA, Threads: 2}, 1,
		func(d *devicetest.StandIn) { d.Memory = 8 << 20 })
	d := gpus[0]
	v, q := plain(rng, 5000, 32), plain(rng, 2, 32)
	s := prepare(t, e, v, kernels.Cosine, SetOptions{})
	search := func() {
		t.Helper()
		if _, err := s.TopK(ctx, q, 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	search()
	held := s.Describe().OnGPU
	if rows := int64(4 * v.Rows * v.Dim); held < rows || !strings.Contains(s.Describe().Choice, "GPU") {
		t.Fatalf("%d bytes on the GPU, %d are the rows; %s", held, rows, s.Describe().Choice)
	}
	for name, change := range map[string]func() error{
		"nothing": func() error { return nil },
		"deleted": func() error { return s.Delete(4, 5) },
		"added":   func() error { return s.Append(ctx, plain(rng, 30, 32)) },
	} {
		d.FailAt("", 0)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		search()
		uploads := 1 // of the queries
		if name == "added" {
			uploads++
		}
		if d.Calls("Upload") != uploads {
			t.Errorf("%s: %d copies to the GPU, want %d", name, d.Calls("Upload"), uploads)
		}
	}
	other := prepare(t, e, plain(rng, 20_000, 32), kernels.Cosine, SetOptions{NoIndex: true})
	if _, err := other.TopK(ctx, q, 3, nil); err != nil {
		t.Fatal(err)
	}
	if s.Describe().OnGPU >= held {
		t.Errorf("%d bytes of a set that was not used for longest stay beside one that needs the room",
			s.Describe().OnGPU)
	}
	s.Close()
	other.Close()
	if d.Live() != 0 {
		t.Errorf("%d sets and copies outlive their sets", d.Live())
	}
}

// TestPartsOfBoth: parts counted on a GPU and on the CPU merge to the bits of one run.
func TestPartsOfBoth(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(119, 1)), context.Background()
	host := newEngine(t, Options{Device: DeviceCPU, Threads: 2})
	gpu, _ := withGPUs(t, Options{Device: DeviceCUDA, Threads: 2}, 2, nil)
	for _, metric := range metrics {
		in := partInput(metric, 0, 0)
		want, err := host.Distribution(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := host.DistributionBrackets(ctx, in, .01)
		if err != nil {
			t.Fatal(err)
		}
		var parts []*Part
		cut := cuts(rng, in.Contexts.Rows)
		for i := range len(cut) - 1 {
			e, of := []*Engine{host, gpu}[i%2], in
			dtype := kernels.F32
			of.DType = &dtype
			p, err := e.DistributionPart(ctx, of, b,
				Block{Contexts: [2]int{cut[i], cut[i+1]}, Queries: [2]int{0, in.Queries.Rows}})
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, travelled(t, p))
		}
		got, err := gpu.MergeDistribution(ctx, in, b, parts...)
		if err != nil {
			t.Fatal(err)
		}
		sameStatistics(t, fmt.Sprintf("%v in %d parts", metric, len(parts)), want, got)
	}
}

// TestAuto: a GPU is looked for when there is enough to compute, not before, and its costs are measured once for a
// machine.
func TestAuto(t *testing.T) {
	t.Setenv("SLUICE_CACHE", t.TempDir())
	var text strings.Builder
	var opens, closes atomic.Int32
	start := func() *Engine {
		e, err := newOn(Options{Threads: 2, Logger: slog.New(slog.NewTextHandler(&text, nil))},
			func(k cpu.Kernels) device.Device { return device.NewCPU(k) },
			func(_ []int, _ int64, k cpu.Kernels) (device.Device, string, func() error, error) {
				opens.Add(1)
				d := devicetest.NewStandIn(k)
				d.Memory = 1 << 30
				return d, "stand-in of a test", func() error { closes.Add(1); return nil }, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	rng, ctx := rand.New(rand.NewPCG(120, 1)), context.Background()
	a, b := plain(rng, 64, 32), plain(rng, 64, 32)
	e := start()
	if _, err := e.TopK(ctx, a, b, kernels.Cosine, 3, nil); err != nil || opens.Load() != 0 {
		t.Errorf("%v, %d GPUs were opened for a small search", err, opens.Load())
	}
	first, err := e.Costs(ctx)
	if err != nil || first.Cached || opens.Load() != 1 {
		t.Errorf("%+v, %v, %d opened", first, err, opens.Load())
	}
	if c := e.Describe(); !strings.HasPrefix(c.Device, "auto: cpu or stand-in") || !strings.Contains(c.Reason, "GB/s") {
		t.Errorf("%+v", c)
	}
	d, err := e.Distribution(ctx, partInput(kernels.Cosine, 0, 0))
	// Which one is faster is measured, and a loaded machine can measure either.
	gpu := strings.HasPrefix(d.Way.Choice, "GPU: ")
	if err != nil || gpu != (d.Way.Device == "stand-in") || !strings.Contains(d.Way.Choice, "stand-in in about") {
		t.Errorf("%+v, %v", d.Way, err)
	}
	again := start()
	second, err := again.Costs(ctx)
	if err != nil || !second.Cached || !cmp.Equal(first.GPU, second.GPU) || second.Key != first.Key {
		t.Errorf("%+v, %v, measured before: %+v", second, err, first)
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("SLUICE_CACHE"), "device", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := start()
	if c, err := third.Costs(ctx); err != nil || c.Cached {
		t.Errorf("a damaged cache: %+v, %v", c, err)
	}
	if err := errors.Join(e.Close(), again.Close(), third.Close(), third.Close()); err != nil || closes.Load() != 3 {
		t.Errorf("%v, %d closed", err, closes.Load())
	}
	if _, err := third.TopK(ctx, a, b, kernels.Cosine, 3, nil); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if !strings.Contains(text.String(), "GPU is ready") {
		t.Errorf("the log: %s", &text)
	}
}
