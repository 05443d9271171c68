// Package devicetest has a device for tests that is as unlike the CPU as the interface allows, and a test of
// what device.Device promises, for every implementation.
package devicetest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/gpu"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// ErrInjected is the failure that FailAt asks for.
var ErrInjected = errors.New("injected failure")

// StandIn is a device in plain Go that takes the place of a GPU in tests: sets are rows of float64, rows have copies
// of their own, tile values are off by most of the bound that it states, tasks are small, and few calls run at a
// time. It keeps count of what is not given back, and fails when asked to.
type StandIn struct {
	Memory int64 // Info.Memory
	Packs  int   // Info.PackBytes
	Fault  error // what FailAt fails with; nil: ErrInjected
	Room   int64 // bytes of sets and copies beyond which New and Upload are device.ErrMemory; 0: no limit

	host  cpu.Kernels
	calls chan struct{} // has room for the calls that run at once

	live    atomic.Int64 // sets and copies that were not given back
	used    atomic.Int64 // scores that were read from copies
	bytes   atomic.Int64 // of sets and copies
	peak    atomic.Int64
	mu      sync.Mutex
	count   map[string]int
	failing string
	at      int
}

var _ device.Device = (*StandIn)(nil)

// NewStandIn returns a stand-in whose canonical scores come from those kernels.
func NewStandIn(host cpu.Kernels) *StandIn {
	return &StandIn{host: host, calls: make(chan struct{}, 2), count: make(map[string]int)}
}

// Methods returns the methods that may fail.
func Methods() []string {
	return []string{"Upload", "New", "Pack", "Count", "Matrix", "Scores", "Pairs", "Code", "Scan"}
}

// FailAt lets the n-th call (from 1) of a method from now on, and all after it, fail with ErrInjected; n = 0: none.
func (d *StandIn) FailAt(method string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing, d.at = method, n
	clear(d.count)
}

// Calls returns how often a method was called since FailAt.
func (d *StandIn) Calls(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count[method]
}

// Live returns the number of sets and copies of rows that were not given back.
func (d *StandIn) Live() int64 { return d.live.Load() }

// FromCopies returns how many canonical scores were computed from copies of rows.
func (d *StandIn) FromCopies() int64 { return d.used.Load() }

// enter waits for its turn. Every call of a method that computes begins with it; leave ends it.
func (d *StandIn) enter(method string) (leave func(), err error) {
	d.mu.Lock()
	d.count[method]++
	fails := method == d.failing && d.at > 0 && d.count[method] >= d.at
	d.mu.Unlock()
	if fails {
		return nil, fmt.Errorf("stand-in: %s: %w", method, cmp.Or(d.Fault, ErrInjected))
	}
	d.calls <- struct{}{}
	return func() { <-d.calls }, nil
}

// The sizes of tasks, in multiply-adds: neither the CPU's nor multiples of a panel's.
const (
	countWork  = 700_000
	matrixWork = 300_000
)

func (d *StandIn) Describe() device.Info {
	return device.Info{Name: "stand-in", Kernel: "standin_scores_f64", ISA: "none", CountWork: countWork,
		MatrixWork: matrixWork,
		PackBytes:  d.Packs, Memory: d.Memory}
}

func (d *StandIn) Has(t kernels.DType) bool { return t == kernels.F32 || t == kernels.BF16 }

func (d *StandIn) Bytes(_ kernels.DType, n, dim int) int64 { return 8 * int64(n) * int64(dim+2) }

// held is a copy of rows: without gaps, backwards, so that nothing works on it by accident.
type held struct {
	owner *StandIn
	rows  cpu.Rows
}

func (d *StandIn) Upload(rows cpu.Rows) (any, error) {
	leave, err := d.enter("Upload")
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := d.fits(device.CopyBytes(rows.N, rows.Dim)); err != nil {
		return nil, err
	}
	h := &held{d, cpu.Rows{Data: make([]float32, rows.N*rows.Dim), N: rows.N, Dim: rows.Dim, Stride: rows.Dim}}
	if rows.Norms != nil {
		h.rows.Norms = make([]float64, rows.N)
	}
	for i := range rows.N {
		copy(h.rows.Row(rows.N-1-i), rows.Row(i))
		if rows.Norms != nil {
			h.rows.Norms[rows.N-1-i] = rows.Norms[i]
		}
	}
	d.live.Add(1)
	d.take(h.bytes())
	return h, nil
}

// bytes returns the size of a copy.
func (h *held) bytes() int64 { return int64(h.rows.N) * (4*int64(h.rows.Dim) + 8) }

// fits returns an error if the device has no room for the bytes.
func (d *StandIn) fits(bytes int64) error {
	if used := d.bytes.Load(); d.Room > 0 && used+bytes > d.Room {
		return fmt.Errorf("stand-in: %w: %d bytes beside %d, of %d", device.ErrMemory, bytes, used, d.Room)
	}
	return nil
}

// take changes what sets and copies take.
func (d *StandIn) take(bytes int64) {
	now := d.bytes.Add(bytes)
	for old := d.peak.Load(); now > old && !d.peak.CompareAndSwap(old, now); old = d.peak.Load() {
	}
}

// Peak returns the most that sets and copies have taken at once, in bytes.
func (d *StandIn) Peak() int64 { return d.peak.Load() }

func (d *StandIn) Release(resident any) {
	if h, ok := resident.(*held); ok && h.owner == d {
		h.owner = nil
		d.live.Add(-1)
		d.take(-h.bytes())
	}
}

// read returns the rows as the device sees them, the list of those that are wanted (nil: all, in order) and whether
// they come from a copy.
func (d *StandIn) read(rows cpu.Rows, list []int32) (cpu.Rows, []int32, bool, error) {
	if rows.Resident == nil {
		return rows, list, false, nil
	}
	h, ok := rows.Resident.(*held)
	if !ok || h.owner != d || rows.First+rows.N > h.rows.N {
		return rows, nil, false,
			fmt.Errorf("%w: a copy of another device, or one that was given back", kernels.ErrArgument)
	}
	n := rows.N
	if list != nil {
		n = len(list)
	}
	at := make([]int32, n)
	for i := range at {
		row := i
		if list != nil {
			row = int(list[i])
		}
		if row < 0 || row >= rows.N {
			return rows, nil, false, fmt.Errorf("%w: row %d of %d", kernels.ErrShape, row, rows.N)
		}
		at[i] = int32(h.rows.N - 1 - rows.First - row)
	}
	return h.rows, at, true, nil
}

func (d *StandIn) Scores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	leave, err := d.enter("Scores")
	if err != nil {
		return err
	}
	defer leave()
	if a.Resident == nil && b.Resident == nil {
		return scores.Block(d.host, m, out, stride, a, b)
	}
	if a.Dim != b.Dim || stride < b.N || a.N > 0 && len(out) < (a.N-1)*stride+b.N {
		return fmt.Errorf("%w: scores of %d×%d and %d×%d", kernels.ErrShape, a.N, a.Dim, b.N, b.Dim)
	}
	rowsA, rowsB := make([]int32, b.N), make([]int32, b.N)
	for i := range a.N {
		for j := range rowsB {
			rowsA[j], rowsB[j] = int32(i), int32(j)
		}
		if err := d.pairs(m, out[i*stride:i*stride+b.N], a, rowsA, b, rowsB); err != nil {
			return err
		}
	}
	return nil
}

func (d *StandIn) Pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	leave, err := d.enter("Pairs")
	if err != nil {
		return err
	}
	defer leave()
	return d.pairs(m, out, a, rowsA, b, rowsB)
}

func (d *StandIn) pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	if rowsA == nil && a.N == 1 {
		rowsA = make([]int32, len(rowsB))
	}
	if len(rowsB) == 0 {
		return nil
	}
	a, rowsA, copied, err := d.read(a, rowsA)
	if err != nil {
		return err
	}
	b, rowsB, copiedB, err := d.read(b, rowsB)
	if err != nil {
		return err
	}
	if copied && copiedB {
		d.used.Add(int64(len(rowsB)))
	}
	return scores.Pairs(d.host, m, out, a, rowsA, b, rowsB)
}

const (
	variable = "SLUICE_TEST_DEVICE" // read by tests only
	byName   = "standin"
	onCUDA   = "cuda" // package gpu over a stand-in driver
	asGPU    = "gpu"
)

// OnStandIn tells that tests run on a StandIn instead of the CPU.
func OnStandIn() bool { return os.Getenv(variable) == byName }

// OnCUDA tells that tests run on the GPU's kernels, which the host runs.
func OnCUDA() bool { return os.Getenv(variable) == onCUDA }

// OnGPU tells that tests run on the CPU with a StandIn as its GPU, which was asked for.
func OnGPU() bool { return os.Getenv(variable) == asGPU }

// Open returns the device that tests run on.
func Open(k cpu.Kernels) device.Device {
	switch os.Getenv(variable) {
	case byName:
		return NewStandIn(k)
	case onCUDA:
		return openCUDA(k)
	}
	return device.NewCPU(k)
}

// RunAgain runs the tests of the package again, on a StandIn, but for those that the pattern names and the test that
// calls it.
func RunAgain(t *testing.T, skip string) { runAgain(t, byName, skip) }

// RunAgainGPU is RunAgain with a StandIn as GPU.
func RunAgainGPU(t *testing.T, skip string) { runAgain(t, asGPU, skip) }

func runAgain(t *testing.T, name, skip string) {
	if os.Getenv(variable) != "" {
		t.Skip("SKIP: this is the run on another device")
	}
	if race.Enabled {
		t.Skip("SKIP: without the race detector this takes seconds, with it minutes")
	}
	again(t, name, nil, "-test.skip="+skip)
}

// again runs the test's own program on a device.
func again(t *testing.T, on string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.short", "-test.timeout=125m"}, args...)...)
	cmd.Env = append(append(os.Environ(), variable+"="+on), env...)
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "PASS") || strings.Contains(text, "no tests to run") {
		t.Errorf("%v\n%s", err, text)
	}
}

// RunOnCUDA runs the tests of the package that are chosen by -test.run or -test.skip again, on package gpu over the
// stand-in driver at library (drivertest.Build). Its kernels are the GPU's, run by the host, which takes its time.
func RunOnCUDA(t *testing.T, library, choice string) {
	if os.Getenv(variable) != "" {
		t.Skip("SKIP: this is the run on another device")
	}
	again(t, onCUDA, []string{cuda.EnvLibrary + "=" + library}, choice)
}

// theGPU is the process's one device of the stand-in driver.
var theGPU = sync.OnceValues(func() (*cuda.Device, error) { return cuda.Open(cuda.Options{}) })

// openCUDA returns a device on the process's GPU.
func openCUDA(k cpu.Kernels) device.Device {
	d, err := theGPU()
	if err == nil {
		var g *gpu.Device
		if g, err = gpu.New(d, k); err == nil {
			return g
		}
	}
	panic(err) // in tests only
}
