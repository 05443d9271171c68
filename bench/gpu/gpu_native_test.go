//go:build native && cgo && linux && (amd64 || arm64)

package gpu_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// TestOnStandIn checks that every workload runs on the GPU's kernels with the CPU's results, and that the report says
// that no figure counts.
func TestOnStandIn(t *testing.T) {
	t.Setenv("SLUICE_CACHE", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.Open(t)
	o := small()
	rows, kept := 0, 0
	o.Row = func(gpu.Row) { rows++ }
	o.Keep = func(r *gpu.Report) error {
		if kept++; len(r.Rows) != rows {
			t.Errorf("%d of %d rows are kept", len(r.Rows), rows)
		}
		return nil
	}
	r, err := gpu.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.StandIn || len(r.Rows) != rows || len(r.Break) != 2 || kept != len(o.Workloads) {
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
		if w == gpu.Fused {
			continue // TestPeers
		}
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

// TestPeers checks with stand-ins that cuBLASLt and PyTorch do the same work, and that missing ones are noted.
func TestPeers(t *testing.T) {
	t.Setenv("SLUICE_CACHE", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.Open(t)
	python, err := filepath.Abs("../../third_party/python/bin/python3")
	if _, serr := os.Stat(python); err != nil || serr != nil {
		t.Skipf("SKIP: no Python with NumPy (make python): %v", errors.Join(err, serr))
	}
	modules, err := filepath.Abs("testdata/modules")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", modules)
	library := filepath.Join(t.TempDir(), "libcublasLt.so.13")
	if out, err := exec.CommandContext(t.Context(), "g++", "-std=c++17", "-shared", "-fPIC", "-O1", "-o", library,
		"testdata/cublaslt.cpp").CombinedOutput(); err != nil {
		t.Skipf("SKIP: %v\n%s", err, out)
	}
	o := small()
	o.Workloads, o.Peers, o.Python, o.CuBLASLt = []string{gpu.Search, gpu.Fused}, gpu.Peers(), python, library
	r, err := gpu.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, row := range r.Rows {
		rows[row.Workload+" "+row.Impl]++
		if !row.Same || row.Workload == gpu.Fused && !(row.OfGEMM > 0) {
			t.Errorf("%+v", row)
		}
	}
	if rows["search torch"] != 4 || rows["fused "] != 1 || rows["fused cublaslt"] != 1 ||
		r.Versions["cublaslt"] != "13.1.0" || r.Versions["torch"] != "1.0" || !(r.CopyRate > 0) {
		t.Errorf("%v, %v, copies %g", rows, r.Versions, r.CopyRate)
	}
	for _, says := range []string{"faissgpu is not installed", "cuvs is not installed"} {
		if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, says) }) {
			t.Errorf("%q do not say %q", r.Notes, says)
		}
	}
	o.CuBLASLt, o.Peers, o.Workloads = library+".none", nil, []string{gpu.Fused}
	if r, err = gpu.Run(t.Context(), o); err != nil || len(r.Rows) != 1 || r.Rows[0].OfGEMM != 0 ||
		!strings.Contains(strings.Join(r.Notes, "\n"), "cublaslt is not installed") {
		t.Errorf("%v, %+v", err, r)
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
