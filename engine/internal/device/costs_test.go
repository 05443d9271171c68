package device_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// TestMeasure: every figure that a choice needs is there, in little more than the time given, and nothing is left on
// the device, also after an error.
func TestMeasure(t *testing.T) {
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	standIn := devicetest.NewStandIn(k)
	for name, d := range map[string]device.Device{"cpu": device.NewCPU(k), "stand-in": standIn} {
		begun := time.Now()
		m, err := device.Measure(t.Context(), d, 20*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if m.Tiles[kernels.F32] <= 0 || m.Read <= 0 || m.Scores <= 0 || m.Launch <= 0 || m.Seconds <= 0 {
			t.Errorf("%s: %+v", name, m)
		}
		if copies := name == "stand-in"; (m.Transfer > 0) != copies {
			t.Errorf("%s: %v bytes per second of copies", name, m.Transfer)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		t.Logf("%s: %+v", name, m)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := device.Measure(ended, standIn, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, method := range devicetest.Methods() {
		standIn.FailAt(method, 2)
		if _, err := device.Measure(t.Context(), standIn, time.Millisecond); standIn.Calls(method) > 1 &&
			!errors.Is(err, devicetest.ErrInjected) || standIn.Live() != 0 {
			t.Errorf("%s failed: %v, %d sets and copies are left", method, err, standIn.Live())
		}
	}
}
