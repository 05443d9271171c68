package devicetest_test

import (
	"errors"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// TestContract: the CPU with every instruction set, and the stand-in, which gives all back.
func TestContract(t *testing.T) {
	for i, isa := range cpu.Available() {
		if race.Enabled && i > 0 {
			break // instruction sets differ in C only
		}
		k, err := cpu.Open(isa.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Run(isa.String(), func(t *testing.T) { devicetest.Contract(t, device.NewCPU(k)) })
	}
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	d := devicetest.NewStandIn(k)
	t.Run("stand-in", func(t *testing.T) { devicetest.Contract(t, d) })
	if d.Live() != 0 || d.FromCopies() == 0 {
		t.Errorf("%d sets and copies are left, %d scores came from copies", d.Live(), d.FromCopies())
	}
}

// TestContractSeveral: several devices are one, also where they are of different kinds, and give all back.
func TestContractSeveral(t *testing.T) {
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	a, b := devicetest.NewStandIn(k), devicetest.NewStandIn(k)
	a.Memory, b.Memory = 1<<30, 1<<30
	for name, d := range map[string]device.Device{
		"two":          device.NewSeveral([]device.Device{a, b}),
		"with the CPU": device.NewSeveral([]device.Device{a, device.NewCPU(k)}),
		"shared":       device.Share(a),
		"limited":      device.Limited(device.Share(b), 1<<20),
	} {
		if race.Enabled && name != "two" {
			continue // the others bring no other goroutines together
		}
		t.Run(name, func(t *testing.T) { devicetest.Contract(t, d) })
		if a.Live() != 0 || b.Live() != 0 || a.FromCopies()+b.FromCopies() == 0 {
			t.Errorf("%s: %d and %d sets and copies are left", name, a.Live(), b.Live())
		}
	}
}

// TestSeveralGiveBack: where one of several devices fails, what the others made is given back.
func TestSeveralGiveBack(t *testing.T) {
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	a, b := devicetest.NewStandIn(k), devicetest.NewStandIn(k)
	a.Memory, b.Memory = 1<<30, 1<<30
	d := device.NewSeveral([]device.Device{a, b})
	b.Room = 100
	rows := cpu.Rows{Data: make([]float32, 100), N: 10, Dim: 10, Stride: 10}
	if _, err := d.New(device.Left, kernels.F32, kernels.IP, 10, 10, 1); !errors.Is(err, device.ErrMemory) {
		t.Errorf("New: %v", err)
	}
	if _, err := d.Upload(rows); !errors.Is(err, device.ErrMemory) {
		t.Errorf("Upload: %v", err)
	}
	if a.Live() != 0 || b.Live() != 0 {
		t.Errorf("%d and %d sets and copies are left", a.Live(), b.Live())
	}
}

// TestFailAt: the n-th call fails, and those after it.
func TestFailAt(t *testing.T) {
	k, err := cpu.Open("go")
	if err != nil {
		t.Fatal(err)
	}
	d := devicetest.NewStandIn(k)
	d.FailAt("New", 2)
	for i, want := range []error{nil, devicetest.ErrInjected, devicetest.ErrInjected} {
		if _, err := d.New(device.Left, kernels.F32, kernels.IP, 1, 1, 1); !errors.Is(err, want) {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	d.FailAt("", 0)
	if _, err := d.New(device.Left, kernels.F32, kernels.IP, 1, 1, 1); err != nil || d.Live() != 2 ||
		d.Calls("New") != 1 {
		t.Errorf("%v, %d live, %d calls", err, d.Live(), d.Calls("New"))
	}
}
