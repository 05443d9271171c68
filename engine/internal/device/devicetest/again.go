package devicetest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

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
