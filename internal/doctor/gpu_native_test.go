//go:build native && cgo && linux && (amd64 || arm64)

package doctor

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda/drivertest"
)

// TestGPUsOfADriver checks that without a driver there is a line with the reason, that with one (a stand-in) each GPU
// has a line, and that a driver that does not answer is a failure.
func TestGPUsOfADriver(t *testing.T) {
	noGPU(t)
	driver := drivertest.OpenSmall(t)
	driver.Set("devices", 2)
	checks := gpus(t.Context(), Options{})
	if len(checks) != 2 || checks[1].Status != OK || !strings.Contains(checks[1].Detail, "1: Stand-in GPU 1") {
		t.Errorf("%+v", checks)
	}
	driver.Set("version", 12040)
	if checks := gpus(t.Context(), Options{}); len(checks) != 2 || checks[0].Status != Missing || checks[0].Bad() ||
		!strings.Contains(checks[0].Hint, "r580") {
		t.Errorf("%+v", checks)
	}
	driver.FailAt(1, 999)
	if checks := gpus(t.Context(), Options{}); len(checks) != 1 || checks[0].Status != Failed ||
		!strings.Contains(checks[0].Detail, "CUDA_ERROR_UNKNOWN") {
		t.Errorf("%+v", checks)
	}
}
