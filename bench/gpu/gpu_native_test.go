//go:build native && cgo && linux && (amd64 || arm64)

package gpu_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/bench/gpu"
	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/engine"
)

func small() gpu.Options {
	return gpu.Options{Workloads: gpu.Workloads(), Contexts: []int{70}, Queries: 40, Dims: []int{33}, Rounds: 1,
		Threads: 1, Device: "cuda"}
}

// TestOnStandIn: every workload runs on the GPU's kernels with the CPU's results, and the report says that no figure
// counts.
func TestOnStandIn(t *testing.T) {
	t.Setenv("SLUICE_CACHE", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.Open(t)
	o := small()
	rows := 0
	o.Row = func(gpu.Row) { rows++ }
	r, err := gpu.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.StandIn || len(r.Rows) != rows || len(r.Break) != 2 {
		t.Errorf("stand-in %v, %d of %d rows, %d break-even points", r.StandIn, len(r.Rows), rows, len(r.Break))
	}
	seen := map[string]bool{}
	for _, row := range r.Rows {
		seen[row.Workload+" "+row.Device+" "+row.State] = true
		if !row.Same || !(row.Median > 0) || row.Device == "gpu" && row.Bytes == 0 {
			t.Errorf("%+v", row)
		}
	}
	for _, w := range gpu.Workloads() {
		for _, on := range []string{" cpu warm", " gpu cold", " gpu warm"} {
			if (w == gpu.Interval || w == gpu.Pairs) &&
				on == " cpu warm" { // for numbers of pairs that a CPU is not asked for
				continue
			}
			if w == gpu.Decision && on == " gpu cold" { // what a GPU does not keep is not scanned
				continue
			}
			if !seen[w+on] {
				t.Errorf("no row of %s%s", w, on)
			}
		}
	}
	var text strings.Builder
	if err := r.Markdown(&text); err != nil || !strings.Contains(text.String(), "not a GPU, no figure counts") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if err := r.Write(filepath.Join(t.TempDir(), "results")); err != nil {
		t.Error(err)
	}
}

// TestWithoutGPU: the reason is told.
func TestWithoutGPU(t *testing.T) {
	driver := drivertest.Open(t)
	driver.Set("devices", 0)
	if _, err := gpu.Run(t.Context(), small()); !errors.Is(err, engine.ErrDevice) {
		t.Errorf("%v", err)
	}
}

func TestOptions(t *testing.T) {
	o := small()
	o.Rounds = 0
	if _, err := gpu.Run(t.Context(), o); !errors.Is(err, gpu.ErrOption) || !strings.Contains(err.Error(), "given 0") {
		t.Errorf("%v", err)
	}
}
